// Pictures to arrays: PNG (ISO/IEC 15948) and JPEG (ISO/IEC 10918-1), by libpng and libjpeg.
#pragma once
#include <filesystem>
#include <string>

#include "athanor/base/file.h"
#include "athanor/graph/host_array.h"

namespace athanor {

/// Pictures of more pixels are not decoded whole: a small file may hold a huge picture, and memory is needed
/// for each pixel. It is what the largest cameras make, and takes 400 MB in colour.
inline constexpr uint64_t most_pixels = uint64_t{1} << 27;  // 134 million

/// The picture in a PNG or JPEG file, told apart by content: u8 [height, width, channels], 1 channel for
/// grey, 3 for red, green, blue. Palettes are looked up, 16-bit samples scaled to 8, transparency is dropped;
/// gamma, colour profile and EXIF orientation are not applied (as in Pillow's convert("L") and
/// convert("RGB")).
///
/// A JPEG of more than most_pixels is read at a half, a quarter or an eighth of its width and height; a PNG,
/// or a JPEG in several scans (progressive), of more is an Error(value).
///
/// Throws Error(io) when it cannot be read, Error(value) when it is longer than 512 MiB, Error(format) when
/// it is neither, truncated, corrupt, or a JPEG in CMYK or with arithmetic coding.
HostArray read_image(const std::filesystem::path& path);

/// The same from memory; `name` stands for the file in errors. Memory is taken in proportion to the data: a
/// picture larger than so few bytes can encode is an error before any is.
HostArray parse_image(Bytes data, const std::string& name);

}  // namespace athanor
