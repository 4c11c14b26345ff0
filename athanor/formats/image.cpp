#include "athanor/formats/image.h"

#include <fmt/format.h>

#include "athanor/formats/bytes.h"
#include "athanor/formats/image_codecs.h"

namespace athanor {

namespace {

constexpr uint64_t longest_image = uint64_t{512} << 20;

Error no_image(const std::string& name) {
  return format_error("neither a PNG, a JPEG nor a WebP picture", name, byte_place(0),
                      "Convert the picture to PNG or JPEG");
}

}  // namespace

HostArray read_image(const std::filesystem::path& path, int64_t least_side) {
  return parse_image(read_file(path, longest_image), path.string(), least_side);
}

Error too_many_pixels(uint64_t width, uint64_t height, const std::string& name) {
  return {ErrorCode::value,
          fmt::format("the picture has {} x {} pixels, more than {} million", width, height,
                      most_pixels / 1'000'000),
          name, fmt::format("Make it smaller, for example: convert {} -resize 25% smaller.png", name)};
}

HostArray parse_image(Bytes data, const std::string& name, int64_t least_side) {
  if (is_png(data)) return parse_png(data, name);
  if (is_jpeg(data)) return parse_jpeg(data, name, least_side);
  if (is_webp(data)) return parse_webp(data, name);
  throw no_image(name);
}

ImageExtents read_image_extents(const std::filesystem::path& path) {
  constexpr size_t usual_header = size_t{1} << 14;
  os::File file = open_to_read(path);
  if (file.kind() == os::File::Kind::file && file.size() > usual_header) {
    std::vector<std::byte> beginning(usual_header);
    beginning.resize(file.read(beginning));
    try {
      return parse_image_extents(beginning, path.string());
    } catch (const Error&) {  // a JPEG may have a small picture of itself before its header
    }
  }
  return parse_image_extents(read_file(path, longest_image), path.string());
}

ImageExtents parse_image_extents(Bytes data, const std::string& name) {
  if (is_png(data)) return png_extents(data, name);
  if (is_jpeg(data)) return jpeg_extents(data, name);
  if (is_webp(data)) return webp_extents(data, name);
  throw no_image(name);
}

}  // namespace athanor
