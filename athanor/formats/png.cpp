#include <fmt/format.h>
#include <png.h>

#include <csetjmp>
#include <cstdio>
#include <new>

#include "athanor/formats/bytes.h"
#include "athanor/formats/image.h"
#include "athanor/formats/image_codecs.h"

namespace athanor {
namespace {

constexpr size_t signature_bytes = 8;

/// libpng's state, and the data of our callbacks. libpng reports errors by longjmp, which must not skip
/// destructors of C++ objects: the functions below that call setjmp have none, and return false after an
/// error.
struct PngDecoder {
  Bytes data;
  size_t at = 0;
  char message[160] = "";
  png_structp png = nullptr;
  png_infop info = nullptr;

  explicit PngDecoder(Bytes bytes) : data(bytes) {}
  ~PngDecoder() { png_destroy_read_struct(&png, &info, nullptr); }
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;
};

[[noreturn]] void on_error(png_structp png, png_const_charp message) {
  auto* decoder = static_cast<PngDecoder*>(png_get_error_ptr(png));
  std::snprintf(decoder->message, sizeof decoder->message, "%s", message);
  png_longjmp(png, 1);
}

void on_warning(png_structp /*png*/, png_const_charp /*message*/) {
}  // only ancillary chunks, which we do not use, cause these

void on_read(png_structp png, png_bytep out, size_t length) {
  auto* decoder = static_cast<PngDecoder*>(png_get_io_ptr(png));
  if (length > decoder->data.size() - decoder->at) png_error(png, "the data ends too early");
  std::memcpy(out, decoder->data.data() + decoder->at, length);
  decoder->at += length;
}

/// Reads up to the first pixel.
bool read_header(PngDecoder& decoder) {
  if (setjmp(png_jmpbuf(decoder.png)) != 0) return false;
  png_set_read_fn(decoder.png, &decoder, on_read);
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
  // For fuzzers, which could not produce correct checksums.
  png_set_crc_action(decoder.png, PNG_CRC_QUIET_USE, PNG_CRC_QUIET_USE);
  png_set_option(decoder.png, PNG_IGNORE_ADLER32, PNG_OPTION_ON);
#endif
  png_read_info(decoder.png, decoder.info);
  return true;
}

/// Asks for 8-bit grey or RGB, whatever the file contains.
bool set_output(PngDecoder& decoder) {
  if (setjmp(png_jmpbuf(decoder.png)) != 0) return false;
  png_set_palette_to_rgb(decoder.png);
  png_set_expand_gray_1_2_4_to_8(decoder.png);
  png_set_scale_16(decoder.png);
  png_set_strip_alpha(decoder.png);
  png_set_interlace_handling(decoder.png);
  png_read_update_info(decoder.png, decoder.info);
  return true;
}

/// Asks for the numbers that the file contains, one byte each.
bool set_raw_output(PngDecoder& decoder) {
  if (setjmp(png_jmpbuf(decoder.png)) != 0) return false;
  png_set_packing(decoder.png);
  png_set_strip_alpha(decoder.png);
  png_set_interlace_handling(decoder.png);
  png_read_update_info(decoder.png, decoder.info);
  return true;
}

/// Reads the pixels and the rest of the file.
bool read_png_pixels(PngDecoder& decoder, png_bytep pixels, size_t stride) {
  if (setjmp(png_jmpbuf(decoder.png)) != 0) return false;
  const png_uint_32 height = png_get_image_height(decoder.png, decoder.info);
  const int passes = png_get_interlace_type(decoder.png, decoder.info) == PNG_INTERLACE_ADAM7 ? 7 : 1;
  for (int pass = 0; pass < passes; ++pass)
    for (png_uint_32 y = 0; y < height; ++y) png_read_row(decoder.png, pixels + y * stride, nullptr);
  png_read_end(decoder.png, nullptr);
  return true;
}

/// Throws if even the best compression (deflate's 1 to 1032) cannot fit the image into the file.
void check_size(const PngDecoder& decoder, const std::string& name) {
  const uint64_t width = png_get_image_width(decoder.png, decoder.info);
  const uint64_t height = png_get_image_height(decoder.png, decoder.info);
  const uint64_t raw = height * png_get_rowbytes(decoder.png, decoder.info);
  if (raw / 1032 > decoder.data.size())
    throw format_error(fmt::format("an image of {} x {} pixels is declared, more than {} bytes can hold",
                                   width, height, decoder.data.size()),
                       name, "chunk IHDR");
  if (width * height > most_pixels) throw too_many_pixels(width, height, name);
}

}  // namespace

bool is_png(Bytes data) {
  return data.size() >= signature_bytes &&
         png_sig_cmp(reinterpret_cast<png_const_bytep>(data.data()), 0, signature_bytes) == 0;
}

namespace {

/// Throws libpng's message, unless `ok`.
void check_png(bool ok, const PngDecoder& decoder, const std::string& name) {
  if (!ok) throw format_error(fmt::format("corrupt PNG: {}", decoder.message), name, byte_place(decoder.at));
}

/// Makes libpng's state and reads the header.
void open_png(PngDecoder& decoder, const std::string& name) {
  decoder.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &decoder, on_error, on_warning);
  if (decoder.png != nullptr) decoder.info = png_create_info_struct(decoder.png);
  if (decoder.info == nullptr) throw std::bad_alloc();
  check_png(read_header(decoder), decoder, name);
}

}  // namespace

