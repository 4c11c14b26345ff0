// How a loop program runs: the tiling, the code of a tile, and for reductions the accumulators.
#pragma once
#include <string>
#include <vector>

#include "athanor/backends/cpu/loops/code.h"
#include "athanor/backends/cpu/loops/tiling.h"
#include "athanor/kernels/loop_program.h"

namespace athanor::loops {

/// How one reduction leads from a register of the body to a register of the epilogue.
struct Accumulator {
  ReduceFns fns;
  DType type = DType::f32;                   // of the source
  int source = -1, index = -1;               // registers of the body; `index` is for argmax
  int factor = -1;                           // multiplied with the source, or -1
  int result = -1;                           // register of the epilogue
  StepFn narrow = nullptr;                   // from the wide type to the result's
  uint64_t identity = 0, wide_identity = 0;  // bit patterns
  // Scratch memory: running results of each element of a tile (only columns); partial results in the wide
  // type, one for each kept index of a unit, with their indices for argmax; the result.
  int64_t running = 0, wide = 0, indices = 0, narrowed = 0;
};

/// A unit is the work for one set of accumulators: some kept indices, over all reduced ones. Its tiles are
/// walked in `pieces` pieces, whose partial results are combined in order. The shape decides their number,
/// never the number of threads.
struct TiledReduction {
  enum class Form : uint8_t {
    none,     // no reductions
    rows,     // a tile contains rows of reduced elements; each row is folded to one value
    columns,  // a tile's elements are accumulated one by one over the tiles; its rows are folded at the end
  };
  Form form = Form::none;
  std::vector<Accumulator> reductions;
  int64_t units = 1, tiles_per_unit = 1, pieces = 1;
  int64_t tiles_per_step = 1;  // pieces end at multiples of this
  int64_t kept = 1;        // kept indices in a unit (in a row of the tile, if the unit's loop is the cut one)
  bool kept_rows = false;  // whether `kept` is for each row of the tile
  int64_t row_length = 0;  // Form::rows only; 0: the whole tile is one row
  int place_walker = -1;   // in the body, Form::rows only: a tile's first kept index within the unit
  int64_t partial_bytes = 0;  // all partial results of a piece
};

struct TiledLoop {
  LoopProgram program;       // simplified
  bool nothing = false;      // there are no kept indices
  bool no_elements = false;  // reductions over no elements
  Tiling tiling, epilogue_tiling;
  Code code, epilogue;
  TiledReduction reduce;
  int64_t scratch_bytes = 0, epilogue_scratch = 0;  // for each thread; the offset of the epilogue's part
  double cost_ns = 0;                               // estimate of a whole run on one thread
};

TiledLoop tile_loop(LoopProgram program);

}  // namespace athanor::loops
