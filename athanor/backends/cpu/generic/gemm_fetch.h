// Fetches what is packed next while tiles are multiplied.
#pragma once
#include <cstddef>
#include <cstdint>

#include "athanor/backends/cpu/generic/gemm_products.h"
#include "athanor/base/ceil_div.h"

namespace athanor::cpu {

/// Fetches a part of a matrix to the second-level cache, a few cache lines beside each tile. A part's rows
/// are short and lie far apart, so processors do not fetch them by themselves, and packing would wait for
/// each row.
class PartFetch {
 public:
  /// Begins with a part, which `tiles` calls of go_on() fetch.
  template <class T>
  void begin(const GemmPart<T>& part, int64_t tiles) {
    const auto from = part.vectors();
    const bool turned = from.stride == 1;
    row_ = reinterpret_cast<const std::byte*>(from.from);
    rows_ = turned ? from.depth : from.count;
    stride_ = (turned ? from.depth_stride : from.stride) * static_cast<int64_t>(sizeof(T));
    bytes_ = (turned ? from.count : from.depth) * static_cast<int64_t>(sizeof(T));
    at_ = 0;
    if (!turned && from.depth_stride != 1) rows_ = 0;
    lines_ = ceil_div(rows_ * (bytes_ / line + 1), tiles);
  }
  void end() { rows_ = 0; }
  void go_on() {
    for (int64_t i = 0; i < lines_ && rows_ > 0; ++i) {
#ifdef __GNUC__
      __builtin_prefetch(row_ + at_, 0, 2);
#endif
      if (at_ += line; at_ < bytes_) continue;
      at_ = 0;
      row_ += stride_;
      --rows_;
    }
  }

 private:
  static constexpr int64_t line = 64;
  const std::byte* row_ = nullptr;
  int64_t rows_ = 0, bytes_ = 0, stride_ = 0, at_ = 0, lines_ = 0;
};

}  // namespace athanor::cpu
