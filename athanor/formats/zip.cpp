#include "athanor/formats/zip.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <new>
#include <optional>

#include "athanor/base/os/memory.h"
#include "athanor/base/text.h"
#include "athanor/formats/bytes.h"
#include "athanor/formats/crc32.h"

namespace athanor {
namespace {

constexpr uint32_t local_header = 0x04034b50, directory_entry = 0x02014b50, directory_end = 0x06054b50,
                   zip64_end = 0x06064b50, zip64_locator = 0x07064b50;
constexpr uint32_t in_zip64 = 0xffffffff;  // the number is in the Zip64 field
constexpr size_t local_bytes = 30, entry_bytes = 46, end_bytes = 22, locator_bytes = 20, zip64_end_bytes = 56;

/// Reads numbers in the archive; a position outside is an error.
struct ZipReader {
  Bytes data;
  const std::string& name;

  template <class T>
  T number(uint64_t at) const {
    if (at > data.size() || data.size() - at < sizeof(T)) fail("the archive ends too early", at);
    return load<T>(data.data() + at, std::endian::little);
  }
  Bytes part(uint64_t at, uint64_t size) const {
    if (at > data.size() || data.size() - at < size) fail("the archive ends too early", at);
    return data.subspan(at, size);
  }
  [[noreturn]] void fail(const std::string& what, uint64_t at) const {
    throw format_error(what, name, byte_place(at));
  }
};

/// Where the directory begins, and how many members it lists.
struct ZipDirectory {
  uint64_t offset, count;
};

ZipDirectory find_directory(const ZipReader& zip) {
  // The directory's end is the last thing in the file, except for a comment of up to 65535 bytes.
  if (zip.data.size() < end_bytes) zip.fail("the archive ends too early", zip.data.size());
  const uint64_t last = zip.data.size() - end_bytes, first = last > 65535 ? last - 65535 : 0;
  uint64_t at = last;
  while (zip.number<uint32_t>(at) != directory_end) {
    if (at == first) zip.fail("the archive has no directory: its end is missing", zip.data.size());
    --at;
  }
  ZipDirectory result{zip.number<uint32_t>(at + 16), zip.number<uint16_t>(at + 10)};
  if (at < locator_bytes || zip.number<uint32_t>(at - locator_bytes) != zip64_locator) return result;
  const auto wide = zip.number<uint64_t>(at - locator_bytes + 8);
  if (zip.part(wide, zip64_end_bytes).empty() || zip.number<uint32_t>(wide) != zip64_end)
    zip.fail("the Zip64 directory is not where it should be", wide);
  return {zip.number<uint64_t>(wide + 48), zip.number<uint64_t>(wide + 32)};
}

/// The numbers of the Zip64 field replace those that do not fit into 32 bits, in this order.
void read_zip64(const ZipReader& zip, uint64_t at, uint64_t end, std::initializer_list<uint64_t*> numbers) {
  while (at + 4 <= end) {
    const uint64_t size = zip.number<uint16_t>(at + 2);
    if (zip.number<uint16_t>(at) == 1) {
      uint64_t from = at + 4;
      for (uint64_t* number : numbers)
        if (*number == in_zip64) {
          if (from + 8 > std::min(end, at + 4 + size)) zip.fail("the Zip64 field is too short", at);
          *number = zip.number<uint64_t>(from);
          from += 8;
        }
      return;
    }
    at += 4 + size;
  }
}

ZipMember read_entry(const ZipReader& zip, uint64_t at, uint64_t& next) {
  if (zip.number<uint32_t>(at) != directory_entry) zip.fail("an entry of the directory is damaged", at);
  const auto flags = zip.number<uint16_t>(at + 8), method = zip.number<uint16_t>(at + 10);
  const uint64_t name_bytes = zip.number<uint16_t>(at + 28), extra = zip.number<uint16_t>(at + 30);
  ZipMember member;
  member.crc32 = zip.number<uint32_t>(at + 16);
  member.packed_size = zip.number<uint32_t>(at + 20);
  member.size = zip.number<uint32_t>(at + 24);
  member.offset = zip.number<uint32_t>(at + 42);
  const Bytes text = zip.part(at + entry_bytes, name_bytes);
  member.name.assign(reinterpret_cast<const char*>(text.data()), text.size());
  const uint64_t extra_at = at + entry_bytes + name_bytes;
  (void)zip.part(extra_at, extra);
  read_zip64(zip, extra_at, extra_at + extra, {&member.size, &member.packed_size, &member.offset});
  if ((flags & 1) != 0) zip.fail(fmt::format("'{}' is encrypted", member.name), at);
  if (method != 0 && method != 8)
    zip.fail(
        fmt::format("'{}' is packed by method {}: only stored and deflated are known", member.name, method),
        at);
  member.deflated = method == 8;
  // Deflate shrinks data at best to 1 / 1032.
  if (member.packed_size > zip.data.size() ||
      (member.deflated ? member.size / 1032 > member.packed_size : member.size != member.packed_size))
    zip.fail(fmt::format("'{}' declares {} bytes in {}", member.name, member.size, member.packed_size), at);
  next = extra_at + extra + zip.number<uint16_t>(at + 32);
  return member;
}

std::vector<std::byte> inflated(Bytes packed, uint64_t size, const ZipReader& zip, const ZipMember& member) {
  std::vector<std::byte> result(size);
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
  constexpr uint64_t at_once = uint64_t{1} << 30;  // zlib counts in 32 bits
  uint64_t read = 0, written = 0;
  int status = Z_OK;
  // zlib wants room to see the end of a stream even when nothing more comes.
  std::byte end_room{};
  while (status == Z_OK) {
    stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(packed.data() + read));
    stream.avail_in = static_cast<uInt>(std::min<uint64_t>(packed.size() - read, at_once));
    const bool full = written == size;
    stream.next_out = reinterpret_cast<Bytef*>(full ? &end_room : result.data() + written);
    stream.avail_out = full ? 1 : static_cast<uInt>(std::min<uint64_t>(size - written, at_once));
    const uInt in = stream.avail_in, out = stream.avail_out;
    status = inflate(&stream, Z_NO_FLUSH);
    read += in - stream.avail_in;
    written += out - stream.avail_out;
    if (written > size) break;
  }
  inflateEnd(&stream);
  if (status != Z_STREAM_END || written != size)
    zip.fail(fmt::format("'{}' does not unpack to its {} bytes", member.name, size), member.offset);
  return result;
}

}  // namespace

