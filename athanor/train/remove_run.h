// Removing a run.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "athanor/train/run_folder.h"

namespace athanor {

/// Throws Error(usage) unless the folder holds a run that may be removed: a real folder, not a link, with a
/// run that no process works on.
void check_removable(const RunFolder& folder);

/// Removes the files of a run, and its folder when nothing else is in it. Files that no run writes stay, and
/// are returned. Throws as check_removable(), and Error(io).
std::vector<std::filesystem::path> remove_run(const RunFolder& folder);

}  // namespace athanor
