// Reading gzip (RFC 1952) in memory, as much as is asked for.
#pragma once
#include <zlib.h>

#include <string>

#include "athanor/formats/bytes.h"

namespace athanor {

/// Whether `data` starts as gzip does.
bool is_gzip(Bytes data);

/// Decompresses a gzip stream step by step. The caller says how much it wants, so that a small file which
/// unpacks to terabytes costs no more than the caller's own buffer. Every checksum that is passed is checked.
class GzipReader {
 public:
  /// `data` must stay alive. `name` is the file for error messages.
  GzipReader(Bytes data, std::string name);
  ~GzipReader();
  GzipReader(const GzipReader&) = delete;
  GzipReader& operator=(const GzipReader&) = delete;

  /// Fills `out` and returns its size, or less at the end of the stream. Throws Error(format) at corrupt or
  /// truncated data.
  size_t read(std::span<std::byte> out);
  /// An upper bound of what the whole stream can unpack to: deflate shrinks to 1/1032 at best.
  uint64_t bound() const { return data_.size() * 1032; }

 private:
  void inflate_some();
  std::string place() const;

  Bytes data_;
  std::string name_;
  z_stream stream_{};
  bool finished_ = false;
};

}  // namespace athanor
