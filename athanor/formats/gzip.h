// Reads gzip (RFC 1952) in memory, and unpacks only as much as is requested.
#pragma once
#include <zlib.h>

#include <string>

#include "athanor/formats/bytes.h"

namespace athanor {

/// Whether `data` starts like gzip.
bool is_gzip(Bytes data);

/// Decompresses a gzip stream step by step. The caller says how much it wants, so a small file that unpacks
/// to terabytes takes no more memory than the caller's buffer. Every checksum on the way is verified.
class GzipReader {
 public:
  /// `data` must stay alive. `name` is the file for error messages.
  GzipReader(Bytes data, std::string name);
  ~GzipReader();
  GzipReader(const GzipReader&) = delete;
  GzipReader& operator=(const GzipReader&) = delete;

  /// Fills `out` and returns its size, or less at the end of the stream. Throws Error(format) for corrupt or
  /// truncated data.
  size_t read(std::span<std::byte> out);
  /// An upper bound for the unpacked size: deflate shrinks data at best to 1/1032.
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
