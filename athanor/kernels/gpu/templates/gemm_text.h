// What the files share that write the kernels of gemm.h.
#pragma once
#include <fmt/format.h>

#include <string>
#include <vector>

#include "athanor/kernels/gpu/index_code.h"
#include "athanor/kernels/gpu/templates/gemm.h"

namespace athanor::gpu {

/// The items of a group that packs matrices or adds up parts.
inline constexpr int64_t helping_items = 64;

/// The type of offsets within one matrix.
inline std::string index_type(const GemmProblem& problem) { return has_wide_index(problem) ? "i64" : "i32"; }

/// A kernel's parameters: the inputs, what the epilogue reads if the kernel `finishes` the result, and the
/// output.
std::vector<Parameter> gemm_parameters(std::vector<Parameter> inputs, const GemmProblem& problem,
                                       bool finishes, Parameter output);
/// What they are bound to.
std::vector<GpuLaunch::Argument> arguments_of(const std::vector<Parameter>& parameters);
/// Declares a pointer into a parameter's buffer.
void declare_pointer(Code& code, const char* name, const Parameter& of, const std::string& begin);
/// The number of a batch, for expressions; declare_batch() declares it, if there is more than one or the
/// epilogue takes it. `number`: an expression for it.
inline std::string batch_of(const GemmProblem& problem) { return problem.batch == 1 ? "0" : "batch"; }
void declare_batch(Code& code, const GemmProblem& problem, bool finishes, const std::string& number);
/// An element with the epilogue. A variable `batch` must exist.
std::string finished(const GemmProblem& problem, const GemmMatrices& matrices, const std::string& x,
                     const std::string& row, const std::string& column);
/// Where an element lies among the results.
std::string place_of_result(const GemmProblem& problem, const GemmMatrices& matrices, const std::string& row,
                            const std::string& column);

/// Scratch memory, assigned part after part.
struct GemmScratch {
  int buffer;
  size_t bytes = 0;
  GpuLaunch::Argument take(int64_t floats);
};

/// The matrices, each at its own pointer: a, b, c.
GemmMatrices matrices_of(const GemmProblem& problem);

/// Vectors of neighbouring elements, as floats in registers.
struct GemmVectors {
  DType dtype;  // of elements in memory
  int64_t width;
  bool by_registers = false;  // 16 bytes are read at once
  std::string type() const { return fmt::format("f32x{}", width); }
  std::string zero() const { return fmt::format("({})(0.0f)", type()); }
  std::string multiply_add(const std::string& a, const std::string& b, const std::string& c) const;
  std::string load(const std::string& pointer, const std::string& at) const;
  std::string function() const;  // that load() calls; "" if it calls none
};

/// Packs the rows of A, or the columns of B, into panels [K, panel] of f32, padded with zeros.
GpuLaunch pack_launch(const GemmProblem& problem, bool packs_a, int64_t panel, bool one_item,
                      GpuLaunch::Argument to);
/// The kernel of a point.
std::string gemm_kernel(const GemmProblem& problem, const GemmPoint& point,
                        const std::vector<Parameter>& parameters);
int64_t a_pitch(const GemmPoint& point);

}  // namespace athanor::gpu
