#include "athanor/base/file.h"

#include <fmt/format.h>

#include <new>

#include "athanor/base/memory_hint.h"
#include "athanor/base/os/file.h"
#include "athanor/base/os/memory.h"
#include "athanor/base/text.h"

namespace athanor {
namespace {

namespace fs = std::filesystem;

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

std::string space_hint(const fs::path& path, uint64_t needed) {
  std::error_code ignored;
  const fs::path folder = folder_of(path);
  const fs::space_info space = fs::space(folder, ignored);
  if (ignored) return "Free some disk space, or write to another disk";
  return fmt::format("{} needed, {} free in '{}': free some space, or write to another disk",
                     format_bytes(needed), format_bytes(space.available), folder.string());
}

std::string hint_for(std::errc reason, const fs::path& path, uint64_t needed) {
  const std::string folder = folder_of(path).string();
  switch (reason) {
    case std::errc::no_space_on_device:
      return space_hint(path, needed);
    case std::errc::file_too_large:
      return fmt::format(
          "{} needed, more than the process or the file system allows in a file (see 'ulimit -f')",
          format_bytes(needed));
    case std::errc::permission_denied:
    case std::errc::operation_not_permitted:
      return fmt::format("Check the permissions of the file and of the folder '{}'", folder);
    case std::errc::read_only_file_system:
      return fmt::format("'{}' is on a read-only file system: choose another folder", folder);
    case std::errc::no_such_file_or_directory:
      return is_folder(folder) ? "Check the name" : fmt::format("The folder '{}' does not exist", folder);
    case std::errc::not_a_directory:
      return "A part of the path that should be a folder is a file";
    case std::errc::is_a_directory:
      return "This is a folder, a file is needed";
    case std::errc::filename_too_long:
      return "Choose a shorter name";
    case std::errc::too_many_files_open:
      return "Close some files, or raise the limit with 'ulimit -n'";
    case std::errc::timed_out:
      return "It is a pipe that nobody writes to";
    case std::errc::io_error:
      return "The disk reports a defect (see 'dmesg')";
    default:
      return {};
  }
}

/// The file that gets the new content: `path` with symbolic links followed, so that a link stays a link.
/// Follows links to missing files too; canonical() does not.
fs::path target_of(fs::path path) {
  constexpr int most_links = 40;  // as on Linux
  std::error_code failed;
  for (int i = 0; i < most_links && fs::is_symlink(path, failed); ++i)
    path = folder_of(path) / fs::read_symlink(path);  // an absolute link replaces the folder
  return path;
}

void write_all(os::File& file, std::span<const Bytes> parts) {
  for (const Bytes part : parts) file.write(part);
  file.sync();
}

void write_by_rename(const fs::path& path, std::span<const Bytes> parts) {
  fs::path temporary = path;
  temporary += ".tmp";
  os::File file(temporary, os::Open::scratch);
  try {
    write_all(file, parts);
    os::replace_file(temporary, path);
  } catch (...) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    throw;
  }
  os::sync_folder(path.parent_path());
}

/// Reads the file at `path` into `content`.
template <class Container>
void read_into(Container& content, const fs::path& path, uint64_t limit) try {
  os::File file = open_to_read(path);
  const uint64_t memory = os::physical_memory(), most = std::min(limit, memory);
  const auto check = [&](uint64_t bytes) {
    if (bytes <= most) return;
    if (bytes > limit)
      throw Error(ErrorCode::value, fmt::format("the file is longer than {}", format_bytes(limit)),
                  path.string(), "No file of its kind is: check the name");
    throw Error(ErrorCode::out_of_memory,
                fmt::format("the file is larger than this machine's memory of {}", format_bytes(memory)),
                path.string());
  };
  // The size is only a first guess: pipes and /proc report 0, and a file may grow. One extra byte finds the
  // end.
  check(file.size());
  size_t length = 0;
  content.resize(static_cast<size_t>(file.size()) + 1);
  for (;;) {
    length += file.read(std::as_writable_bytes(std::span(content)).subspan(length));
    check(length);
    if (length < content.size()) break;
    content.resize(std::min<uint64_t>(content.size() * 2, most + 1));
  }
  content.resize(length);
} catch (const std::system_error& error) {
  throw file_error("read", path, error.code());
} catch (const Error&) {
  throw;
} catch (const std::exception&) {  // bad_alloc or length_error
  throw Error(ErrorCode::out_of_memory, "the file does not fit into memory", path.string(),
              memory_hint("stop other programs"));
}

}  // namespace

Error file_error(std::string_view verb, const fs::path& path, const std::error_code& reason,
                 uint64_t needed) {
  const auto known = static_cast<std::errc>(reason.default_error_condition().value());
  return {ErrorCode::io, fmt::format("cannot {} the file: {}", verb, reason.message()), path.string(),
          hint_for(known, path, needed)};
}

os::File open_to_read(const fs::path& path) try {
  os::File file(path, os::Open::read);
  if (file.kind() == os::File::Kind::folder)
    throw std::system_error(std::make_error_code(std::errc::is_a_directory));
  if (file.kind() == os::File::Kind::device)
    throw Error(ErrorCode::io, "cannot read the file: it is a device", path.string(),
                "Give a file, or a pipe that ends");
  return file;
} catch (const std::system_error& error) {
  throw file_error("read", path, error.code());
}

std::vector<std::byte> read_file(const fs::path& path, uint64_t limit) {
  std::vector<std::byte> content;
  read_into(content, path, limit);
  return content;
}

std::string read_text_file(const fs::path& path, uint64_t limit) {
  std::string content;
  read_into(content, path, limit);
  return content;
}

void write_file_atomically(const fs::path& path, std::span<const Bytes> parts) {
  uint64_t needed = 0;
  for (const Bytes part : parts) needed += part.size();
  try {
    const fs::path target = target_of(path);
    std::error_code ignored;
    const fs::file_status status = fs::status(target, ignored);
    if (fs::is_directory(status)) throw std::system_error(std::make_error_code(std::errc::is_a_directory));
    if (!fs::exists(status) || fs::is_regular_file(status)) {
      write_by_rename(target, parts);
    } else {
      os::File file(target, os::Open::write);
      write_all(file, parts);
    }
  } catch (const std::system_error& error) {
    throw file_error("write", path, error.code(), needed);
  }
}

void write_file_atomically(const fs::path& path, std::initializer_list<Bytes> parts) {
  write_file_atomically(path, std::span(parts.begin(), parts.size()));
}

void write_file_atomically(const fs::path& path, std::string_view text) {
  write_file_atomically(path, {bytes_of(text)});
}

}  // namespace athanor
