#include "athanor/formats/image.h"

#include <fmt/format.h>

#include "athanor/formats/bytes.h"
#include "athanor/formats/image_codecs.h"

namespace athanor {

HostArray read_image(const std::filesystem::path& path) {
  constexpr uint64_t longest = uint64_t{512} << 20;
  return parse_image(read_file(path, longest), path.string());
}

Error too_many_pixels(uint64_t width, uint64_t height, const std::string& name) {
  return {ErrorCode::value,
          fmt::format("the picture has {} x {} pixels, more than {} million", width, height,
                      most_pixels / 1'000'000),
          name, fmt::format("Make it smaller, for example: convert {} -resize 25% smaller.png", name)};
}

HostArray parse_image(Bytes data, const std::string& name) {
  if (is_png(data)) return parse_png(data, name);
  if (is_jpeg(data)) return parse_jpeg(data, name);
  throw format_error("neither a PNG nor a JPEG picture", name, byte_place(0),
                     "Convert the picture to PNG or JPEG");
}

}  // namespace athanor
