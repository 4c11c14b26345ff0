#include "athanor/formats/tar.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <optional>
#include <string_view>

#include "athanor/formats/bytes.h"
#include "athanor/formats/gzip.h"

namespace athanor {
namespace {

constexpr uint64_t tar_block = 512;
constexpr uint64_t longest_extension = 1 << 20;  // of names and the like

std::string_view text_at(Bytes header, size_t at, size_t length) {
  const std::string_view field(reinterpret_cast<const char*>(header.data()) + at, length);
  return field.substr(0, field.find('\0'));
}

/// Octal digits, or with the first bit set a binary number (GNU, for files from 8 GiB on).
std::optional<uint64_t> number_at(Bytes header, size_t at, size_t length) {
  if ((header[at] & std::byte{0x80}) != std::byte{0}) {
    uint64_t value = static_cast<uint64_t>(header[at] & std::byte{0x7f});
    for (size_t i = 1; i < length; ++i) {
      if (value >> 55 != 0) return std::nullopt;
      value = value << 8 | static_cast<uint64_t>(header[at + i]);
    }
    return value;
  }
  std::string_view digits = text_at(header, at, length);
  while (!digits.empty() && digits.front() == ' ') digits.remove_prefix(1);
  uint64_t value = 0;
  const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 8);
  if (failed != std::errc()) return std::nullopt;
  for (const char* c = end; c != digits.data() + digits.size(); ++c)
    if (*c != ' ') return std::nullopt;
  return value;
}

/// Whether the header's checksum is right: the sum of its bytes, with the checksum itself as blanks.
bool checksum_fits(Bytes header) {
  constexpr size_t at = 148, length = 8;
  uint64_t sum = length * ' ';
  for (size_t i = 0; i < tar_block; ++i)
    if (i < at || i >= at + length) sum += static_cast<uint64_t>(header[i]);
  return number_at(header, at, length) == sum;
}

std::string name_in(Bytes header) {
  const std::string name(text_at(header, 0, 100));
  const std::string_view prefix = text_at(header, 257, 6) == "ustar" ? text_at(header, 345, 155) : "";
  return prefix.empty() ? name : fmt::format("{}/{}", prefix, name);
}

/// The content of a pax header about the next member: lines "LENGTH KEY=VALUE\n".
struct Pax {
  std::optional<std::string> path;
  std::optional<uint64_t> size;
};

/// Returns false if the text is not such a header.
bool read_pax(std::string_view text, Pax& pax) {
  while (!text.empty() && text.front() != '\0') {
    size_t length = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), length);
    const auto digits = static_cast<size_t>(end - text.data());
    if (failed != std::errc() || length > text.size() || digits + 2 > length || text[digits] != ' ' ||
        text[length - 1] != '\n')
      return false;
    const std::string_view line = text.substr(digits + 1, length - digits - 2);
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos) return false;
    const std::string_view key = line.substr(0, equals), value = line.substr(equals + 1);
    if (key == "path") pax.path = value;
    if (key == "size") {
      uint64_t size = 0;
      if (std::from_chars(value.data(), value.data() + value.size(), size).ec != std::errc()) return false;
      pax.size = size;
    }
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace

std::vector<TarMember> read_tar_members(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::error_code failed;
  const uint64_t size = std::filesystem::file_size(path, failed);
  if (!file || failed)
    throw file_error("open", path, failed ? failed : std::make_error_code(std::errc(errno)));
  return parse_tar_members(
      [&](uint64_t offset, std::span<std::byte> out) {
        file.clear();
        file.seekg(static_cast<std::streamoff>(offset));
        file.read(reinterpret_cast<char*>(out.data()), static_cast<std::streamsize>(out.size()));
        return static_cast<size_t>(file.gcount());
      },
      size, path.string());
}

std::vector<std::byte> read_tar_member(const std::filesystem::path& path, const TarMember& member) {
  std::ifstream file(path, std::ios::binary);
  std::vector<std::byte> content(member.size);
  file.seekg(static_cast<std::streamoff>(member.offset));
  file.read(reinterpret_cast<char*>(content.data()), static_cast<std::streamsize>(content.size()));
  if (static_cast<uint64_t>(file.gcount()) < member.size)
    throw format_error(fmt::format("'{}' is not there any more", member.name), path.string(),
                       byte_place(member.offset));
  return content;
}

bool is_tar(Bytes data) { return data.size() >= tar_block && checksum_fits(data.first(tar_block)); }

std::vector<TarMember> parse_tar_members(const std::function<size_t(uint64_t, std::span<std::byte>)>& read,
                                         uint64_t size, const std::string& name) {
  std::vector<TarMember> members;
  std::vector<std::byte> header(tar_block);
  std::optional<std::string> long_name;
  Pax pax;
  uint64_t at = 0;
  const auto fail = [&](const std::string& what) { throw format_error(what, name, byte_place(at)); };
  while (at < size) {
    if (size - at < tar_block || read(at, header) < tar_block) fail("the archive ends too early");
    if (std::ranges::all_of(header, [](std::byte b) { return b == std::byte{0}; })) break;  // its end
    if (at == 0 && is_gzip(header))
      throw format_error("the archive is compressed: its images could not be read one by one", name,
                         byte_place(0), "Unpack it: gunzip FILE");
    if (!checksum_fits(header)) fail("this is not a tar header, or it is damaged");
    const auto declared = number_at(header, 124, 12);
    if (!declared) fail("the size of a member is not a number");
    const auto kind = static_cast<char>(header[156]);
    const uint64_t bytes = kind != 'x' && kind != 'L' && pax.size ? *pax.size : *declared;
    const uint64_t from = at + tar_block;
    if (bytes > size - from)
      fail(fmt::format("a member of {} bytes is declared, and {} are left", bytes, size - from));
    if (kind == 'L' || kind == 'x') {
      if (bytes > longest_extension) fail(fmt::format("a name of {} bytes", bytes));
      std::vector<std::byte> content(bytes);
      if (read(from, content) < bytes) fail("the archive ends too early");
      const std::string_view text(reinterpret_cast<const char*>(content.data()), content.size());
      if (kind == 'L')
        long_name = std::string(text.substr(0, text.find('\0')));
      else if (!read_pax(text, pax))
        fail("a pax header is damaged");
    } else {
      if (kind == '0' || kind == '\0' || kind == '7')
        members.push_back({pax.path ? *pax.path : long_name ? *long_name : name_in(header), from, bytes});
      long_name.reset();
      pax = {};
    }
    const uint64_t blocks = bytes / tar_block + (bytes % tar_block != 0 ? 1 : 0);
    if (blocks > (size - from) / tar_block) {
      if (kind == 'L' || kind == 'x') fail("the archive ends too early");
      break;  // the last member may have no padding, as some writers leave it
    }
    at = from + blocks * tar_block;
  }
  return members;
}

}  // namespace athanor
