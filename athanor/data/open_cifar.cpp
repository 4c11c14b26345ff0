#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/base/file.h"
#include "athanor/base/text.h"
#include "athanor/data/openers.h"
#include "athanor/formats/cifar.h"

namespace athanor {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t longest_cifar_file = uint64_t{1} << 30;

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::vector<std::string> cifar_files(Cifar kind, Split split) {
  if (kind == Cifar::hundred) return {split == Split::train ? "train.bin" : "test.bin"};
  if (split == Split::test) return {"test_batch.bin"};
  return {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"};
}

Cifar cifar_kind(const fs::path& folder) {
  return is_there(folder / "train.bin") || is_there(folder / "test.bin") ? Cifar::hundred : Cifar::ten;
}

HostArray joined(const std::vector<HostArray>& parts) {
  int64_t count = 0;
  for (const HostArray& part : parts) count += part.shape[0];
  HostArray whole(parts.front().dtype, parts.front().shape.with(0, count));
  auto out = whole.bytes.begin();
  for (const HostArray& part : parts) out = std::ranges::copy(part.bytes, out).out;
  return whole;
}

FileArray read_cifar(const fs::path& folder, Cifar kind, Split split, bool labels) {
  std::vector<HostArray> parts;
  fs::path path;
  for (const std::string& name : cifar_files(kind, split)) {
    path = folder / name;
    if (!is_there(path))
      throw Error(ErrorCode::io, fmt::format("the file {} is missing", name), folder.string(),
                  "Unpack the whole archive of the binary version again");
    CifarBatch batch = parse_cifar(read_file(path, longest_cifar_file), kind, path.string());
    parts.push_back(std::move(labels ? batch.labels : batch.images));
  }
  return {path, joined(parts)};
}

/// The lines of the file that names the classes; {} if there is none.
std::vector<std::string> cifar_class_names(const fs::path& folder, Cifar kind) {
  constexpr uint64_t longest_list = 1 << 16;
  const fs::path path = folder / (kind == Cifar::ten ? "batches.meta.txt" : "fine_label_names.txt");
  if (!is_there(path)) return {};
  std::vector<std::string> names;
  for (const std::string& line : split(read_text_file(path, longest_list), '\n'))
    if (!trim(line).empty()) names.push_back(trim(line));
  return names.size() == (kind == Cifar::ten ? 10U : 100U) ? names : std::vector<std::string>();
}

}  // namespace

std::optional<fs::path> find_cifar(const fs::path& folder) {
  for (const fs::path& place : {folder, folder / "cifar-10-batches-bin", folder / "cifar-100-binary"})
    for (const char* file : {"data_batch_1.bin", "test_batch.bin", "train.bin", "test.bin"})
      if (is_there(place / file)) return place;
  return std::nullopt;
}

std::shared_ptr<const Dataset> open_cifar(const fs::path& folder, Split split, const DataOptions& options) {
  const Cifar kind = cifar_kind(folder);
  DataOptions known = options;
  std::vector<std::string> names = cifar_class_names(folder, kind);
  if (!known.like && names.empty()) {
    names.reserve(100);
    for (int i = 0; i < (kind == Cifar::ten ? 10 : 100); ++i) names.push_back(fmt::format("class {}", i));
  }
  return open_arrays([=](Split part, bool labels) { return read_cifar(folder, kind, part, labels); }, split,
                     std::move(names), known);
}

}  // namespace athanor
