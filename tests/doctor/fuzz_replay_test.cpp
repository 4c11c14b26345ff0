// Runs the fuzzer's corpus, and each of its files cut short, as tests.
#include <gtest/gtest.h>

#include "athanor/base/file.h"
#include "tests/fuzz/doctor_target.h"

namespace athanor {
namespace {

TEST(FuzzCorpus, OfDoctorIsReadWithoutHarm) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(ATHANOR_SOURCE_DIR) /
                                                               "tests/fuzz/corpus/doctor")) {
    const std::string data = read_text_file(entry.path());
    for (size_t length = 0; length <= data.size(); length += 1 + length / 8)
      fuzz::doctor(std::string_view(data).substr(0, length));
    fuzz::doctor(data);
    ++files;
  }
  EXPECT_GE(files, 10);
}

}  // namespace
}  // namespace athanor
