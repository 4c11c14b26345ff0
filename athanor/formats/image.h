// Images to arrays: PNG (ISO/IEC 15948), JPEG (ISO/IEC 10918-1) and WebP (RFC 9649), by libpng, libjpeg and
// libwebp; and arrays to PNG.
#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "athanor/base/file.h"
#include "athanor/graph/host_array.h"

namespace athanor {

/// Images of more pixels are not decoded whole: a small file may hold a huge image, and each pixel needs
/// memory. The largest cameras make images of this size; they take 400 MB in colour.
inline constexpr uint64_t most_pixels = uint64_t{1} << 27;  // 134 million

/// The image in a PNG, JPEG or WebP file, told apart by content: u8 [height, width, channels], 1 channel
/// for grey, 3 for red, green, blue (always in WebP). Palettes are looked up, CMYK is converted, 16-bit
/// samples scaled to 8, transparency is dropped; gamma, colour profile and EXIF orientation are not applied
/// (as in Pillow's convert("L") and convert("RGB")).
///
/// A JPEG of more than most_pixels is read at a half, a quarter or an eighth of its width and height; so is
/// one whose sides stay at least `least_side` long (0: never), which is faster. A PNG or WebP, or a JPEG in
/// several scans (progressive), of more than most_pixels is an Error(value).
///
/// Throws Error(io) when it cannot be read, Error(value) when it is longer than 512 MiB, Error(format) when
/// it is none of these, truncated, corrupt, a JPEG with arithmetic coding, or an animated WebP.
HostArray read_image(const std::filesystem::path& path, int64_t least_side = 0);

/// The same from memory; `name` stands for the file in errors. Memory is allocated in proportion to the data:
/// if the data is too short for the image, this is an error before anything is allocated. WebP encodes one
/// colour of any size in a few bytes: above 16 million pixels it must have a byte for each 1024 of them.
HostArray parse_image(Bytes data, const std::string& name, int64_t least_side = 0);

struct ImageExtents {
  int64_t height = 0, width = 0, channels = 0;
  bool operator==(const ImageExtents&) const = default;
};

/// The header's content. Reads no pixels, and only the beginning of most files. Throws as read_image().
ImageExtents read_image_extents(const std::filesystem::path& path);
/// The same from memory, which may be the beginning of a file.
ImageExtents parse_image_extents(Bytes data, const std::string& name);

/// The numbers in a PNG file of grey or with a palette, as they are stored: u8 [height, width, 1]. Throws as
/// read_image(), and Error(format) for a PNG of colours or of 16 bits.
HostArray read_mask(const std::filesystem::path& path);
HostArray parse_mask(Bytes data, const std::string& name);

/// `picture`, u8 [height, width, 1 or 3], as a PNG file.
std::vector<std::byte> format_png(const HostArray& picture);

/// Red, green and blue.
using Color = std::array<uint8_t, 3>;
/// Distinguishable colours for this many classes: those of PASCAL VOC, the first black.
std::vector<Color> mask_palette(int64_t classes);
/// `mask`, u8 [height, width, 1], as a PNG file with the palette, which has a colour for each number.
std::vector<std::byte> format_mask(const HostArray& mask, const std::vector<Color>& palette);

}  // namespace athanor
