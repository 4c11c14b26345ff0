// NumPy's .npy files: one array each. The format is NumPy's NEP 1.
#pragma once
#include <filesystem>
#include <string>

#include "athanor/base/file.h"
#include "athanor/graph/host_array.h"

namespace athanor {

/// The array in a .npy file, row-major whatever the file's order, in this machine's byte order. Element
/// types: f2, f4, f8, i1, i4, i8, u1 and b1 as they are; i2 and u2 become i32, u4 and u8 become i64. Throws
/// Error(io) when it cannot be read, Error(format) when it is not one whole .npy file with such elements.
HostArray read_npy(const std::filesystem::path& path);

/// The same from memory; `name` stands for the file in errors.
HostArray parse_npy(Bytes data, const std::string& name);

/// Writes `array` for numpy.load(), atomically. NumPy has no bf16: such an array is written, exactly, as f4.
/// Throws Error(io).
void write_npy(const std::filesystem::path& path, const HostArray& array);

}  // namespace athanor
