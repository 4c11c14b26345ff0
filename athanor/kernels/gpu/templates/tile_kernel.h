// Writes the kernel of a matrix product by matrix units.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "athanor/kernels/gpu/templates/groups_of_rows.h"
#include "athanor/kernels/gpu/templates/tile_gemm.h"
#include "athanor/kernels/gpu/templates/tile_operand.h"
#include "athanor/kernels/gpu/templates/tile_stream.h"

namespace athanor::gpu {

/// Whether lanes of the unit hold runs of rows of C, longer than those of columns.
bool unit_stores_rows(const MatrixUnit& unit);
/// Whether lanes of RDNA3's units may store eight elements along an axis of C at once, after an exchange.
bool stores_eight(const TileProblem::Result& c, const TileAxis& along, const TileAxis& across);

class TileKernel {
 public:
  TileKernel(const TileProblem& problem, const TilePoint& point);
  bool fits(const GpuTraits& traits) const;
  int64_t local_bytes() const;
  /// Whether registers suffice for items' own copies beside the sums. (Of units that read local memory.)
  bool has_room_for_addresses() const;
  /// How many parts it makes of each result that the epilogue reduces.
  int64_t sum_parts() const;
  /// Computes into `c`: the result, or the parts [splits, batch, m, n] of it, in the type of sums. For a
  /// stream, `c` gets the tiles that a group computes alone; the rest goes to `parts`: [stream().parts()]
  /// tiles.
  GpuLaunch launch(GpuLaunch::Argument c, const GpuTraits& traits, GpuLaunch::Argument parts = {});
  /// The loop that adds those parts and computes an epilogue with further results; none if parts do not lie
  /// as it needs them.
  std::optional<ResultEpilogue::Finish> loop_over_parts() const;
  /// Adds those parts and applies the epilogue.
  GpuLaunch sum(GpuLaunch::Argument parts, const GpuTraits& traits) const;
  /// The same for a stream: the tiles that groups share.
  GpuLaunch finish_stream(GpuLaunch::Argument parts, const GpuTraits& traits) const;
  TileStream stream() const;

 private:
  // Rows and columns of a wave, and of a fragment.
  int64_t wave_m() const { return point_.m / point_.waves_m; }
  int64_t wave_n() const { return point_.n / point_.waves_n; }
  int64_t fragment_m() const { return unit_.m; }
  int64_t fragment_n() const { return unit_.form == MatrixUnit::Form::mma ? 2 * unit_.n : unit_.n; }
  int64_t part_k() const;
  /// Whether a group multiplies a single tile along k.
  bool one_step() const { return point_.streams == 0 && part_k() <= point_.k; }

  const char* hidden_sum() const { return unit_.output == DType::i32 ? "HIDDEN_LANE" : "HIDDEN_F32"; }

  // Groups that only the device knows (tile_groups.cpp).
  bool has_groups(TileProblem::Groups::Along along) const { return p_.has_groups(along); }
  bool ragged_m() const { return has_groups(TileProblem::Groups::Along::row) || p_.m % point_.m != 0; }
  bool ragged_n() const { return has_groups(TileProblem::Groups::Along::column) || p_.n % point_.n != 0; }
  std::string m_end() const;
  std::string n_end() const;
  bool has_tiles_of_groups() const { return p_.groups && !has_groups(TileProblem::Groups::Along::k); }
  GroupsOfRows groups() const;
  void find_group();
  void find_steps_of_group();
  int64_t all_groups() const;  // of work-items

