#include <fmt/format.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>  // before jpeglib.h, which needs FILE

#include <jpeglib.h>
// clang-format off
#include <jerror.h>  // after jpeglib.h
// clang-format on

#include <vector>

#include "athanor/formats/bytes.h"
#include "athanor/formats/image.h"
#include "athanor/formats/image_codecs.h"

namespace athanor {
namespace {

/// A progressive file may repeat scans without end, and each takes a pass over the image. Encoders write
/// about ten scans.
constexpr int most_scans = 500;

/// libjpeg's state, and the data of our callbacks. libjpeg reports errors through callbacks that must not
/// return. Ours use longjmp, which must not skip destructors of C++ objects: the functions below that call
/// setjmp have none, and return false after an error.
struct JpegDecoder {
  jpeg_decompress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf after_error{};
  char message[JMSG_LENGTH_MAX] = "";

  JpegDecoder() = default;
  ~JpegDecoder() { jpeg_destroy_decompress(&jpeg); }
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;
};

[[noreturn]] void on_error(j_common_ptr jpeg) {
  auto* decoder = static_cast<JpegDecoder*>(jpeg->client_data);
  jpeg->err->format_message(jpeg, decoder->message);
  std::longjmp(decoder->after_error, 1);
}

/// libjpeg only warns about lost data and continues with grey; we make it an error. Irregularities that do
/// not affect the image, which some cameras write, are allowed.
void on_message(j_common_ptr jpeg, int level) {
  if (level >= 0) return;
  const int code = jpeg->err->msg_code;
  if (code != JWRN_EXTRANEOUS_DATA && code != JWRN_ADOBE_XFORM && code != JWRN_JFIF_MAJOR) on_error(jpeg);
}

void on_progress(j_common_ptr jpeg) {
  auto* decoder = static_cast<JpegDecoder*>(jpeg->client_data);
  if (decoder->jpeg.input_scan_number <= most_scans) return;
  std::snprintf(decoder->message, sizeof decoder->message, "more than %d scans", most_scans);
  std::longjmp(decoder->after_error, 1);
}

bool read_header(JpegDecoder& decoder, Bytes data) {
  if (setjmp(decoder.after_error) != 0) return false;
  decoder.jpeg.err = jpeg_std_error(&decoder.errors);
  decoder.errors.error_exit = on_error;
  decoder.errors.emit_message = on_message;
  decoder.jpeg.client_data = &decoder;
  jpeg_create_decompress(&decoder.jpeg);
  decoder.progress.progress_monitor = on_progress;
  decoder.jpeg.progress = &decoder.progress;
  jpeg_mem_src(&decoder.jpeg, reinterpret_cast<const unsigned char*>(data.data()), data.size());
  jpeg_read_header(&decoder.jpeg, TRUE);
  return true;
}

bool start(JpegDecoder& decoder, J_COLOR_SPACE output, unsigned shrink) {
  if (setjmp(decoder.after_error) != 0) return false;
  decoder.jpeg.out_color_space = output;
  decoder.jpeg.scale_num = 1;
  decoder.jpeg.scale_denom = shrink;
  jpeg_start_decompress(&decoder.jpeg);
  return true;
}

/// 255 - cyan, magenta, yellow and black, which is how Adobe's programs store them and how Pillow reads them
/// whoever wrote the file, to red, green and blue by the formula of Pillow's convert("RGB").
void inks_to_rgb(const JSAMPLE* inks, JSAMPLE* rgb, size_t width) {
  for (size_t x = 0; x < width; ++x, inks += 4, rgb += 3)
    for (int c = 0; c < 3; ++c) {
      const unsigned product = (255U - inks[c]) * inks[3] + 128;  // product / 255, rounded, is:
      rgb[c] = static_cast<JSAMPLE>(inks[3] - (((product >> 8) + product) >> 8));
    }
}

/// `inks`: room for a row of the four colours of print; nullptr if the image has others.
bool read_jpeg_pixels(JpegDecoder& decoder, JSAMPLE* pixels, size_t stride, JSAMPLE* inks) {
  if (setjmp(decoder.after_error) != 0) return false;
  while (decoder.jpeg.output_scanline < decoder.jpeg.output_height) {
    JSAMPROW row = pixels + decoder.jpeg.output_scanline * stride;
    jpeg_read_scanlines(&decoder.jpeg, inks == nullptr ? &row : &inks, 1);
    if (inks != nullptr) inks_to_rgb(inks, row, decoder.jpeg.output_width);
  }
  jpeg_finish_decompress(&decoder.jpeg);
  return true;
}

/// CMYK as it is, or with three of the inks as YCbCr.
bool is_of_inks(const JpegDecoder& decoder) {
  return decoder.jpeg.jpeg_color_space == JCS_CMYK || decoder.jpeg.jpeg_color_space == JCS_YCCK;
}

/// Throws for unsupported files, and if the data is too short for the image: Huffman coding takes at least a
/// bit for each block of 8 x 8 pixels.
void check_supported(const JpegDecoder& decoder, Bytes data, const std::string& name) {
  const jpeg_decompress_struct& jpeg = decoder.jpeg;
  if (jpeg.arith_code)
    throw format_error("arithmetic coding is not supported", name, "frame header", "Save it as a usual JPEG");
  if (jpeg.jpeg_color_space != JCS_GRAYSCALE && jpeg.jpeg_color_space != JCS_YCbCr &&
      jpeg.jpeg_color_space != JCS_RGB && !is_of_inks(decoder))
    throw format_error(fmt::format("{} components that are not grey, RGB or CMYK", jpeg.num_components), name,
                       "frame header", "Convert the image to RGB");
  if (uint64_t{jpeg.image_width} * jpeg.image_height / 512 > data.size())
    throw format_error(fmt::format("an image of {} x {} pixels is declared, more than {} bytes can hold",
                                   jpeg.image_width, jpeg.image_height, data.size()),
                       name, "frame header");
}

/// The factor by which width and height are divided while decoding: libjpeg takes 1, 2, 4 and 8, and no JPEG
/// needs more. Several scans are combined at full size first.
unsigned shrink_to_fit(JpegDecoder& decoder, const std::string& name, int64_t least_side) {
  const uint64_t width = decoder.jpeg.image_width, height = decoder.jpeg.image_height;
  unsigned shrink = 1;
  while (least_side > 0 && shrink < 8 &&
         std::min(width, height) / (2 * shrink) >= static_cast<uint64_t>(least_side))
    shrink *= 2;
  while (width * height / shrink / shrink > most_pixels) shrink *= 2;
  if (shrink > 1 && jpeg_has_multiple_scans(&decoder.jpeg) != 0) throw too_many_pixels(width, height, name);
  return shrink;
}

}  // namespace

bool is_jpeg(Bytes data) {
  return data.size() >= 3 && data[0] == std::byte{0xff} && data[1] == std::byte{0xd8} &&
         data[2] == std::byte{0xff};
}

namespace {

/// Throws libjpeg's message, unless `ok`.
void check_jpeg(bool ok, const JpegDecoder& decoder, Bytes data, const std::string& name) {
  if (ok) return;
  const auto* source = decoder.jpeg.src;
  const size_t left = source == nullptr ? data.size() : std::min(source->bytes_in_buffer, data.size());
  throw format_error(fmt::format("corrupt JPEG: {}", decoder.message), name, byte_place(data.size() - left));
}

bool is_grey(const JpegDecoder& decoder) { return decoder.jpeg.jpeg_color_space == JCS_GRAYSCALE; }

}  // namespace

HostArray parse_jpeg(Bytes data, const std::string& name, int64_t least_side) {
  JpegDecoder decoder;
  check_jpeg(read_header(decoder, data), decoder, data, name);
  check_supported(decoder, data, name);
  const bool grey = is_grey(decoder), of_inks = is_of_inks(decoder);
  const unsigned shrink = shrink_to_fit(decoder, name, least_side);
  const J_COLOR_SPACE output = grey ? JCS_GRAYSCALE : of_inks ? JCS_CMYK : JCS_RGB;
  check_jpeg(start(decoder, output, shrink), decoder, data, name);
  HostArray picture(DType::u8, {decoder.jpeg.output_height, decoder.jpeg.output_width, grey ? 1 : 3});
  const size_t stride = size_t{decoder.jpeg.output_width} * (grey ? 1 : 3);
  std::vector<JSAMPLE> inks(of_inks ? size_t{4} * decoder.jpeg.output_width : 0);
  check_jpeg(read_jpeg_pixels(decoder, picture.as<uint8_t>().data(), stride, of_inks ? inks.data() : nullptr),
             decoder, data, name);
  return picture;
}

ImageExtents jpeg_extents(Bytes data, const std::string& name) {
  JpegDecoder decoder;
  check_jpeg(read_header(decoder, data), decoder, data, name);
  return {decoder.jpeg.image_height, decoder.jpeg.image_width, is_grey(decoder) ? 1 : 3};
}

}  // namespace athanor
