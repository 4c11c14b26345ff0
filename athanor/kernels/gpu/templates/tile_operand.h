// One of the two matrices of a product on its way to the matrix units: from global memory to a tile in local
// memory, in the type that the unit multiplies, and from there to the registers of a wave.
//
// A tile has `outer` rows of A or columns of B and `k` steps, in chunks of 16 bytes along one of the two. The
// chunks of a row of the tile are permuted (a swizzle), so that the lanes of a wave that read or write the
// same chunk of eight rows touch all banks of local memory once.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>

#include "athanor/kernels/gpu/gpu_kernel.h"
#include "athanor/kernels/gpu/loop_code.h"
#include "athanor/kernels/gpu/matrix_unit.h"
#include "athanor/kernels/gpu/result_epilogue.h"
#include "athanor/kernels/gpu/templates/tile_axis.h"
#include "athanor/kernels/gpu/templates/tile_border.h"

namespace athanor::gpu {

class TileOperand {
 public:
  struct Source {
    std::string name;  // "a", "b": begins the names of its variables
    DType dtype = DType::f16;
    TileAxis outer, k;       // of the matrix
    int64_t batch = 0;       // elements from one matrix to the next
    int64_t alignment = 16;  // of the first element, in bytes
    std::optional<TileBorder> border = {};
    /// What becomes of each element on its way to local memory; rows are `outer`, columns are `k`.
    ResultEpilogue prologue = {};
    /// If only the device knows it: the variable with the end of `outer`, and whether k ends anywhere, too.
    /// Then tiles also begin anywhere along that axis.
    std::string outer_end = {};
    bool any_k = false;
  };
  struct Tile {
    int64_t outer = 0, k = 0;
    int64_t items = 0;  // that fill it
  };
  TileOperand(Source source, Tile tile, const MatrixUnit& unit);

  /// Whether the group's items can fill a tile in equal parts, and offsets within it fit 32 bits.
  bool fits() const;
  /// Whether memory is read by at least 4 bytes at a time.
  bool reads_registers() const { return vector_ * from_size_ >= 4; }
  /// Whether ASYNC_COPY can fill it: it lies in local memory as in global memory.
  bool copies() const { return !turned() && !widens() && !computes() && !unit_.fnuz && reads_registers(); }
  /// Whether elements are computed on their way.
  bool computes() const { return !source_.prologue.empty(); }
  /// Whether a tile along k lies in one run of the axis, so that only the pointer moves. Otherwise the places
  /// in each tile are computed.
  bool moves() const { return source_.k.even() || source_.k.run() % tile_.k == 0; }
  /// Whether each tile computes something from the places of its elements.
  bool computes_places() const { return !moves() || (source_.border && source_.border->along_k); }
  /// Elements of the tile in local memory.
  int64_t elements() const;

  /// The functions that say where elements lie, and what becomes of them.
  std::string functions() const;
  /// Declares where in memory the item's chunks lie. `first`: the tile's first row or column of the matrix.
  /// The first step along k is k_begin.
  void declare(Code& code, const std::string& first) const;
  /// Declares the registers of load().
  void declare_held(Code& code) const;
  /// How many registers an item's loads of a tile take while they wait for memory. Elements that are loaded
  /// one by one take a register each.
  int64_t load_registers() const {
    return share() * loads() * (reads_registers() ? held_registers() : chunk_);
  }
  /// Reads the item's chunks into its registers. `edge`: zeros from step k_left on.
  void load(Code& code, bool edge) const;
  /// Turns what load() read into fnuz of half the value, for units that take these, and returns how many
  /// registers that are.
  int64_t make_fnuz(Code& code) const;
  /// Writes them to the tile at element `at` of local memory. `first` as for declare(). A prologue takes them
  /// as those of the steps from k_next on.
  void store(Code& code, const std::string& at, const std::string& first) const;
  /// Both at once, by asynchronous copies.
  void copy(Code& code, const std::string& at, bool edge) const;
  /// Moves on by a tile along k.
  void advance(Code& code) const;

