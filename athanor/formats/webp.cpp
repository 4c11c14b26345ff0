#include <fmt/format.h>
#include <webp/decode.h>

#include <algorithm>

#include "athanor/formats/bytes.h"
#include "athanor/formats/image.h"
#include "athanor/formats/image_codecs.h"

namespace athanor {
namespace {

// An image of one colour takes some twenty bytes, whatever its size. Up to this size it is decoded anyway.
constexpr uint64_t always_allowed_pixels = uint64_t{1} << 24;
constexpr uint64_t most_pixels_a_byte = 1024;

const uint8_t* start_of(Bytes data) { return reinterpret_cast<const uint8_t*>(data.data()); }

const char* webp_problem(VP8StatusCode status) {
  return status == VP8_STATUS_NOT_ENOUGH_DATA       ? "the data ends too early"
         : status == VP8_STATUS_UNSUPPORTED_FEATURE ? "it uses what libwebp does not support"
                                                    : "its data contradicts itself";
}

WebPBitstreamFeatures webp_features(Bytes data, const std::string& name) {
  WebPBitstreamFeatures features;
  if (const VP8StatusCode status = WebPGetFeatures(start_of(data), data.size(), &features);
      status != VP8_STATUS_OK)
    throw format_error(fmt::format("corrupt WebP: {}", webp_problem(status)), name, "header");
  if (features.has_animation != 0)
    throw format_error("an animated WebP", name, "header", "Save one of its images");
  return features;
}

}  // namespace

bool is_webp(Bytes data) {
  const auto has = [&](size_t at, std::string_view text) {
    return data.size() >= at + text.size() &&
           std::ranges::equal(data.subspan(at, text.size()), bytes_of(text));
  };
  return has(0, "RIFF") && has(8, "WEBP");
}

HostArray parse_webp(Bytes data, const std::string& name) {
  const WebPBitstreamFeatures features = webp_features(data, name);
  const auto width = static_cast<uint64_t>(features.width), height = static_cast<uint64_t>(features.height);
  if (width * height > always_allowed_pixels && width * height / most_pixels_a_byte > data.size())
    throw format_error(fmt::format("an image of {} x {} pixels in {} bytes", width, height, data.size()),
                       name, "header", "It is of one colour, or made to fill the memory: leave it out");
  if (width * height > most_pixels) throw too_many_pixels(width, height, name);
  HostArray picture(DType::u8, {features.height, features.width, 3});
  if (WebPDecodeRGBInto(start_of(data), data.size(), picture.as<uint8_t>().data(), picture.bytes.size(),
                        3 * features.width) == nullptr)
    throw format_error("corrupt WebP: its data ends too early or contradicts itself", name, "image");
  return picture;
}

ImageExtents webp_extents(Bytes data, const std::string& name) {
  const WebPBitstreamFeatures features = webp_features(data, name);
  return {features.height, features.width, 3};
}

}  // namespace athanor
