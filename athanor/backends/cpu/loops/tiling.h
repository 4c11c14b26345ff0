// How a space of indices is cut into tiles, and where operands lie within a tile.
#pragma once
#include <cstdint>
#include <vector>

#include "athanor/graph/shape.h"
#include "athanor/kernels/loop_program.h"

namespace athanor::loops {

/// A loop around the tiles.
struct Loop {
  size_t dim = 0;      // of the space
  int64_t extent = 1;  // trips
  int64_t step = 1;    // how many indices of the dimension one iteration advances
  bool cut = false;    // the loop along the block's first dimension, which advances `step` indices at a time
};

/// Loops around a block of neighbouring elements. The block's first dimension may be cut: a tile then has
/// `rows` rows of it (the last tile fewer), each of `row_size` elements. Without a cut there is one row, the
/// whole block.
struct Tiling {
  struct Dim {
    size_t dim = 0;
    int64_t extent = 1;
  };
  std::vector<Loop> loops;  // outermost first
  std::vector<Dim> block;   // outermost first
  int cut = -1;             // position in `loops`
  int64_t cut_extent = 1;   // of the whole dimension
  int64_t rows = 1, row_size = 1;

  int64_t tile_size() const { return rows * row_size; }
  int64_t tiles() const;
};

/// Tiles of at most `most` elements (at least one) of the dimensions `order` (outermost first). Only those
/// from position `first_in_block` on may be within the tile. Short inner dimensions are taken several rows at
/// a time. Rows of `long_row` elements and more are taken alone, so that a value that is constant along a row
/// stays a single value.
Tiling make_tiling(const Ints& space, const std::vector<size_t>& order, size_t first_in_block, int64_t most,
                   int64_t long_row);

/// If an operand is contiguous along a dimension that a loop walks (as in a transposition), moves that loop
/// to the innermost place, so that the next tile uses the cache lines that this tile touched.
void follow_strided_operands(Tiling& tiling, const std::vector<LoopOperand>& operands);

/// Moves loops over kept dimensions before those over reduced ones.
void kept_loops_first(Tiling& tiling, const std::vector<bool>& reduced);

/// The addresses of an operand, or the values of an affine index, tile by tile. Strides are in bytes for
/// memory, in units for an index.
struct Walker {
  enum class Form : uint8_t {
    uniform,     // one element for the whole tile
    contiguous,  // elements follow each other
    strided
  };
  struct Dim {
    int64_t extent = 1, stride = 0;
    bool operator==(const Dim&) const = default;
  };
  Form form = Form::uniform;
  int buffer = -1;   // -1: an index
  int64_t item = 1;  // bytes of an element; 1 for an index
  int64_t offset = 0;
  Ints loop_strides;      // for each loop
  std::vector<Dim> dims;  // within the tile, outermost first, merged if possible; {} when uniform
  int64_t per_row = 1;    // a tile of n rows has n * per_row in dims[0]
  bool repeats = false;   // does not move while the innermost loop runs
  int64_t bytes = 1;      // bytes of all elements that it visits

  bool same_place(const Walker& other) const {
    return item == other.item && offset == other.offset && loop_strides == other.loop_strides &&
           dims == other.dims;
  }
};

/// `strides` and `offset` are in elements of `item` bytes, with one stride per dimension of the space.
Walker make_walker(const Tiling& tiling, int buffer, int64_t item, int64_t offset, const Ints& strides);

/// Copies a tile's elements to `dst`, one after another.
void gather(void* dst, int64_t src, const Walker& walker, int64_t rows);
/// Copies consecutive elements to a walker's position.
void scatter(int64_t dst, const void* src, const Walker& walker, int64_t rows);
/// Copies `bytes` bytes past the caches, if the system can. finish_streaming() ends a series of these.
void stream(void* dst, const void* src, int64_t bytes);
void finish_streaming();
/// The values of an index walker.
void fill_index(int64_t* dst, int64_t first, const Walker& walker, int64_t rows);

}  // namespace athanor::loops
