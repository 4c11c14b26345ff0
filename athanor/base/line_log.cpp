#include "athanor/base/line_log.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <system_error>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/base/file.h"

namespace athanor {
namespace {

os::File open_log(const std::filesystem::path& path) {
  try {
    return {path, os::Open::append};
  } catch (const std::system_error& error) {
    throw file_error("open", path, error.code());
  }
}

/// Throws unless the log has at least `keep_bytes` bytes and a line ends there.
void check_kept(const std::filesystem::path& path, uint64_t size, uint64_t keep_bytes) {
  static constexpr auto hint = "The file was changed since the checkpoint: restore it, or start a new run";
  if (size < keep_bytes)
    throw Error(ErrorCode::format,
                fmt::format("the log has {} bytes, of which {} were to be kept", size, keep_bytes),
                path.string(), hint);
  if (keep_bytes == 0) return;
  if (read_text_file(path)[static_cast<size_t>(keep_bytes) - 1] != '\n')
    throw Error(ErrorCode::format, "the log cannot be cut in the middle of a line",
                fmt::format("{}, byte {}", path.string(), keep_bytes), hint);
}

}  // namespace

LineLog::LineLog(std::filesystem::path path, uint64_t keep_bytes)
    : path_(std::move(path)), file_(open_log(path_)), size_(keep_bytes) {
  try {
    const uint64_t size = file_.size();
    check_kept(path_, size, keep_bytes);
    if (size > keep_bytes) file_.truncate(keep_bytes);
  } catch (const std::system_error& error) {
    throw file_error("truncate", path_, error.code());
  }
}

void LineLog::write(std::string_view line) {
  const std::string whole = std::string(line) + '\n';
  try {
    file_.write(bytes_of(whole));
  } catch (const std::system_error& error) {
    try {
      file_.truncate(size_);
    } catch (
        const std::system_error&) {  // a device such as /dev/full has nothing to cut; report the first error
    }
    throw file_error("append to", path_, error.code(), whole.size());
  }
  size_ += whole.size();
}

void LineLog::sync() {
  try {
    file_.sync();
  } catch (const std::system_error& error) {
    throw file_error("append to", path_, error.code());
  }
}

}  // namespace athanor
