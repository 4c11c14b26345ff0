// Loops over the same rows (kernels/row_chain.h), one after the other, some rows at a time.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "athanor/kernels/loop_program.h"

namespace athanor {

namespace loops {
struct TiledLoop;
}

/// A chain of loops, planned once and run many times. Its rows are cut into parts. A thread takes a part
/// through all loops while it is in the thread's cache, then the next part. Each loop has the tiles and the
/// pieces that it has alone (loop_kernel.h), so results are the same, bit for bit.
class LoopChain {
 public:
  /// None if the loops are no row chain, or if their tiles do not end at the same rows often enough.
  static std::optional<LoopChain> make(std::span<const LoopProgram> loops);

  /// As LoopKernel::run. The loops' buffers are numbered together.
  void run(std::span<void* const> buffers, int threads) const;

  /// "avx512, 3 loops over 32 parts of the rows", for `explain`.
  std::string description() const;

 private:
  struct Member {
    std::shared_ptr<const loops::TiledLoop> loop;
    int64_t shares = 1;     // its tiles, or pieces of reductions
    int64_t per_part = 1;   // shares in a part; the last part may have fewer
    int64_t partials = 0;   // bytes before its partial results
    bool combines = false;  // its pieces' partial results are combined behind the last part
  };
  std::vector<Member> members_;
  int64_t parts_ = 1, partial_bytes_ = 0;
  double cost_ns_ = 0;  // of all loops
  std::string isa_;
};

}  // namespace athanor
