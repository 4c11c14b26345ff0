// What the files share that write the kernels of gemm.h.
#pragma once
#include <initializer_list>
#include <string>
#include <vector>

#include "athanor/kernels/gpu/index_code.h"
#include "athanor/kernels/gpu/templates/gemm.h"

namespace athanor::gpu {

/// The items of a group that packs matrices or adds up parts.
inline constexpr int64_t helping_items = 64;

/// Buffers in the order of a kernel's parameters: the inputs, those of the epilogue if the kernel `finishes`
/// the result, the output.
std::vector<GpuLaunch::Argument> gemm_arguments(std::initializer_list<GpuLaunch::Argument> inputs,
                                                const GemmProblem& problem, bool finishes,
                                                GpuLaunch::Argument output);

/// Scratch memory, assigned part after part.
struct GemmScratch {
  int buffer;
  size_t bytes = 0;
  GpuLaunch::Argument take(int64_t floats);
};

/// The matrices, each at its own pointer: a, b, c.
GemmMatrices matrices_of(const GemmProblem& problem);
/// The type `vector` of `width` floats, MULTIPLY_ADD, and how LOAD_VECTOR loads stored elements.
/// `by_registers`: 16 bytes at once.
std::string vectors_text(DType dtype, int64_t width, bool by_registers = false);

/// Packs the rows of A, or the columns of B, into panels [K, panel] of f32, padded with zeros.
GpuLaunch pack_launch(const GemmProblem& problem, bool packs_a, int64_t panel, bool one_item,
                      GpuLaunch::Argument to);
/// The kernel of a point.
std::string gemm_kernel(const GemmProblem& problem, const GemmPoint& point);
int64_t a_pitch(const GemmPoint& point);

}  // namespace athanor::gpu
