// Picture files for tests, written by the usual libraries.
#pragma once
#include <cstdio>  // before jpeglib.h, which needs FILE

#include <jpeglib.h>
#include <webp/encode.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "athanor/base/file.h"
#include "athanor/formats/image.h"
#include "athanor/graph/host_array.h"

namespace athanor::testing {

/// A gradient: the first channel grows to the right, the second downwards; the others are `rest`.
inline HostArray gradient(int64_t height, int64_t width, int64_t channels = 3, int rest = 128) {
  HostArray picture(DType::u8, {height, width, channels});
  auto out = picture.as<uint8_t>().begin();
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x)
      for (int64_t c = 0; c < channels; ++c)
        *out++ = static_cast<uint8_t>(c == 0 ? 255 * x / width : c == 1 ? 255 * y / height : rest);
  return picture;
}

inline std::vector<std::byte> jpeg_of(const HostArray& picture) {
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* made = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&jpeg, &made, &size);
  jpeg.image_height = static_cast<JDIMENSION>(picture.shape[0]);
  jpeg.image_width = static_cast<JDIMENSION>(picture.shape[1]);
  jpeg.input_components = static_cast<int>(picture.shape[2]);
  jpeg.in_color_space = picture.shape[2] == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, 95, TRUE);
  jpeg_start_compress(&jpeg, TRUE);
  const auto stride = static_cast<size_t>(picture.shape[1] * picture.shape[2]);
  while (jpeg.next_scanline < jpeg.image_height) {
    auto* row = const_cast<JSAMPLE*>(picture.as<uint8_t>().data() + jpeg.next_scanline * stride);
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
  const auto* first = reinterpret_cast<const std::byte*>(made);
  std::vector<std::byte> file(first, first + size);
  std::free(made);
  return file;
}

/// A WebP file of a picture with three channels, lossless.
inline std::vector<std::byte> webp_of(const HostArray& picture) {
  uint8_t* made = nullptr;
  const size_t size = WebPEncodeLosslessRGB(picture.as<uint8_t>().data(), static_cast<int>(picture.shape[1]),
                                            static_cast<int>(picture.shape[0]),
                                            static_cast<int>(3 * picture.shape[1]), &made);
  const auto* first = reinterpret_cast<const std::byte*>(made);
  std::vector<std::byte> file(first, first + size);
  WebPFree(made);
  return file;
}

/// Writes a file, and makes its folder.
inline void put_file(const std::filesystem::path& path, Bytes data) {
  std::filesystem::create_directories(path.parent_path());
  write_file_atomically(path, {data});
}

}  // namespace athanor::testing
