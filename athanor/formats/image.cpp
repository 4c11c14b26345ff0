#include "athanor/formats/image.h"

#include <fmt/format.h>

#include "athanor/formats/bytes.h"
#include "athanor/formats/image_codecs.h"

namespace athanor {

namespace {

constexpr uint64_t longest_image = uint64_t{512} << 20;

Error no_image(const std::string& name) {
  return format_error("neither a PNG, a JPEG nor a WebP image", name, byte_place(0),
                      "Convert the image to PNG or JPEG");
}

}  // namespace

HostArray read_image(const std::filesystem::path& path, int64_t least_side) {
  return parse_image(read_file(path, longest_image), path.string(), least_side);
}

HostArray read_mask(const std::filesystem::path& path) {
  return parse_mask(read_file(path, longest_image), path.string());
}

HostArray parse_mask(Bytes data, const std::string& name) {
  if (is_png(data)) return parse_png_numbers(data, name);
  throw format_error("a mask must be a PNG", name, byte_place(0),
                     "Save it as PNG, which keeps numbers as they are");
}

std::vector<Color> mask_palette(int64_t classes) {
  std::vector<Color> palette;
  for (int64_t index = 0; index < classes; ++index) {
    Color color{};
    for (int bit = 0; bit < 8;
         ++bit)  // three bits of the number at a time, from the highest bit of a colour on
      for (size_t c = 0; c < 3; ++c)
        color[c] =
            static_cast<uint8_t>(color[c] | ((index >> (3 * bit + static_cast<int>(c))) & 1) << (7 - bit));
    palette.push_back(color);
  }
  return palette;
}

Error too_many_pixels(uint64_t width, uint64_t height, const std::string& name) {
  return {ErrorCode::value,
          fmt::format("the image has {} x {} pixels, more than {} million", width, height,
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
    } catch (const Error&) {  // a JPEG may have a small image of itself before its header
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
