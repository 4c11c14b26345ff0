// Fused loops on the CPU: a tile interpreter with vectorised steps.
#pragma once
#include <memory>
#include <span>
#include <string>

#include "athanor/kernels/loop_program.h"

namespace athanor {

namespace loops {
struct TiledLoop;
}

/// A loop program, planned once and run many times.
///
/// The space is walked in tiles that fit the L1 cache. Every step is one vectorised loop over the tile,
/// compiled for AVX-512, AVX2 and the baseline and chosen at run time; contiguous operands are read and
/// written in place. Values that are the same along a tile are computed once for each tile; values that are
/// the same everywhere, once for each run.
///
/// Results do not depend on the number of threads. Sums and products of f32 combine short runs in f32, and
/// the runs' results in f64. a * b + c is rounded once (fma).
class LoopKernel {
 public:
  /// Throws Error(dtype) if a primitive is not defined for a type.
  explicit LoopKernel(LoopProgram program);

  /// `buffers`: as many addresses as the program has buffers, aligned to their element types. Runs on up to
  /// `threads` threads, or on one if there is too little work to share. Several threads may call it at once.
  void run(std::span<void* const> buffers, int threads) const;

  /// "avx512, tiles of 1024, 12 steps, rows", for `explain`.
  std::string description() const;

  /// The instruction set in use: "avx512", "avx2", "scalar".
  static const char* isa();

 private:
  std::shared_ptr<const loops::TiledLoop> loop_;
  std::string isa_;
};

}  // namespace athanor
