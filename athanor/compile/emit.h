// Emission: turns a fused group into a loop program.
#pragma once
#include <vector>

#include "athanor/compile/fuse.h"
#include "athanor/kernels/loop_program.h"

namespace athanor {

/// A group's program and its buffers: buffer i is the memory of node buffers[i].
struct EmittedLoop {
  LoopProgram program;
  std::vector<int> reads, writes;  // nodes; buffers are the reads, then the writes
  std::vector<int> computed;       // the nodes it computes, recomputed ones included, in order
};

/// The loop program of a group. It has no stores if nothing needs the group's values.
EmittedLoop emit_loop(const Graph& graph, const std::vector<View>& views, const Fusion& fusion,
                      const LoopGroup& group);

}  // namespace athanor