  // The same by copies of boxes, all started by one item, for units that read local memory (tile_boxes.cpp).
  // Neither declare() nor advance() is needed.
  bool has_boxes() const;
  /// Describes the matrices, which lie in this argument of the launch.
  BoxedTensor tensor(size_t argument, int64_t batches) const;
  /// Fills the tile at element `at` of local memory: from row or column `first` of the matrix and step k_next
  /// on, with zeros beyond it.
  void copy_boxes(Code& code, const std::string& at, const std::string& first,
                  const std::string& arrival) const;

  /// Declares where a lane reads its fragments. `first`: the wave's first row or column in the tile.
  void declare_fragments(Code& code, const std::string& first) const;
  /// Declares registers for `sets` sets of `count` fragments each. A fragment has 16 rows or columns, or as
  /// many as the unit.
  void declare_parts(Code& code, int sets, int64_t count) const;
  int64_t part_registers(int64_t count) const { return count * 4 * pieces(); }  // of a set
  /// From `first` on, up to `end`, exclusive.
  struct Range {
    int64_t first = 0, end = 0;
  };
  /// Reads some fragments of step `step` along k into one of the sets.
  void read_fragments(Code& code, int64_t set, Range some, const std::string& step,
                      const std::string& at) const;
  /// Steps along k of a fragment, and units that multiply it one after another.
  int64_t fragment_k() const { return unit_.k * units(); }
  int64_t units() const;

  // For units that read local memory: the matrix of the tile at element `at` of local memory whose first row
  // or column is `first`, and how far from it, in chunks, the next step along k is.
  std::string local_matrix(const std::string& at, const std::string& first) const;
  int64_t local_step() const { return unit_.k * (along_k_ ? 1 : panel()) / chunk_; }
  // The same for a matrix along k that begins so many rows or columns further.
  int64_t local_rows(int64_t count) const { return count * panel() / chunk_; }
  bool along_k() const { return along_k_; }

  /// "16-byte copies", "elements": how memory is read, for the kernel's head.
  std::string description() const;

 private:
  // Whether a box has all panels of a tile. The last panel must be whole, because the next row follows it.
  bool panels_together() const { return !along_k_ && along().extent() % panel() == 0; }
  // The tile as it lies in local memory.
  int64_t rows() const { return along_k_ ? tile_.outer : tile_.k; }
  int64_t chunks() const { return (along_k_ ? tile_.k : tile_.outer) / chunk_; }  // of a row
  int64_t panel() const { return 8 * chunk_; }  // elements of a row of 128 bytes
  std::string base(const std::string& row) const;
  std::string position(const std::string& row, const std::string& chunk) const;
  // For units whose lanes hold all rows of A at some steps along k (tile_steps.cpp). step_bytes(): how many
  // bytes of a row a lane holds.
  bool by_steps() const { return unit_.a_by_steps() && source_.name == "a"; }
  int64_t step_bytes() const { return unit_.k * size_ / unit_.wave; }
  void declare_steps(Code& code, const std::string& first) const;
  void read_steps(Code& code, int64_t set, Range some, const std::string& step, const std::string& at) const;
  // Padding against bank conflicts of stores that turn: after a row, after eight rows and, if a wave's lanes
  // would still store 4-byte elements of rows 16 apart to the same banks, after sixteen rows.
  int64_t pitch() const { return chunks() * chunk_ + (turned() && !along_k_ ? 4 : 0); }
  int64_t after_eight() const { return turned() && along_k_ && !unit_.reads_local() ? chunk_ : 0; }
  int64_t after_sixteen() const {
    return size_ == 4 && rows_together() == 2 && fragment_outer() % 16 == 0 ? 2 * after_eight() : 0;
  }
  int64_t padding(int64_t rows) const { return rows / 8 * after_eight() + rows / 16 * after_sixteen(); }
  static constexpr int64_t chunk_bytes = 16;
  // How many chunks fill all banks of local memory once: 32 banks of 4 bytes. Chunks further apart share
  // banks.
  static constexpr int64_t bank_chunks = 8;
  // The swizzle: how many rows share a permutation, and how many permutations there are.
  int64_t rows_together() const { return chunks() >= 8 ? 1 : 8 / chunks(); }
  int64_t permutations() const;

