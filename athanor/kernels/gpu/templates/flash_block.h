// A block of rows of q, k, v or g on its way to the matrix units: from global memory to local memory, in the
// type in which it is stored, and from there to the registers of a wave.
//
// Local memory has it in one form or in both: plain, [row][feature], for products that sum along features,
// and turned, [feature][row], for those that sum along rows. If the unit's loads turn (NVIDIA), the plain
// form serves both. It also does for elements of 32 bits: they are read one by one, in an order of rows that
// avoids bank conflicts.
// If lanes hold all rows of A at one or two steps along k (Intel), each form serves the other products, so
// that a lane reads what lies along its steps. Two steps lie together: [row / 2][feature][row % 2].
// Rows are padded so that the lanes of a wave touch all banks equally often. For units that read local memory
// themselves, rows are permuted instead, and one form serves all products (flash_local_matrices.cpp).
#pragma once
#include <string>

#include "athanor/kernels/gpu/loop_code.h"
#include "athanor/kernels/gpu/matrix_unit.h"
#include "athanor/kernels/gpu/templates/attention.h"

namespace athanor::gpu {

/// What attention needs to know of a matrix unit. A wave has own rows along the side of C on which each lane
/// holds few of them: the rows of C for mma, whose C is laid out as its A; else the columns, as in B.
/// Other rows are then A.
struct FlashUnit {
  const MatrixUnit* unit;
  /// The unit by which four waves multiply together, each its 16 rows (wgmma); C, and A in registers, are
  /// laid out as those of `unit`, an mma. Other rows then stay in local memory.
  const MatrixUnit* four = nullptr;

  std::string name() const { return four != nullptr ? "wgmma" : std::string(unit->name); }
  bool mma() const { return unit->form == MatrixUnit::Form::mma; }
  bool mfma() const { return unit->form == MatrixUnit::Form::mfma; }
  bool mfma_f32() const { return mfma() && size() == 4; }
  int64_t own_rows() const { return mma() ? unit->m : unit->n; }
  int64_t tile() const { return mma() ? unit->n : unit->m; }  // other rows, or features, of C
  int64_t read() const { return mma() ? 16 : unit->m; }       // those that are read at once
  int64_t per_read() const { return read() / tile(); }
  /// Both halves of a wave hold the same steps along k (RDNA3).
  bool doubled() const { return unit->form == MatrixUnit::Form::wmma && unit->a.elements == 16; }
  /// A lane has all rows of A at one or two steps along k (Intel).
  bool by_steps() const { return unit->a_by_steps(); }
  int64_t steps() const { return by_steps() ? unit->k / unit->wave : 1; }
  int LaneLayout::Cell::*own() const { return mma() ? &LaneLayout::Cell::row : &LaneLayout::Cell::column; }
  int LaneLayout::Cell::*other() const { return mma() ? &LaneLayout::Cell::column : &LaneLayout::Cell::row; }

  int64_t size() const { return static_cast<int64_t>(size_of(unit->input)); }
  int64_t chunk() const { return 16 / size(); }  // elements of 16 bytes
  // Steps along k that are read at once: features of a plain block, rows of a turned one.
  int64_t plain_steps() const { return (mfma() ? unit->wave / unit->m : 2) * chunk(); }
  int64_t turned_steps() const {
    if (mma()) return 2 * chunk();
    return unit->m == 32 ? 8 : 16;
  }
  /// The types of what is read at once, of own and of other rows along features, of other rows along rows,
  /// and of their weights; how many units multiply it one after another; the part that unit u takes.
  std::string own_type() const { return unit->b_registers() == 8 ? "u32x8" : "u32x4"; }
  std::string plain_type() const { return unit->a_registers() == 8 ? "u32x8" : "u32x4"; }
  std::string turned_type() const { return short_runs() ? "u32x2" : plain_type(); }
  std::string weights_type() const { return short_runs() ? "u32x2" : own_type(); }
  int64_t plain_units() const { return plain_steps() / unit->k; }
  int64_t turned_units() const { return turned_steps() / unit->k; }
  static std::string part_of(const std::string& name, int64_t units, int64_t u);
  /// A lane has a run of four rows as its steps along rows, of 16 bits.
  bool short_runs() const { return unit->m == 32 && size() == 2; }
  /// Local memory needs no turned form.
  bool one_form() const { return mma() || size() == 4; }
  /// Lanes read own rows from global memory, because what a lane holds of them lies there in 16 bytes. In 32
  /// bits a group's rows would take more local memory than the blocks do, and leave room for fewer waves.
  bool reads_own_directly() const { return mfma_f32(); }
  /// Whether attention's kernels can use it.
  bool fits() const;
};

class FlashBlock {
 public:
  struct Size {
    int64_t rows = 0, items = 0;  // of the block; items that fill it
    bool plain = false, turned = false;
    bool a = true;  // it is read as the unit's A, not as B
  };
  /// `features`: how many the matrix has. `name`: of variables; empty: the matrix's.
  FlashBlock(const AttentionProblem::Matrix& matrix, int64_t features, Size size, const FlashUnit& unit,
             const std::string& name = {});

