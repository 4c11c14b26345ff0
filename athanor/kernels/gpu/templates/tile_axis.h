// One axis of a matrix in memory. Rows of a matrix are a fixed distance apart; pixels of images, and taps of
// channels, are not: they are counted in several digits, each with its own distance. So a convolution is a
// product of matrices that need not exist (implicit GEMM).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace athanor::gpu {

class TileAxis {
 public:
  struct Digit {
    int64_t extent, stride;  // how many, and elements from one to the next
  };
  TileAxis() : digits_{{0, 0}} {}
  TileAxis(int64_t extent, int64_t stride) : digits_{{extent, stride}} {}
  /// Outermost digit first. Digits that form a single one in memory are merged.
  explicit TileAxis(const std::vector<Digit>& digits);

  int64_t extent() const;
  /// Whether elements are all the same distance apart.
  bool even() const { return digits_.size() == 1; }
  /// The innermost digit: `run()` elements, from each multiple of it on, that are `stride()` apart.
  int64_t run() const { return digits_.back().extent; }
  int64_t stride() const { return digits_.back().stride; }
  const std::vector<Digit>& digits() const { return digits_; }
  /// From the first to the last element in memory.
  int64_t reach() const;
  bool forward() const;  // no stride is negative
  /// Whether all strides are multiples of v; `but_innermost`: all but that of the innermost digit.
  bool strides_divide_by(int64_t v, bool but_innermost) const;

  /// Elements behind the last one that may be read or, of a result, written; for even() axes.
  TileAxis& pad(int64_t elements);
  int64_t padding() const { return padding_; }
  /// Whether `v` elements at a time may be read or written, from each multiple of v within a run on.
  bool has_whole(int64_t v) const { return (run() + v - 1) / v * v <= run() + padding_; }

  /// For the axis of a result: only this many elements of each run exist; the others are not stored.
  int64_t stored() const { return stored_; }
  TileAxis& store_only(int64_t of_run);
  bool stores_all() const { return stored_ >= run(); }

  /// The function `name` that returns an element's place: "DEVICE u32 a_k_at(u32 i) {...}"; "" if even().
  std::string function(const std::string& name) const;
  /// Its place as an expression: "i * 12", "a_k_at(i)".
  std::string place(const std::string& name, const std::string& i) const;

 private:
  std::vector<Digit> digits_;
  int64_t padding_ = 0, stored_ = INT64_MAX;
};

}  // namespace athanor::gpu
