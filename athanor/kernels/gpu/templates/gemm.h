// Matrix products on GPUs: the problem, the points of its tuning space, and their launches.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "athanor/kernels/gpu/gpu_kernel.h"
#include "athanor/kernels/gpu/operand_prologue.h"
#include "athanor/kernels/gpu/result_epilogue.h"

namespace athanor::gpu {

class Code;

/// The matrices of a product as expressions of the kernel language, for pointers `a`, `b` and `c` to the
/// matrices of a batch. Their arguments are expressions, too.
struct GemmMatrices {
  using Of = std::function<std::string(const std::string&)>;
  using At = std::function<std::string(const std::string&, const std::string&)>;
  At a_element, b_element;                    // of (row, k) and (k, column)
  At c_place;                                 // where (row, column) lies
  At a_place = {};                            // where (row, k) lies, if A is read directly
  Of b_row = {};                              // where row k of B begins, if it is
  Of b_begin = {};                            // where B begins among the matrices, of the batch
  std::string b_functions = {};               // that b_element calls
  std::string stage_functions = {};           // that stage_b calls
  bool a_along_k = false, b_along_k = false;  // whether neighbours in memory lie along k
  int64_t c_run = 1;                          // so many columns are contiguous in C; 0: all
  /// What a single item declares, and how it fills `b_tile`, k_count rows of `tile` floats from row k0 and
  /// column n0 on. Without it, it does so element by element.
  std::function<void(Code&, int64_t tile)> begin_b = {}, stage_b = {};
};

/// The elements of type `dtype` at these places behind a pointer.
GemmMatrices::At elements_at(DType dtype, const char* pointer, GemmMatrices::At place);

/// C = A B for `batch` matrices: A [m, k], B [k, n], C [m, n], each with any strides; then the epilogue.
struct GemmProblem {
  struct Operand {
    int buffer;
    int64_t batch, row, column;                      // strides in elements
    int64_t start = 0;                               // bytes into the buffer
    int64_t alignment = OperandDesc::whole_vectors;  // of the first element, in bytes
    int64_t padding = 0;                             // see OperandDesc
  };
  DType dtype = DType::f32;           // of C, and of A and B
  std::optional<DType> factors = {};  // of A and B, if it is another
  int64_t batch = 0, m = 0, n = 0, k = 0;
  Operand a{}, b{}, c{};
  ResultEpilogue epilogue;
  /// What computes the elements of A (prologue_of 0) or B (1). Only tiles (tile_gemm.h) do it.
  std::optional<OperandPrologue> prologue = {};
  size_t prologue_of = 0;
  int scratch_buffer = 0;
  size_t scratch_start = 0;                   // bytes that are already in use
  std::optional<GemmMatrices> matrices = {};  // if strides cannot describe them
  /// Whether `a` can be read directly: rows a.row apart, steps along k a.column apart.
  bool a_strided = true;
  bool b_strided = true;
  /// The most steps along k in one run of a direct `a`; 0: all.
  int64_t a_run = 0;
  /// The same for a direct `b`.
  int64_t b_run = 0;
  bool wide_index = false;  // offsets within `matrices` need 64 bits

  GemmProblem() = default;
  /// The problem of a batch_matmul. If the whole batch shares b, as in a linear layer, it becomes one taller
  /// matrix.
  explicit GemmProblem(const KernelRequest& request);
  /// The same as a product of the transposed matrices: C' = B' A'.
  GemmProblem transposed() const;
};

/// Where a group reads a matrix from: memory as it is, panels that an earlier launch has packed, or local
/// memory that the group fills.
enum class GemmSource : uint8_t { direct, packed, staged };

/// A point of the tuning space of gemm_kernel().
struct GemmPoint {
  GemmSource a = GemmSource::direct, b = GemmSource::direct;
  int64_t rows = 8, vectors = 2, width = 16;  // of an item
  int64_t subtiles = 1;
  int64_t group_x = 1, group_y = 1;
  int64_t k_step = 0;  // 0: all of k
  int64_t splits = 1;

  int64_t block_m() const { return rows * group_y; }
  int64_t tile_m() const { return block_m() * subtiles; }
  int64_t tile_n() const { return vectors * width * group_x; }
};

/// Whether offsets within one matrix need 64 bits: only if one has that many elements.
bool has_wide_index(const GemmProblem& problem);
/// Adds the parts [splits, batch, m, n] of a product whose k is split, in f32, and applies the epilogue.
GpuLaunch sum_launch(const GemmProblem& problem, int64_t splits, GpuLaunch::Argument parts);
/// Whether the point's direct sources fit the problem's extents and strides, and its tiles fit into local
/// memory.
bool fits(const GemmProblem& problem, const GemmPoint& point, const GpuTraits& traits);
/// For problems in f32, f16 and bf16 that the point fits, with k > 0.
GpuCandidate gemm_candidate(const GemmProblem& problem, const GemmPoint& point);
/// A point of the tuning space of dot products: an item computes rows <= m by columns <= n.
struct DotPoint {
  int64_t rows, columns;
  int64_t width, items;  // elements along k at a time, of an item; items of a group
  bool by_registers;     // see dot_reads_registers()
};
/// Dot products along k, which is contiguous or packed.
GpuCandidate dot_candidate(const GemmProblem& problem, const DotPoint& point);
/// Whether both matrices are in f16 or bf16 and all their vectors of 8 elements along k begin at multiples of
/// 16 bytes, so that READ_REGISTERS reads them.
bool dot_reads_registers(const GemmProblem& problem);
/// Whether it has at most four rows, and 16 bytes of each row of B can be read at once (traits.registers).
bool is_of_few_rows(const GemmProblem& problem, const GpuTraits& traits);
/// For problems of few rows: one kernel that is bound by reading B.
GpuCandidate few_rows_candidate(const GemmProblem& problem, const GpuTraits& traits);
/// For any dtype, extents and strides. An item computes rows x columns elements; neighbouring items lie along
/// columns.
GpuCandidate plain_gemm_candidate(const GemmProblem& problem, int64_t rows, int64_t columns, int64_t group_x,
                                  int64_t group_y);

/// Of each tile in local memory, in bytes.
inline constexpr int64_t gemm_tile_alignment = 64;

/// The points worth timing on the device, best guess first.
std::vector<GemmPoint> gemm_points(const GemmProblem& problem, const GpuTraits& traits);

}  // namespace athanor::gpu
