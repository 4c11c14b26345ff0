// What an examination runs on a device.
#pragma once
#include <string>
#include <vector>

#include "athanor/graph/op.h"
#include "athanor/ops/op_case.h"

namespace athanor {

/// An op with inputs: one of its own cases, or a case for examinations.
struct Asked {
  const Op* op;
  OpCase spec;
  DType dtype = DType::f32;  // of inputs whose dtype is open
  uint64_t seed = 0;
  std::vector<uint64_t> seeds = {};  // one for each input: inputs with equal seeds are one tensor in all ops
};
FilledCase fill(const Asked& asked);

/// Whether GPUs have a kernel for it; other ops decompose.
bool has_gpu_kernel(const Asked& asked);

/// Cases that run in one plan.
struct AskedPart {
  std::string name;
  std::vector<Asked> asked;
  double work = 0;  // see ExaminationPart
};

/// Each primitive, loops of each shape, products, convolutions, pooling and attention in sizes that training
/// has, and every other op with a kernel. Nearly all the time goes into compiling kernels, so cases share
/// kernels, and loops over the same numbers, where possible.
std::vector<AskedPart> short_cases();
/// Every op in all its cases and dtypes, and the larger cases of short_cases().
std::vector<AskedPart> whole_cases();

/// The sizes of convolutions and pooling in short cases. The training step's are equal, for equal kernels.
namespace examined {
constexpr int64_t batch = 2, channels = 32, maps = 48, size = 14, window = 3, padding = 1, pool = 2;
constexpr int64_t pooled = size / pool;
}  // namespace examined

}  // namespace athanor
