// Writes the kernels of grouped_matmul and its gradient by the matrices: products of groups of rows, in one
// launch. Group e has the rows from ends[e - 1], or 0, up to ends[e]. A group of work-items computes a tile
// of the result from steps of both matrices in local memory. GroupedUnits is for matrix units, GroupedFma
// for all other devices and types.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "athanor/kernels/gpu/gpu_kernel.h"
#include "athanor/kernels/gpu/loop_code.h"
#include "athanor/kernels/gpu/matrix_unit.h"

namespace athanor::gpu {

struct GroupedProblem {
  bool gradient;
  DType dtype;
  int64_t rows, inner, groups, columns;
  Ints x, other;  // strides
  int64_t ends;   // stride
};

/// A tile of a work-group, whose items multiply by FMA.
struct GroupedPoint {
  int64_t rows, vectors, width, group_x, group_y, k_step;
  int64_t tile_m() const { return rows * group_y; }
  int64_t tile_n() const { return vectors * width * group_x; }
  int64_t items() const { return group_x * group_y; }
  int64_t pitch() const { return tile_m() + (items() > 1 ? 4 : 0); }
};

/// The same, whose waves multiply by a matrix unit. Words of 32 bits in local memory hold one or two steps
/// along k.
struct GroupedUnitPoint {
  const MatrixUnit* unit;
  int64_t units_m, units_n;  // of a wave
  int64_t waves_m, waves_n;
  int64_t k_step;
  int64_t tile_m() const { return units_m * unit->m * waves_m; }
  int64_t tile_n() const { return units_n * unit->n * waves_n; }
  int64_t items() const { return waves_m * waves_n * unit->wave; }
  int64_t word_elements() const { return 4 / static_cast<int64_t>(size_of(unit->input)); }
  int64_t words() const { return k_step / word_elements(); }
  int64_t pitch() const { return words() + 4; }  // the rows that a wave reads at once lie in different banks
  int64_t local_bytes() const { return (tile_m() + tile_n()) * pitch() * 4; }
};

/// What both have in common: which product and tile a group of work-items has, and the walk along k.
class GroupedKernel {
 protected:
  /// A matrix as a kernel reads it: m or n, and k.
  struct Operand {
    std::string_view name, outer;  // "a", "m"
    std::string end;               // of m or n
    int64_t tile, outer_stride, k_stride;
    bool along_k;  // neighbouring items read neighbouring k
  };

  template <class Point>
  GroupedKernel(const GroupedProblem& problem, const Point& point)
      : GroupedKernel(problem, point.tile_m(), point.tile_n(), point.items(), point.k_step) {}

  /// Opens the kernel. `item`: the expression of a work-item's number in its group.
  void begin(const std::string& item);
  void open_steps();
  void close_steps();
  /// A loop that gives each item some of an operand's tile: `count` places along k with index `along`.
  void stage(const Operand& operand, int64_t count, std::string_view along,
             const std::function<void()>& body);
  /// Whether the element at k, an index or sum of them, is one of the operand's, and its place in memory.
  static std::string exists(const Operand& operand, const std::string& k);
  std::string place(const Operand& operand, const std::string& k) const;
  std::string store(const std::string& row, const std::string& column, const std::string& x) const;
  void wait();  // a single item need not

  Code code_;
  const GroupedProblem& p_;
  Operand a_, b_;

 private:
  GroupedKernel(const GroupedProblem& problem, int64_t tile_m, int64_t tile_n, int64_t items, int64_t k_step);

  void write_begin_of();
  void report_bad_end();
  void find_group();
  std::string end_of(const std::string& group) const;

  int64_t items_, k_step_;
  bool wide_;  // indices need 64 bits
};

class GroupedFma : GroupedKernel {
 public:
  GroupedFma(const GroupedProblem& problem, const GroupedPoint& point)
      : GroupedKernel(problem, point), point_(point) {}
  std::string text();

 private:
  std::string element_type() const { return p_.dtype == DType::f64 ? "f64" : "f32"; }
  std::string vector_type() const;
  std::string first_row() const;
  std::string column() const;
  void stage_element(const Operand& operand, int64_t pitch);
  void multiply();
  void store_sums();

  const GroupedPoint& point_;
};

class GroupedUnits : GroupedKernel {
 public:
  GroupedUnits(const GroupedProblem& problem, const GroupedUnitPoint& point)
      : GroupedKernel(problem, point), point_(point), unit_(*point.unit) {}
  std::string text();

 private:
  /// NVIDIA's units take single registers, AMD's vectors of them.
  bool single_registers() const { return unit_.form == MatrixUnit::Form::mma; }
  void find_lane();
  void stage_words(const Operand& operand);
  void open_sums();
  void close_sums();
  void read_parts(const Operand& operand, const LaneLayout& layout, int registers, int64_t units,
                  int64_t outer);
  void multiply();
  void store_sums();

  const GroupedUnitPoint& point_;
  const MatrixUnit& unit_;
};

}  // namespace athanor::gpu
