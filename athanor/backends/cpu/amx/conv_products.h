// How Gemm computes convolutions of f32 and bf16 with AMX: as products of windows, which are gathered from
// images where they are packed. Activations have channels in blocks of 16.
#pragma once
#include <utility>

#include "athanor/backends/cpu/amx/products.h"
#include "athanor/backends/cpu/amx/windows.h"

namespace athanor::cpu {

/// Where the weights are: [tap][result][channel] in memory, for windows' channels.
struct TapMatrices {
  int64_t first, tap_stride, result_stride, channel_stride;  // in elements
};

/// The results of a convolution [windows, taps x channels] x [taps x channels, results]. Gemm's A is the
/// image, whose channels are a multiple of 32; B is the weights; C the results, in blocks of 16.
template <class T>
class AmxConvProducts : public AmxProducts<T> {
 public:
  using typename AmxProducts<T>::Packed;
  static constexpr bool sums_in_c = false;  // C is not row-major
  static constexpr int64_t most_of_b = 1 << 22;
  AmxConvProducts(Windows windows, int64_t results, TapMatrices weights)
      : windows_(std::move(windows)), results_(results), weights_(weights) {}

  bool pack_rows(const GemmPart<T>& image, Packed* to) const;
  bool pack_columns(const GemmPart<T>& weights, Packed* to) const;

  class Multiplier : AmxMultiplier<T> {
   public:
    explicit Multiplier(const AmxConvProducts& products) : products_(products) {}
    void run(const GemmTile<T>& tile, int64_t depth, const Packed* a, const Packed* b);
    using AmxMultiplier<T>::finish;

   private:
    const AmxConvProducts& products_;
  };

 private:
  Windows windows_;
  int64_t results_;
  TapMatrices weights_;
};

/// The gradient by weights, [results, windows] x [windows, taps x channels]. Gemm's A is the results'
/// gradient, in blocks of 16; B is the image, whose channels are a multiple of 32; C is row-major.
template <class T>
class AmxConvWeightProducts : public AmxProducts<T> {
 public:
  using typename AmxProducts<T>::Packed;
  static constexpr int64_t most_depth = 2 * AmxProducts<T>::most_depth;

  AmxConvWeightProducts(Windows windows, int64_t results) : windows_(std::move(windows)), results_(results) {}

  bool pack_rows(const GemmPart<T>& gradient, Packed* to) const;
  bool pack_columns(const GemmPart<T>& image, Packed* to) const;

 private:
  Windows windows_;
  int64_t results_;
};

}  // namespace athanor::cpu
