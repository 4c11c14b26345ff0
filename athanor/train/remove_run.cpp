#include "athanor/train/remove_run.h"

#include <algorithm>

#include "athanor/base/error.h"
#include "athanor/base/file.h"

namespace athanor {

namespace fs = std::filesystem;

void check_removable(const RunFolder& folder) {
  const auto refuse = [&](const std::string& why, const std::string& hint) {
    throw Error(ErrorCode::usage, why, folder.path.string(), hint);
  };
  std::error_code failed;
  const fs::file_status there = fs::symlink_status(folder.path, failed);
  if (!fs::exists(there)) refuse("there is no such folder", "See 'athanor runs ls'");
  if (fs::is_symlink(there)) refuse("it is a link, not the folder of a run", "Give the folder itself");
  if (!fs::is_directory(there) || !folder.has_run())
    refuse("it is not the folder of a run, and nothing was removed", "See 'athanor runs ls'");
  if (folder.is_locked()) refuse("a process is at work on this run", "Stop it first");
}

std::vector<fs::path> remove_run(const RunFolder& folder) {
  check_removable(folder);
  const auto lock = folder.take_lock();
  // config.json marks the folder as a run. It goes last, so that after an interruption the rest can be
  // removed.
  std::vector<fs::path> files = folder.files();
  std::ranges::stable_partition(files, [&](const fs::path& file) { return file != folder.config(); });
  for (const fs::path& file : files) {
    std::error_code failed;
    fs::remove(file, failed);
    if (failed) throw file_error("remove", file, failed);
  }
  std::error_code ignored;
  fs::remove(folder.path, ignored);  // which fails if something is left
  std::vector<fs::path> left;
  for (fs::directory_iterator at(folder.path, ignored), end; !ignored && at != end; at.increment(ignored))
    left.push_back(at->path());
  std::ranges::sort(left);
  return left;
}

}  // namespace athanor
