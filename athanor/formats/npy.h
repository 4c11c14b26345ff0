// NumPy's .npy files: one array each. The format is NumPy's NEP 1.
#pragma once
#include <filesystem>
#include <string>

#include "athanor/base/file.h"
#include "athanor/graph/host_array.h"

namespace athanor {

/// The array in a .npy file, always row-major and in this machine's byte order. Element types: f2, f4, f8,
/// i1, i4, i8, u1 and b1 stay the same; i2 and u2 become i32, u4 and u8 become i64. Throws Error(io) if it
/// cannot be read, and Error(format) if it is not one complete .npy file with such elements.
HostArray read_npy(const std::filesystem::path& path);

/// The same from memory; `name` is the file's name in errors.
HostArray parse_npy(Bytes data, const std::string& name);

/// Writes `array` for numpy.load(), atomically. NumPy has no bf16, f8e4m3 and f8e5m2, so such an array
/// is written as f4, without loss. Throws Error(io).
void write_npy(const std::filesystem::path& path, const HostArray& array);

}  // namespace athanor
