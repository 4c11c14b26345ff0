// A short fuzz run in every build: the fuzzers' corpus, and mutations of it that are the same in each run.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "tests/formats/corpus.h"
#include "tests/fuzz/targets.h"

namespace athanor {
namespace {

using Data = std::vector<std::byte>;
using Target = std::function<void(Bytes)>;

/// Changes `data` at one to four places, in ways in which files are damaged.
void mutate(Data& data, std::mt19937& random) {
  const auto below = [&](size_t n) { return n == 0 ? 0 : random() % n; };
  for (size_t i = 1 + below(4); i > 0 && !data.empty(); --i) {
    const size_t at = below(data.size());
    switch (below(6)) {
      case 0:
        data[at] ^= std::byte{1} << below(8);
        break;
      case 1:
        data[at] = static_cast<std::byte>(random());
        break;
      case 2:
        data[at] = below(2) == 0 ? std::byte{0} : std::byte{0xff};
        break;
      case 3:
        data.resize(at);
        break;
      case 4:
        data.erase(data.begin() + static_cast<std::ptrdiff_t>(at));
        break;
      default: {  // repeats a part of the file
        const Data copy(
            data.begin() + static_cast<std::ptrdiff_t>(at),
            data.begin() + static_cast<std::ptrdiff_t>(at + below(std::min<size_t>(data.size() - at, 32))));
        data.insert(data.begin() + static_cast<std::ptrdiff_t>(below(data.size())), copy.begin(), copy.end());
      }
    }
  }
}

void replay(const std::string& folder, const Target& target, int mutations = 500) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(testing::corpus_path(folder)))
    paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  ASSERT_FALSE(paths.empty());
  std::mt19937 random(20240501);
  for (const auto& path : paths) {
    const Data original = read_file(path);
    target(original);
    for (int i = 0; i < mutations; ++i) {
      Data changed = original;
      mutate(changed, random);
      target(changed);
    }
  }
}

TEST(FuzzReplay, Idx) { replay("idx", fuzz::idx); }
TEST(FuzzReplay, Npy) { replay("npy", fuzz::npy); }
TEST(FuzzReplay, Npz) { replay("npz", fuzz::npz); }
TEST(FuzzReplay, Cifar) { replay("cifar", fuzz::cifar, 100); }
TEST(FuzzReplay, Tar) { replay("tar", fuzz::tar); }
TEST(FuzzReplay, Csv) { replay("csv", fuzz::csv); }
TEST(FuzzReplay, SafeTensors) { replay("safetensors", fuzz::safetensors); }
TEST(FuzzReplay, Image) { replay("image", fuzz::image); }
TEST(FuzzReplay, Machine) { replay("machine", fuzz::machine, 60); }

}  // namespace
}  // namespace athanor
