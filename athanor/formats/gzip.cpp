#include "athanor/formats/gzip.h"

#include <fmt/format.h>

#include <new>
#include <utility>

namespace athanor {
namespace {

constexpr size_t most_at_once = size_t{1} << 30;  // zlib counts in 32 bits
constexpr int gzip_window = 16 + MAX_WBITS;       // 16: expect the gzip wrapper

}  // namespace

bool is_gzip(Bytes data) {
  return data.size() >= 2 && data[0] == std::byte{0x1f} && data[1] == std::byte{0x8b};
}

GzipReader::GzipReader(Bytes data, std::string name) : data_(data), name_(std::move(name)) {
  if (inflateInit2(&stream_, gzip_window) != Z_OK) throw std::bad_alloc();
  // zlib never writes to its input; next_in is const only if ZLIB_CONST is set.
  stream_.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(data_.data()));
}

GzipReader::~GzipReader() { inflateEnd(&stream_); }

size_t GzipReader::read(std::span<std::byte> out) {
  size_t done = 0;
  while (done < out.size() && !finished_) {
    const size_t room = std::min(out.size() - done, most_at_once);
    stream_.next_out = reinterpret_cast<Bytef*>(out.data() + done);
    stream_.avail_out = static_cast<uInt>(room);
    inflate_some();
    done += room - stream_.avail_out;
  }
  return done;
}

void GzipReader::inflate_some() {
  const auto* end = reinterpret_cast<const Bytef*>(data_.data() + data_.size());
  const auto left = static_cast<size_t>(end - stream_.next_in);
  stream_.avail_in = static_cast<uInt>(std::min(left, most_at_once));
  const int result = inflate(&stream_, Z_NO_FLUSH);
  if (result == Z_STREAM_END) {
    // A gzip file may be several streams in a row.
    if (stream_.next_in == end) {
      finished_ = true;
    } else {
      inflateReset(&stream_);
    }
  } else if (result == Z_BUF_ERROR) {  // output has room, so all input was read
    throw format_error("the gzip stream ends too early", name_, place());
  } else if (result != Z_OK) {
    throw format_error(
        fmt::format("the gzip stream is corrupt: {}", stream_.msg ? stream_.msg : zError(result)), name_,
        place());
  }
}

std::string GzipReader::place() const {
  return fmt::format("compressed byte {}", stream_.next_in - reinterpret_cast<const Bytef*>(data_.data()));
}

}  // namespace athanor