  int64_t elements() const { return plain_elements() + turned_elements(); }  // of local memory
  int64_t features() const { return features_; }                             // with padding
  int64_t held_registers() const { return share() * loads() * 4; }
  /// Whether ASYNC_COPY can fill it, and offsets within it fit 32 bits.
  bool copies() const { return unit_.mma() && matrix_.vector * unit_.size() >= 4; }
  bool fits() const;
  bool even() const { return work() % size_.items == 0; }  // items have equal shares

  /// `first`: the block's first row.
  void declare(Code& code, const std::string& first) const;
  void declare_memory(Code& code, const std::string& first) const;  // where it begins; declare() does so too
  void declare_lanes(Code& code) const;  // the places from which a lane reads; as well
  void declare_held(Code& code) const;
  /// Reads the item's chunks into its registers. `left`: how many rows remain from the block's first one on;
  /// "": enough.
  void load(Code& code, const std::string& left) const;
  /// Computes them from what lies in the matrix's place, of rows from `first` on, before `end`. Returns the
  /// functions that it calls.
  std::string compute(Code& code, const OperandPrologue& prologue, const std::string& first,
                      int64_t end) const;
  /// Whether it can: a chunk's elements lie together, at multiples of 16 bytes.
  bool computes(const OperandPrologue& prologue) const;
  /// Writes them to local memory, from element `at` on.
  void store(Code& code, const std::string& at) const;
  void copy(Code& code, const std::string& at, const std::string& left) const;
  void advance(Code& code) const;  // by a block

  /// Reads own rows from global memory: `part` gets the features of step `f`, of the rows from `row` on.
  /// `left` as in load().
  void load_own(Code& code, const std::string& part, const std::string& row, const std::string& f,
                const std::string& left) const;
  /// The same from local memory.
  void read_own(Code& code, const std::string& part, const std::string& at, const std::string& row,
                const std::string& f) const;
  /// The same for other rows; `j` counts by FlashUnit::read().
  void read_plain(Code& code, const std::string& part, const std::string& at, const std::string& j,
                  const std::string& f) const;
  /// Reads steps along rows: `t` counts rows by FlashUnit::turned_steps(), `f` features by FlashUnit::read().
  void read_turned(Code& code, const std::string& part, const std::string& at, const std::string& t,
                   const std::string& f) const;
  /// The same as the unit's other operand; `f` counts features by FlashUnit::own_rows().
  void read_weights(Code& code, const std::string& part, const std::string& at, const std::string& t,
                    const std::string& f) const;
  /// For units that read local memory: the block as a LOCAL_MATRIX from row `row` on, a multiple of eight,
  /// along features or, `by_rows`, along rows; and how far from it, in chunks, its n-th step along k is.
  std::string local_matrix(const std::string& at, const std::string& row, bool by_rows) const;
  int64_t local_step(int64_t n, bool by_rows) const;
  /// Where an element is, for a block of one form.
  int64_t place(int64_t row, int64_t feature) const;
  std::string place(const std::string& row, const std::string& feature) const;

 private:
  bool turned() const { return size_.turned && !unit_.one_form(); }
  bool plain() const { return size_.plain || unit_.one_form(); }
  int64_t steps() const { return size_.a ? unit_.steps() : 1; }  // that lie together
  // In panels of 64 features, rows of 128 bytes whose chunks are permuted, as LOCAL_MATRIX has them.
  bool permuted() const { return unit_.four != nullptr; }
  int64_t panels() const { return (features_ + 63) / 64; }
  int64_t panel() const { return 64 * size_.rows; }
  int64_t pitch() const { return permuted() ? 64 : features_ * steps() + unit_.chunk(); }
  // The turned form: padding of a row and after eight rows, and pairs of rows that neighbours fill.
  bool wide() const { return unit_.unit->m == 32; }
  int64_t turned_pitch() const { return size_.rows * steps() + (wide() ? 4 : 8); }
  int64_t extra() const { return wide() || steps() == 2 ? 0 : 8; }
  int64_t pairs_together() const { return wide() ? 16 : 4; }
  int64_t plain_elements() const {
    if (permuted()) return panels() * panel();
    return plain() ? size_.rows / steps() * pitch() : 0;
  }
  int64_t turned_elements() const { return turned() ? features_ / 8 * eight_turned() : 0; }
  int64_t eight_turned() const { return 8 / steps() * turned_pitch() + extra(); }  // of eight features
  int64_t chunks() const { return features_ / unit_.chunk(); }
  int64_t loads() const { return turned() || steps() == 2 ? 2 : 1; }  // chunks of one piece of work
  int64_t work() const { return size_.rows / loads() * chunks(); }
  int64_t share() const { return (work() + size_.items - 1) / size_.items; }
  const std::string& name() const { return name_; }
  void declare_chunk(Code& code) const;
  void open_share(Code& code, bool places) const;
  void close_share(Code& code) const;
  void load_chunk(Code& code, const std::string& held, const std::string& from, int64_t row,
                  const std::string& left) const;
  std::string inside(int64_t row, int64_t element, const std::string& left) const;
  std::string permuted_place(const std::string& row, const std::string& chunk) const;
  void store_pairs(Code& code, const std::string& at) const;

  AttentionProblem::Matrix matrix_;
  int64_t real_features_, features_;
  Size size_;
  FlashUnit unit_;
  std::string name_;
};

}  // namespace athanor::gpu