HostArray parse_png(Bytes data, const std::string& name) {
  PngDecoder decoder(data);
  open_png(decoder, name);
  check_size(decoder, name);
  check_png(set_output(decoder), decoder, name);
  HostArray picture(DType::u8, {png_get_image_height(decoder.png, decoder.info),
                                png_get_image_width(decoder.png, decoder.info),
                                png_get_channels(decoder.png, decoder.info)});
  const size_t stride = png_get_rowbytes(decoder.png, decoder.info);
  check_png(read_png_pixels(decoder, picture.as<uint8_t>().data(), stride), decoder, name);
  return picture;
}

HostArray parse_png_numbers(Bytes data, const std::string& name) {
  PngDecoder decoder(data);
  open_png(decoder, name);
  const auto color = png_get_color_type(decoder.png, decoder.info);
  const bool numbers = color == PNG_COLOR_TYPE_PALETTE || (color & PNG_COLOR_MASK_COLOR) == 0;
  if (!numbers || png_get_bit_depth(decoder.png, decoder.info) > 8)
    throw format_error(
        numbers ? "the mask has 16 bits a pixel" : "the mask has colours, not a number for each pixel", name,
        "chunk IHDR", "Save the number of each pixel's class: grey or with a palette, of 8 bits");
  check_size(decoder, name);
  check_png(set_raw_output(decoder), decoder, name);
  HostArray mask(DType::u8, {png_get_image_height(decoder.png, decoder.info),
                             png_get_image_width(decoder.png, decoder.info), 1});
  check_png(read_png_pixels(decoder, mask.as<uint8_t>().data(), png_get_rowbytes(decoder.png, decoder.info)),
            decoder, name);
  return mask;
}

ImageExtents png_extents(Bytes data, const std::string& name) {
  PngDecoder decoder(data);
  open_png(decoder, name);
  const auto color = png_get_color_type(decoder.png, decoder.info);
  return {png_get_image_height(decoder.png, decoder.info), png_get_image_width(decoder.png, decoder.info),
          (color & PNG_COLOR_MASK_COLOR) != 0 ? 3 : 1};
}

std::vector<std::byte> format_mask(const HostArray& mask, const std::vector<Color>& palette) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.height = static_cast<png_uint_32>(mask.shape[0]);
  image.width = static_cast<png_uint_32>(mask.shape[1]);
  image.format = PNG_FORMAT_RGB_COLORMAP;
  image.colormap_entries = static_cast<png_uint_32>(palette.size());
  std::vector<std::byte> file(PNG_IMAGE_PNG_SIZE_MAX(image));
  png_alloc_size_t size = file.size();
  if (png_image_write_to_memory(&image, file.data(), &size, 0, mask.bytes.data(), 0, palette.data()) == 0)
    throw Error(ErrorCode::value, fmt::format("the mask cannot be written as PNG: {}", image.message));
  file.resize(size);
  return file;
}

std::vector<std::byte> format_png(const HostArray& picture) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.height = static_cast<png_uint_32>(picture.shape[0]);
  image.width = static_cast<png_uint_32>(picture.shape[1]);
  image.format = picture.shape[2] == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  std::vector<std::byte> file(PNG_IMAGE_PNG_SIZE_MAX(image));
  png_alloc_size_t size = file.size();
  if (png_image_write_to_memory(&image, file.data(), &size, 0, picture.bytes.data(), 0, nullptr) == 0)
    throw Error(ErrorCode::value, fmt::format("the image cannot be written as PNG: {}", image.message));
  file.resize(size);
  return file;
}

}  // namespace athanor
