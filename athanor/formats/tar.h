// tar archives (POSIX ustar and pax, and GNU's long names): the positions of their members, which are read
// from the file when they are needed.
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "athanor/base/file.h"

namespace athanor {

struct TarMember {
  std::string name;
  uint64_t offset = 0, size = 0;  // of its bytes in the archive
};

/// The files of an archive, in its order; folders, links and devices are left out. Reads the headers only.
/// Throws Error(io), and Error(format) for an archive that is truncated or damaged, or compressed.
std::vector<TarMember> read_tar_members(const std::filesystem::path& path);

/// A member's bytes. Safe to call from several threads.
std::vector<std::byte> read_tar_member(const std::filesystem::path& path, const TarMember& member);

/// Whether `data` begins with a tar header.
bool is_tar(Bytes data);

/// The same from memory or any other place: read(offset, bytes) fills the bytes and returns how many there
/// were; `size` is that of the archive.
std::vector<TarMember> parse_tar_members(const std::function<size_t(uint64_t, std::span<std::byte>)>& read,
                                         uint64_t size, const std::string& name);

}  // namespace athanor
