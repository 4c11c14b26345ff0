// What the files share that write Winograd's convolutions.
#pragma once
#include <string>
#include <vector>

#include "athanor/kernels/gpu/loop_code.h"
#include "athanor/kernels/gpu/templates/conv.h"

namespace athanor::gpu {

/// A one-dimensional transform: a matrix. It takes numbers d0, d1, ...
struct WinogradTransform {
  int64_t taken;
  const char* sums;  // that several rows use: "sum = d1 + d2"
  std::vector<const char*> rows;
};
/// The transforms of Winograd's convolution with three taps, F(outputs, 3); and those of F(3, outputs), which
/// computes the gradient of the taps from `outputs` elements of the result's gradient. Both use the same
/// points, so images are transformed in the same way. A. Lavin, S. Gray: Fast Algorithms for Convolutional
/// Neural Networks (2016).
struct WinogradTransforms {
  WinogradTransform images, results, weights, gradients, taps;
};
const WinogradTransforms& winograd_transforms(int64_t outputs);  // 2 or 4

/// Lines of numbers in an array of registers: number n of line i is array[i * apart + n * step].
struct WinogradLines {
  const char* array;
  int64_t apart, step;
  bool operator==(const WinogradLines&) const = default;
};
/// Transforms `count` lines of vectors of `lanes` numbers. `each`: see each_number().
void write_transforms(Code& code, const WinogradTransform& transform, int64_t count, WinogradLines from,
                      WinogradLines to, int64_t lanes, const char* each);
/// Transforms `columns` columns of a patch and then `rows` rows, in place, in an array `points`.
void write_patch_transforms(Code& code, const WinogradTransform& transform, int64_t columns, int64_t rows,
                            int64_t patch, int64_t lanes, const char* each);

/// How the result is cut into tiles of outputs x outputs elements, and how many images are processed at a
/// time: as many as a cache holds between the steps (Grain::cached_floats).
struct WinogradTiles {
  WinogradTiles(int64_t outputs, const Shape& out, int64_t channels, const Grain& grain);
  int64_t outputs, patch, points;
  int64_t rows, columns;      // of the result
  int64_t of_column, of_row;  // tiles
  int64_t images, count;
  /// The row of tiles in which a tile lies, "tile / 4 % 5"; and its image times a number, or "0".
  std::string row_of(const std::string& tile) const;
  std::string image_of(const std::string& tile, const std::string& times) const;
};

/// How the tiles of an item lie in the images: in runs of neighbouring tiles.
struct WinogradRuns {
  WinogradRuns(const WinogradTiles& tiles, int64_t lanes);
  int64_t tiles, count, pixels;  // tiles and pixels of a run
};
/// Where the numbers of a point lie, for tiles and their channels: as images have them, so that neighbouring
/// items read and write neighbours in both.
struct WinogradOrder {
  int64_t tiles, channels;
  bool channels_last;
  int64_t of_tile() const { return channels_last ? channels : 1; }  // from one tile to the next
  int64_t of_channel() const { return channels_last ? 1 : tiles; }
};
/// Opens the loop over an item's chunks, and declares the channel and the first tile of each. With channels
/// last an item has one lane.
void open_chunks(Code& code, const WinogradOrder& order, int64_t lanes, int64_t chunks);

// Kernels for `lanes` tiles (or weights) at a time; an item does so `chunks` times.

/// Transforms images, or the result's gradient, to [points, channels, tiles], or [points, tiles, channels].
struct WinogradInput {
  const OperandDesc& images;
  DType dtype;
  Pair first;  // the row and column of the image that the first tile begins with
  int64_t channels;
  bool gradient;
  bool inside;         // no tile reaches over the image's edges
  bool channels_last;  // the images; then there is one lane
};
std::string winograd_input(const WinogradTiles& tiles, const WinogradInput& input, int64_t lanes,
                           int64_t chunks);
/// Transforms products [points, m, tiles], or [points, tiles, m], to the result, which has its channels last
/// then. `first_result`: see ResultEpilogue::first_place().
std::string winograd_output(const WinogradTiles& tiles, const GemmProblem& problem,
                            const std::vector<Parameter>& parameters, int64_t first_result,
                            bool channels_last, int64_t lanes, int64_t chunks);
/// Transforms weights [m, c, 3, 3] to [points, m, c].
std::string winograd_weights(int64_t outputs, const ConvData& data, DType dtype, int64_t lanes,
                             int64_t chunks);
/// Transforms `parts` sums of products [points, m, c], which it adds, to the gradient of the weights.
std::string winograd_taps(int64_t outputs, DType dtype, int64_t m, int64_t c, int64_t parts, int64_t lanes,
                          int64_t chunks);

// Pieces of these kernels.

/// "f32x4"; "f32" for one lane.
std::string lanes_type(int64_t lanes);
/// "UNROLL for": how a loop over the numbers of a tile, or of several, begins. What fits in registers stays
/// there only if the loop is unrolled. 36 vectors do not fit, and compile in a third of the time as they are.
/// (The result's kernel unrolls them, too: on an AMD EPYC with AVX-512 it takes 0.7 of the time so.)
const char* each_number(int64_t lanes, int64_t outputs);
std::string load_lanes(int64_t lanes, const std::string& from, const std::string& at);
std::string store_lanes(int64_t lanes, const std::string& to, const std::string& at, const std::string& x);

}  // namespace athanor::gpu
