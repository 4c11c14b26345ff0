// NumPy's .npz files: named arrays, each as .npy in a ZIP archive.
#pragma once
#include <filesystem>
#include <map>
#include <string>

#include "athanor/base/file.h"
#include "athanor/graph/host_array.h"

namespace athanor {

/// The arrays of numpy.savez() and savez_compressed(), by name, with elements as read_npy() returns them.
/// Throws Error(io) if the file cannot be read, and Error(format) if it is corrupt or a member is no .npy.
std::map<std::string, HostArray> read_npz(const std::filesystem::path& path);
/// The same from memory; `name` is the file's name in errors.
std::map<std::string, HostArray> parse_npz(Bytes data, const std::string& name);

}  // namespace athanor
