// Source for kernels with one work-item for each element of a shape.
#pragma once
#include <string>
#include <vector>

#include "athanor/graph/shape.h"
#include "athanor/kernels/gpu/gpu_kernel.h"
#include "athanor/kernels/gpu/loop_code.h"

namespace athanor::gpu {

/// A kernel's buffer parameter: its name, its element type in the language, and what it is bound to.
struct Parameter {
  std::string name, type;
  GpuLaunch::Argument argument = {};
};
/// "STORED(bf16)"
std::string stored(DType dtype);

/// A kernel with one work-item for each index of `shape`. Its body can use dim0, dim1, ... and `flat`, the
/// row-major position.
class ElementKernel {
 public:
  ElementKernel(std::string name, const Shape& shape, const std::vector<Parameter>& parameters,
                const GpuTraits& traits, bool can_fault = false);
  Code& code() { return code_; }
  /// "dim0", "dim1", ... for every axis.
  const std::vector<std::string>& index() const { return index_; }
  /// Ends the body and returns the launch.
  GpuLaunch finish();

 private:
  Code code_;
  std::vector<std::string> index_;
  GpuLaunch launch_;
};

/// Opens the kernel: "KERNEL void name(...) {" and a BIND for every parameter.
void open_kernel(Code& code, const std::string& name, const std::vector<Parameter>& parameters,
                 bool can_fault);

}  // namespace athanor::gpu
