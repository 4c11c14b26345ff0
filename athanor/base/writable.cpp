#include "athanor/base/writable.h"

#include "athanor/base/file.h"
#include "athanor/base/os/file.h"

namespace athanor {

namespace fs = std::filesystem;

void check_writable(const fs::path& path) try {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  if (fs::is_directory(status)) throw std::system_error(std::make_error_code(std::errc::is_a_directory));
  if (fs::exists(status) && !fs::is_regular_file(status)) return;  // a pipe would wait for its reader
  fs::path trial = fs::is_symlink(path, ignored) ? fs::weakly_canonical(path, ignored) : path;
  trial += ".tmp";  // the file that write_file_atomically() makes
  const os::File file(trial, os::Open::scratch);
  fs::remove(trial, ignored);
} catch (const std::system_error& error) {
  throw file_error("write", path, error.code());
}

}  // namespace athanor
