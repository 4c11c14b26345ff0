// A machine of tests/machines in a folder of its own, for as long as the test runs.
#pragma once
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "athanor/base/text.h"
#include "athanor/device/machine.h"
#include "tests/support/machine_fixture.h"

namespace athanor::testing {

inline std::filesystem::path machines_folder() {
  return std::filesystem::path(ATHANOR_SOURCE_DIR) / "tests" / "machines";
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "athanor-doctor-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// "doctor/row03-kfd-permission", unpacked.
class UnpackedMachine {
 public:
  explicit UnpackedMachine(const std::string& name) {
    MachineFixture(machines_folder() / (name + ".machine")).unpack(folder_.path());
    machine_ = std::make_unique<Machine>(folder_.path());
  }
  /// Files given as text: path and content.
  explicit UnpackedMachine(const std::map<std::string, std::string>& files) {
    for (const auto& [path, text] : files) {
      const auto place = folder_.path() / path.substr(1);
      std::filesystem::create_directories(place.parent_path());
      std::ofstream(place, std::ios::binary) << text;
    }
    machine_ = std::make_unique<Machine>(folder_.path());
  }
  const Machine& operator*() const { return *machine_; }
  const std::filesystem::path& root() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
  std::unique_ptr<Machine> machine_;
};

}  // namespace athanor::testing
