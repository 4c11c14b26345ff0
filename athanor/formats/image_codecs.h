// The decoders behind image.h. Each follows the contract of read_image() for its format.
#pragma once
#include <string>

#include "athanor/base/error.h"
#include "athanor/base/file.h"
#include "athanor/formats/image.h"
#include "athanor/graph/host_array.h"

namespace athanor {

/// The error for an image that would have to be decoded whole.
Error too_many_pixels(uint64_t width, uint64_t height, const std::string& name);

bool is_png(Bytes data);
HostArray parse_png(Bytes data, const std::string& name);
HostArray parse_png_numbers(Bytes data, const std::string& name);
ImageExtents png_extents(Bytes data, const std::string& name);

bool is_jpeg(Bytes data);
HostArray parse_jpeg(Bytes data, const std::string& name, int64_t least_side);
ImageExtents jpeg_extents(Bytes data, const std::string& name);

bool is_webp(Bytes data);
HostArray parse_webp(Bytes data, const std::string& name);
ImageExtents webp_extents(Bytes data, const std::string& name);

}  // namespace athanor
