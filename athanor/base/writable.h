// Finding out before long work whether its result can be written.
#pragma once
#include <filesystem>

namespace athanor {

/// Throws what write_file_atomically() (file.h) would throw because of the path: its folder is missing, it is
/// a folder itself, one may not write there. What is at `path` stays as it is.
void check_writable(const std::filesystem::path& path);

}  // namespace athanor
