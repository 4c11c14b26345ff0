// Checks before long work whether its result can be written.
#pragma once
#include <filesystem>

namespace athanor {

/// Throws the error that write_file_atomically() (file.h) would throw because of the path: its folder is
/// missing, it is a folder itself, or writing there is not allowed. The file at `path` is not changed.
void check_writable(const std::filesystem::path& path);

}  // namespace athanor
