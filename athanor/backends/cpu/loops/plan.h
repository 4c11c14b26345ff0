// How a loop program is carried out: the tiling, the code of a tile, and for reductions who accumulates what.
#pragma once
#include <string>
#include <vector>

#include "athanor/backends/cpu/loops/code.h"
#include "athanor/backends/cpu/loops/tiling.h"
#include "athanor/kernels/loop_program.h"

namespace athanor::loops {

/// One reduction: from a register of the body to a register of the epilogue.
struct ReductionPlan {
  ReduceFns fns;
  DType type = DType::f32;                   // of the source
  int source = -1, index = -1;               // registers of the body; the index for argmax
  int factor = -1;                           // to be multiplied with the source, or -1
  int result = -1;                           // register of the epilogue
  StepFn narrow = nullptr;                   // from the wide type to the result's
  uint64_t identity = 0, wide_identity = 0;  // bit patterns
  // Scratch: running results of each element of a tile (columns only); partial results, one for each kept
  // index of a unit, of the wide type, with their indices for argmax; the result.
  int64_t running = 0, wide = 0, indices = 0, narrowed = 0;
};

/// A unit is what one set of accumulators serves: some kept indices, over all reduced ones. Its tiles are
/// walked in `pieces` pieces (fixed by the shape, never by the number of threads), whose partial results are
/// combined in order.
struct ReducePlan {
  enum class Form : uint8_t {
    none,     // no reductions
    rows,     // a tile holds rows of reduced elements, each folded to one value
    columns,  // a tile's elements are accumulated one by one over the tiles; its rows are folded at the end
  };
  Form form = Form::none;
  std::vector<ReductionPlan> reductions;
  int64_t units = 1, tiles_per_unit = 1, pieces = 1;
  int64_t tiles_per_step = 1;  // pieces end at multiples of it
  int64_t kept = 1;  // kept indices in a unit (in a row of the tile, where the unit's loop is the cut one)
  bool kept_rows = false;     // ... then `kept` is per row of the tile
  int64_t row_length = 0;     // of rows; 0: the whole tile is one row
  int place_walker = -1;      // of the body: the first kept index, within the unit, of a tile (rows)
  int64_t partial_bytes = 0;  // of all partial results of a unit
};

struct Plan {
  LoopProgram program;       // simplified
  bool nothing = false;      // no kept index at all
  bool no_elements = false;  // reductions of nothing
  Tiling tiling, epilogue_tiling;
  Code code, epilogue;
  ReducePlan reduce;
  int64_t scratch_bytes = 0, epilogue_scratch = 0;  // of a thread; where the epilogue's part begins
  double cost_ns = 0;                               // of a whole run, one thread
};

Plan make_plan(LoopProgram program);

}  // namespace athanor::loops