bool is_zip(Bytes data) {
  return data.size() >= 4 && (load<uint32_t>(data.data(), std::endian::little) == local_header ||
                              load<uint32_t>(data.data(), std::endian::little) == directory_end);
}

std::vector<ZipMember> zip_members(Bytes archive, const std::string& name) {
  const ZipReader zip{archive, name};
  const ZipDirectory directory = find_directory(zip);
  if (directory.count > archive.size() / entry_bytes)
    zip.fail(fmt::format("{} members are declared, more than the archive can hold", directory.count),
             directory.offset);
  std::vector<ZipMember> members;
  uint64_t at = directory.offset, unpacked = 0;
  for (uint64_t i = 0; i < directory.count; ++i) {
    members.push_back(read_entry(zip, at, at));
    unpacked += members.back().size;  // each is at most 1032 times the archive
  }
  if (unpacked > os::physical_memory())
    zip.fail(fmt::format("the members unpack to {}, more than this machine's memory", format_bytes(unpacked)),
             directory.offset);
  return members;
}

std::vector<std::byte> read_zip_member(Bytes archive, const ZipMember& member, const std::string& name) {
  const ZipReader zip{archive, name};
  if (zip.number<uint32_t>(member.offset) != local_header)
    zip.fail(fmt::format("'{}' is not where the directory says", member.name), member.offset);
  const uint64_t before =
      local_bytes + zip.number<uint16_t>(member.offset + 26) + zip.number<uint16_t>(member.offset + 28);
  const Bytes packed = zip.part(member.offset + before, member.packed_size);
  std::vector<std::byte> content = member.deflated ? inflated(packed, member.size, zip, member)
                                                   : std::vector<std::byte>(packed.begin(), packed.end());
  if (crc32_of({content}) != member.crc32)
    zip.fail(fmt::format("the checksum of '{}' is wrong", member.name), member.offset);
  return content;
}

}  // namespace athanor