  /// Whether elements become those of another type on their way to local memory, because the unit takes no
  /// others: f32, or 8-bit floats 16-bit ones.
  bool widens() const { return source_.dtype != unit_.input; }
  int64_t held_registers() const { return chunk_ * from_size_ / 4; }  // of a chunk as it was read
  // Vectors of those registers: two if elements become narrower.
  int64_t held_vectors() const { return std::max<int64_t>(1, from_size_ / size_); }
  std::string held(int64_t row, int64_t element) const;  // the vector that has it, of chunk i
  std::string held_element(int64_t element) const;       // of chunk i, for local memory
  // The register that local memory gets of a chunk.
  std::string stored_register(int64_t row, int64_t r) const;
  /// Declares the elements of chunk i after the prologue: f32 ready0, ready1, ...
  void declare_ready(Code& code, const std::string& first) const;
  void store_turned(Code& code, const std::string& to) const;
  bool turned() const { return along_k_ != from_along_k_; }
  // Steps along k that an item turns: those of a register or, if rows lie without padding, of a chunk.
  int64_t turns() const { return unit_.reads_local() ? chunk_ : 4 / size_; }
  int64_t loads() const { return turned() && along_k_ ? turns() : 1; }  // for a chunk
  int64_t work() const;                                                 // chunks, or those turned together
  int64_t share() const { return work() / tile_.items; }                // of an item
  int64_t pieces() const;          // chunks that a lane reads for a fragment
  int64_t fragment_outer() const;  // rows or columns of a fragment
  bool outer_edge() const { return !source_.outer_end.empty() || source_.outer.extent() % tile_.outer != 0; }
  // Where an item's vectors lie: those of a chunk together, or each for itself.
  const TileAxis& along() const { return from_along_k_ ? source_.k : source_.outer; }
  int64_t apart() const { return along().even() || along().run() % chunk_ == 0 ? 1 : chunk_ / vector_; }
  int64_t places() const { return from_along_k_ ? 1 : apart(); }  // known before the loop along k
  // Whether the end of K lies inside a vector, whose other elements are the row's padding.
  bool cuts_vectors() const { return from_along_k_ && source_.k.extent() % vector_ != 0; }
  // Whether the item's chunk i of the tile from k_next on, or its row `row`, is inside the image. Behind
  // declare_tap().
  std::string is_inside(int64_t row) const;
  void declare_tap(Code& code) const;
  // Whether an item's offsets are from its tile's first row or column, not from the matrix's. With a border,
  // taps also lie in front of their pixel: from the first image's begin, no offset is negative.
  bool begins_at_tile() const { return source_.outer.even() && !source_.border; }
  void declare_border(Code& code, const std::string& outer) const;
  /// The address in memory of element `element` of the chunk: a base, and a variable offset from it in bytes.
  /// address() declares the variable if the place is not known before the loop.
  struct Address {
    std::string base, offset;
  };
  Address address(Code& code, int64_t row, int64_t element) const;
  /// `row`: which of the chunks that are turned together.
  void load_chunk(Code& code, int64_t row, bool edge) const;
  bool needs_indices(bool edge) const;
  // In a loop over an item's chunks: the index, the chunk's number among all, its first row or column and its
  // first step.
  void open_share(Code& code) const;
  std::string nth() const;
  std::string item() const;
  std::string outer_of() const;
  std::string k_of() const;
  std::string held_row(int64_t row) const;  // of registers that are turned

  Source source_;
  Tile tile_;
  const MatrixUnit& unit_;
  int64_t from_size_, size_;  // bytes of an element in global and in local memory
  int64_t chunk_;             // elements of a chunk
  int64_t vector_ = 1;        // elements that are read at once
  bool along_k_ = true;       // chunks in local memory lie along k
  bool from_along_k_ = true;  // the same for global memory
};

}  // namespace athanor::gpu
