// A contraction's prologue (KernelRequest::prologue) for kernels that compute the operand's elements when
// they read them.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "athanor/kernels/gpu/gpu_kernel.h"
#include "athanor/kernels/gpu/result_epilogue.h"

namespace athanor::gpu {

class Code;

/// What is read lies in `memory` as the operand itself would. Each element of the operand is computed from
/// the one that is read there, and from the prologue's other inputs.
struct OperandPrologue {
  GpuLaunch::Argument memory;
  DType dtype = DType::f32;                        // of the elements in memory
  int64_t alignment = OperandDesc::whole_vectors;  // of the first, in bytes
  ResultEpilogue elements;
};

/// None if the request has no prologue, or no input of it lies as the operand does. `name` begins the names
/// in sources.
std::optional<OperandPrologue> operand_prologue(const KernelRequest& request, std::string name);

/// Neighbouring elements of an operand, the first of them at a multiple of their number.
struct PrologueRun {
  int64_t count = 1;
  std::string at, row, column;  // of the first: in the operand's memory, and along the prologue's axes
  int64_t at_step = 1, row_step = 0, column_step = 0;  // to the next
  std::function<std::string(int64_t)> element;         // as it was read
};
/// Declares ready0, ready1, ..., numbers of f32: what the elements become. A variable `batch` must exist.
void declare_ready(Code& code, const ResultEpilogue& prologue, const PrologueRun& run);

/// Makes a candidate for the request from `plain`, one for it without its prologue: a loop computes the input
/// first.
GpuCandidate with_loop_before(GpuCandidate plain, const KernelRequest& request, const GpuTraits& traits);

}  // namespace athanor::gpu
