// IDX, the format of MNIST and Fashion-MNIST, plain or gzip-compressed.
//
// Two zero bytes, a type code, the rank, an extent for each axis (u32), then the elements; all big-endian.
// See "The IDX file format" in Y. LeCun, C. Cortes, C. Burges: The MNIST database of handwritten digits.
#pragma once
#include <filesystem>
#include <string>

#include "athanor/base/file.h"
#include "athanor/graph/host_array.h"

namespace athanor {

/// The array in an IDX file. Type codes become u8 (0x08), i8 (0x09), i32 (0x0B, 16-bit, and 0x0C), f32 (0x0D)
/// and f64 (0x0E). Throws Error(io) if it cannot be read, and Error(format) if it is not one complete IDX
/// file.
HostArray read_idx(const std::filesystem::path& path);

/// The same from memory; `name` is the file's name in errors. Allocates memory only after the extents agree
/// with the amount of data, and unpacks compressed data no further than the extents say.
HostArray parse_idx(Bytes data, const std::string& name);

}  // namespace athanor
