// The contents of DIR/machine.toml of a recorded machine; see machine.h.
#pragma once
#include "athanor/device/machine.h"

namespace athanor {

struct Machine::Record {
  struct FileFacts {
    std::optional<uint32_t> mode, uid, gid;
    std::optional<FileStatus::Kind> kind;
  };
  std::string as_json = "{}";
  std::map<std::string, FileFacts, std::less<>> files;
  std::map<std::string, DiskSpace> disks;
  std::map<std::string, std::string> environment;
  std::optional<int64_t> now;

  /// Throws Error(format) if a value is not of the kind that machine.h describes.
  static Record parse(std::string_view text, const std::string& where);
  /// The disk of the longest folder that contains `path`.
  std::optional<DiskSpace> disk_of(std::string_view path) const;
};

/// Whether `path` is `folder` or inside it.
bool lies_under(std::string_view path, std::string_view folder);

}  // namespace athanor
