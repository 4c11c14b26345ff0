// A machine of tests/machines in a separate folder, for the duration of a test.
#pragma once
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "athanor/base/file.h"
#include "athanor/base/text.h"
#include "athanor/device/machine.h"
#include "athanor/device/provider_names.h"
#include "tests/support/machine_fixture.h"
#include "tests/support/temp_folder.h"

/// For tests that need the answers of backends' runtimes, even for a recorded machine. The fuzzers' build
/// has no backends.
#define ATHANOR_NEEDS_BACKENDS() \
  if (athanor::provider_names().empty()) GTEST_SKIP() << "this build has no backends"

namespace athanor::testing {

inline std::filesystem::path machines_folder() {
  return std::filesystem::path(ATHANOR_SOURCE_DIR) / "tests" / "machines";
}

/// Does not sync to the disk, which would be slow.
inline void write_text(const std::filesystem::path& file, const std::string& text) {
  std::ofstream(file, std::ios::binary) << text;
}

struct TemporaryFolder : TempFolder {
  TemporaryFolder() : TempFolder(Where::memory) {}
};

/// A machine by name, such as "doctor/row03-kfd-permission", unpacked.
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
      write_text(place, text);
    }
    machine_ = std::make_unique<Machine>(folder_.path());
  }
  const Machine& operator*() const { return *machine_; }
  const Machine* operator->() const { return machine_.get(); }
  const std::filesystem::path& root() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
  std::unique_ptr<Machine> machine_;
};

}  // namespace athanor::testing
