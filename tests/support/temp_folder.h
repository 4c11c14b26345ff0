// A folder for a test's files, gone when the test is.
#pragma once
#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <string>

namespace athanor::testing {

class TempFolder {
 public:
  TempFolder() : path_(std::filesystem::temp_directory_path() / unique_name()) {
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
