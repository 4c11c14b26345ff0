// A folder for a test's files. It is removed at the end of the test.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <random>
#include <string>

namespace athanor::testing {

class TempFolder {
 public:
  enum class Where {
    disk,
    // in memory, if the system has such a file system with room. For files that are flushed often, which can
    // take minutes on a busy disk, and for hundreds of small ones.
    memory,
  };
  explicit TempFolder(Where where = Where::disk) : path_(parent(where) / unique_name()) {
    std::filesystem::create_directories(path_);
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  static std::filesystem::path parent(Where where) {
    constexpr uintmax_t room = uintmax_t{512} << 20;
    const std::filesystem::path memory = "/dev/shm";
    std::error_code ignored;
    const bool fits = where == Where::memory && access(memory.c_str(), W_OK) == 0 &&
                      std::filesystem::space(memory, ignored).available >= room && !ignored;
    return fits ? memory : std::filesystem::temp_directory_path();
  }
  static std::string unique_name() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    std::string name = std::string("athanor-") + (test != nullptr ? test->name() : "test");
    for (char& c : name)
      if (c == '/') c = '_';
    return name + "-" + std::to_string(std::random_device{}());
  }

  std::filesystem::path path_;
};

}  // namespace athanor::testing
