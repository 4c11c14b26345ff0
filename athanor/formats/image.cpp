#include "athanor/formats/image.h"

#include "athanor/formats/bytes.h"
#include "athanor/formats/image_codecs.h"

namespace athanor {

HostArray read_image(const std::filesystem::path& path) {
  return parse_image(read_file(path), path.string());
}

HostArray parse_image(Bytes data, const std::string& name) {
  if (is_png(data)) return parse_png(data, name);
  if (is_jpeg(data)) return parse_jpeg(data, name);
  throw format_error("neither a PNG nor a JPEG picture", name, byte_place(0),
                     "Convert the picture to PNG or JPEG");
}

}  // namespace athanor
