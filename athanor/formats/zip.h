// ZIP archives in memory, such as NumPy's .npz: members that are stored or deflated (APPNOTE.TXT 6.3, with
// Zip64).
#pragma once
#include <string>
#include <vector>

#include "athanor/base/file.h"

namespace athanor {

struct ZipMember {
  std::string name;
  uint64_t size = 0;  // unpacked
  uint64_t packed_size = 0, offset = 0;
  uint32_t crc32 = 0;
  bool deflated = false;
};

/// Whether `data` starts like an archive.
bool is_zip(Bytes data);

/// The members that the archive's directory lists. Throws Error(format) for an archive that is truncated,
/// contradicts itself, is encrypted, or has a member with another compression method, or with more content
/// than its bytes can hold.
std::vector<ZipMember> zip_members(Bytes archive, const std::string& name);

/// A member's content, checked against its CRC-32. Throws Error(format).
std::vector<std::byte> read_zip_member(Bytes archive, const ZipMember& member, const std::string& name);

}  // namespace athanor
