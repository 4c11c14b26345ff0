// What the files share that write convolutions by shifted runs of pixels. Offsets have 32 bits.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "athanor/kernels/gpu/loop_code.h"
#include "athanor/kernels/gpu/templates/conv.h"

namespace athanor::gpu {

/// The rows (or columns) of the images that the phases use.
struct TakenAxis {
  int64_t low = INT64_MAX, high = INT64_MIN;
  void add(int64_t results, int64_t step, int64_t first, int64_t tap, int64_t taps) {
    if (taps == 0) return;
    const int64_t along = tap * (taps - 1);
    low = std::min(low, first + std::min<int64_t>(along, 0));
    high = std::max(high, first + step * (results - 1) + std::max<int64_t>(along, 0));
  }
  int64_t count() const { return high - low + 1; }
};

/// Where runs of pixels are: in the images themselves, or in a copy with padding.
struct PixelRuns {
  bool copied;
  TakenAxis rows, columns;
  int64_t lines, line;     // rows and columns, one in `step` each
  int64_t image, channel;  // strides

  /// How long a run through all computed rows is. Rows follow each other at `line`.
  int64_t span(const ConvData& data) const { return (data.out[2] - 1) * line + data.out[3]; }
};

/// A point of the template's tuning space: an item computes `rows` channels of `vectors` vectors of pixels.
struct ShiftedPoint {
  int64_t rows, vectors, width, items;
  int64_t tile() const { return vectors * width * items; }
};

/// A group computes `each` of all tiles.
std::string shifted_kernel(const GemmProblem& problem, const std::vector<Parameter>& parameters,
                           const ConvData& data, const PixelRuns& runs, const ShiftedPoint& point,
                           int64_t each);

// Pieces of kernels.

/// Opens a group's loop over `each` of `all` tiles, and declares the tile's number, `tile`.
void open_tiles(Code& code, int64_t each, int64_t all);
void close_tiles(Code& code, int64_t each);
/// Declares the number of one of `count`, and takes it from the tile's number.
void take_of_tile(Code& code, const std::string& name, int64_t count);
/// Declares m0, the first of `rows` of m rows. Tiles at the end are moved inside the matrix.
void find_rows(Code& code, int64_t m, int64_t rows);
/// Where shifted_copy() has put the element `offset` rows (or columns) after the first: `phase` apart for
/// offsets that differ by less than a step, `line` apart for whole steps.
std::string shifted(const std::string& offset, int64_t step, int64_t phase, int64_t line);

}  // namespace athanor::gpu