  int64_t tiles_m() const { return ceil_div(p_.m, point_.m); }
  int64_t tiles_n() const { return ceil_div(p_.n, point_.n); }
  void find_tile(Code& code) const;
  void begin(bool local_at_launch);
  void declare_local(bool at_launch);
  bool can_stream() const;
  void begin_stream();
  void store_stream();
  void load(bool edge);
  void copy(const std::string& at, bool edge);
  void fetch(const std::string& at);
  void declare_parts(int sets_of_a, int sets_of_b);
  void read(int64_t set, const std::string& step, const std::string& at);
  TileOperand::Range all_columns() const { return {0, wave_n() / unit_.n}; }
  void multiply(int64_t set, int64_t set_of_b, TileOperand::Range columns);
  // Registers of a lane: addresses and counters need the rest of RDNA's 256.
  static constexpr int64_t most_in_use = 232;
  int64_t fragment_registers() const;  // of a set of them
  int64_t held_sums() const;           // and reduced values
  bool fences_epilogue(int64_t run) const;
  bool reads_ahead() const;
  void convert(bool while_multiplying);
  void read_and_multiply(const std::string& at, bool is_last);
  void read_and_multiply_by_columns(const std::string& at);
  void loop_of_copies();
  void loop_of_registers();
  void loop_of_local_matrices();
  void loop_of_written_matrices();
  void loop_of_boxes();
  void multiply_local_matrices(const std::string& at, const std::function<void()>& meanwhile);
  void promote_local_matrices(const std::function<void()>& meanwhile);
  std::string local_multiplication(const char* word, const std::string& sums, int64_t i, int64_t j,
                                   int64_t f) const;
  void hide(const std::string& sums);
  int64_t stages_on_the_way() const;
  void await_local_matrices();
  // Loops over the units' results of a wave. A loop of one iteration is a block, in which the index is "0".
  struct Loop {
    const char* name;
    int64_t end, step = 1;
    std::string index() const { return end == step ? "0" : name; }
  };
  Loop rows() const { return {"i", wave_m() / unit_.m}; }
  Loop columns() const { return {"j", wave_n() / unit_.n, terms_together_}; }
  void open(const Loop& loop) { open_unrolled(code_, loop.name, loop.end, loop.step); }
  std::string row_at(int64_t offset) const {
    return plus(plus("row_begin", times(rows().index(), unit_.m)), offset);
  }
  std::string column_at(int64_t offset) const {
    return plus(plus("column_begin", times(columns().index(), unit_.n)), offset);
  }
  void each_unit(const std::function<void(const std::string& sums)>& body);
  // The epilogue (tile_epilogue.cpp).
  const TileAxis& along() const { return row_.stride() == 1 ? row_ : column_; }  // of runs in memory
  std::string index_along(const std::string& row, const std::string& column, int64_t r) const;
  std::string place_of(const std::string& row, const std::string& column) const;
  std::string if_inside(const std::string& row, const std::string& column, bool as_parts) const;
  void read_vectors(const std::string& run, const std::string& row, const std::string& column,
                    const std::string& condition);
  std::string finished(const std::string& run, int64_t r, const std::string& x, const std::string& row,
                       const std::string& column) const;

  void store_run(const std::string& out, const std::string& to, DType type, const std::string& at,
                 const std::vector<std::string>& values, bool exchanged = false);
  void store_further(int64_t element, const std::string& at, const std::vector<std::string>& values,
                     const std::vector<std::string>& indices);
  void store_result(bool as_parts);
  static std::string register_of(DType type, const std::vector<std::string>& values, int64_t r);
  std::vector<DType> stored_types(bool as_parts) const;
  bool begins_at(int64_t v, int64_t size, bool as_parts) const;

  /// Whether lanes exchange elements between the halves of a wave, so that each has eight neighbours.
  bool exchanges_halves(bool as_parts) const;
  // Lanes exchange elements before they store them (tile_exchange.cpp).
  struct Chunk;
  int64_t exchanged(bool as_parts) const;
  static std::string part_of(const Chunk& chunk, int64_t eights);
  std::string sum_of(const Chunk& chunk, int64_t eights, int64_t r) const;
  std::string row_of(const Chunk& chunk) const;
  std::string column_of(const Chunk& chunk, const char* begin, int64_t eights) const;
  void store_exchanged_sums(const Chunk& chunk, int64_t pairs, DType type);
  void store_exchanged_results(const Chunk& chunk, int64_t pairs, bool as_parts);
  void store_exchanged(bool as_parts, int64_t pairs);
  /// A kernel of these extents that adds parts and applies the epilogue: `find` names an element's batch, row
  /// and column, `add` adds its parts to `sum`.
  GpuLaunch add_parts(const char* name, const Shape& extents, GpuLaunch::Argument parts,
                      const GpuTraits& traits, const std::function<void(Code&)>& find,
                      const std::function<void(Code&)>& add) const;

  // Reductions: a lane adds its elements of each result, the lanes of a wave add theirs, and a wave stores a
  // part (tile_terms.cpp).
  void find_reduced();
  bool reduces() const { return !p_.epilogue.reductions().empty() && point_.splits == 1; }
  bool reduces_rows_alone() const { return reduced_.row && !reduced_.column; }
  bool reduces_all() const { return reduced_.row && reduced_.column; }
  int64_t far_lanes() const;
  std::vector<int> kept_cells() const;
  int kept_of(int element, int64_t unit) const;
  void declare_terms();
  void add_terms(int element, const std::vector<std::string>& indices, int64_t name, int64_t unit = 0);
  void store_terms();

  Code code_;
  TileProblem p_;
  TilePoint point_;
  const MatrixUnit& unit_;
  TileOperand a_, b_;
  TileAxis row_, column_;  // of C, or of the parts
  LaneLayout c_;           // of the unit, after the exchange of halves if lanes do it
  ResultEpilogue::Reduced reduced_;
  int64_t terms_together_ = 1;                   // units beside each other whose terms are added together
  std::vector<ResultEpilogue::Vector> vectors_;  // operands that the epilogue reads as vectors
};

}  // namespace athanor::gpu
