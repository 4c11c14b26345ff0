// Matrix units, as data: the instructions by which the lanes of a wave together multiply small matrices. Each
// lane holds some elements of each matrix in its registers. Which ones depends on the unit.
#pragma once
#include <array>
#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "athanor/graph/dtype.h"

namespace athanor {

enum class GpuTarget : uint8_t;

/// Which elements of a matrix the lanes of a wave hold. Every bit of a lane's number, and of an element's
/// number within the lane, adds a fixed offset. If the offset is zero, lanes hold the same element.
struct LaneLayout {
  /// Of C: row and column. Of A: row and k. Of B: column and k.
  struct Cell {
    int row = 0, column = 0;
    bool operator==(const Cell&) const = default;
  };
  int elements = 1;  // that a lane holds
  std::array<Cell, 7> lane{};
  std::array<Cell, 7> element{};

  Cell at(int of_lane, int of_element) const;
};

/// C[m, n] += A[m, k] B[k, n], by one wave.
struct MatrixUnit {
  /// How the instruction is written: Clang's built-ins for AMD's units, PTX for NVIDIA's (`quads`: Volta's),
  /// OpenCL's functions for Intel's (`dpas`); or what lanes do alone, FMA and the sum of two or four products
  /// (`dot`).
  enum class Form : uint8_t { wmma, wmma_bytes, mfma, quads, mma, wgmma, dpas, fma, dot };

  std::string_view name;         // for people: "wmma 16x16x16"
  std::string_view instruction;  // the built-in's or PTX's name
  Form form;
  int m, n, k;
  int wave;                  // lanes
  DType input, output;       // of A and B; of C
  std::string_view operand;  // of built-ins: the element type of the vectors that they take
  LaneLayout a, b, c;
  /// Additions and multiplications in a cycle of all such units, or of the lanes, of a compute unit (AMD's
  /// matrix instruction calculator, data sheets); 0: not known.
  int flops_cycle = 0;
  bool tf32 = false;     // factors of f32 are rounded to 10 bits of mantissa
  bool as_f16 = false;   // the compiler widens factors of 8 bits first, which takes registers
  bool opencl = false;   // written in OpenCL C (opencl_units.h)
  bool flushes = false;  // takes subnormal factors for 0
  /// Its floats of 8 bits are AMD's first ones (fnuz): the same bits mean half the value, and 0x80, which is
  /// -0 elsewhere, is the only NaN.
  bool fnuz = false;
  /// If its sums have fewer bits than f32: after so many steps along k, lanes add them to their own, and the
  /// unit begins anew (MULTIPLY in the kernel language); else 0.
  int promotes_after = 0;

  /// Registers of 32 bits in which a lane holds its part of A, and of B.
  int a_registers() const;
  int b_registers() const;
  /// Whether MULTIPLY_ADD takes single registers, and not vectors of them.
  bool takes_registers() const { return form == Form::mma || form == Form::quads; }
  /// Whether A and B are not in registers but in local memory, in rows of 128 bytes whose chunks of 16 bytes
  /// are permuted (LOCAL_MATRIX in the kernel language); `a` and `b` have no elements then.
  bool reads_local() const { return form == Form::wgmma; }
  /// Whether A may lie in local memory along its rows and B along its columns, or only along k.
  bool turns_local() const { return reads_local() && size_of(input) == 2; }
  /// Whether a lane holds all rows of A at some steps along k, and not one row.
  bool a_by_steps() const { return form == Form::dpas; }
  /// Whether the language of its kernels has words for exchanges between lanes.
  bool exchanges_lanes() const { return !opencl || (form != Form::dpas && !of_lanes()); }
  /// Whether a lane has every second row of eight of C, the lane 16 further the rows between them, and both
  /// can exchange them.
  bool interleaves_halves() const;
  /// Whether a lane's pairs take an FMA for each product. They save room and reads, but no instructions:
  /// attention gains by it, products do not.
  bool mixes() const { return form == Form::dot && instruction.empty(); }
  /// Whether each lane multiplies alone.
  bool of_lanes() const { return form == Form::fma || form == Form::dot; }
};

/// The units of an architecture as drivers name it ("gfx1100", "gfx90a:sramecc+", "sm_86"), best first for
/// each type; {} if there are none.
std::span<const MatrixUnit> matrix_units(GpuTarget target, std::string_view architecture);

/// The units that are used where there is no matrix unit: 32 lanes multiply 4 x 4 elements each, in f32 by
/// FMA, in f16 if the architecture sums two products at once or multiplies halves of registers, and in i8 if
/// it sums four.
std::span<const MatrixUnit> lane_units(GpuTarget target, std::string_view architecture);

/// Whether the architecture copies from global to local memory by itself (ASYNC_COPY in the kernel language).
bool has_async_copies(GpuTarget target, std::string_view architecture);
/// Whether one command copies a box of a tensor (COPY_BOX).
bool has_box_copies(GpuTarget target, std::string_view architecture);

/// The function MULTIPLY_ADD of the kernel language, for a kernel that uses the unit: MULTIPLY_ADD(c, a, b)
/// with vectors of registers on AMD, MULTIPLY_ADD(c, a0, ..., b0, ...) with single registers in PTX. For
/// `dot` it is MULTIPLY_ADD(c, a, b) with a sum and two registers; for units that read local memory,
/// MULTIPLY_ADD<a lies along its rows, b along its columns>(c, a, b) with two LOCAL_MATRIX, and MULTIPLY if
/// the unit needs it; FMA needs none.
std::string multiply_add_text(const MatrixUnit& unit);
/// A product of four waves that each have 16 rows of A and C, as the word that it becomes (kernel language).
struct MultiplyRows {
  int columns = 8;      // of B and C
  bool add = false;     // C += A B, else C = A B
  bool turned = false;  // B lies along its columns, else along k
  bool local = false;   // A is a LOCAL_MATRIX of all 64 rows, else in registers, as mma.sync's
  std::string name() const;
  auto operator<=>(const MultiplyRows&) const = default;
};
/// The function, by a unit that can take B along its columns.
std::string multiply_rows_text(const MatrixUnit& unit, const MultiplyRows& what);

/// GpuLaunch::compile_options of a kernel that uses the unit.
std::string compile_options_for(const MatrixUnit& unit);

}  // namespace athanor
