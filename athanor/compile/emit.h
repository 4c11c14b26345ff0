// Emission: a fused group as a loop program.
#pragma once
#include <vector>

#include "athanor/compile/fuse.h"
#include "athanor/kernels/loop_program.h"

namespace athanor {

/// A group's program and the nodes whose memory its buffers are: buffers[i] is what LoopOperand::buffer == i
/// means.
struct EmittedLoop {
  LoopProgram program;
  std::vector<int> reads, writes;  // nodes; buffers are the reads, then the writes
  std::vector<int> computed;       // the nodes it computes, recomputed ones included, in order
};

/// A group that nothing needs gives a program without stores.
EmittedLoop emit_loop(const Graph& graph, const std::vector<View>& views, const Fusion& fusion,
                      const LoopGroup& group);

/// The type that values of `t` are computed in.
DType compute_type(DType t);

}  // namespace athanor
