// Source for kernels with one work-item for each element of a shape.
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "athanor/graph/shape.h"
#include "athanor/kernels/gpu/gpu_kernel.h"
#include "athanor/kernels/gpu/loop_code.h"

namespace athanor::gpu {

// Pieces of expressions. Operations that change nothing are left out.
inline std::string plus(const std::string& text, int64_t number) {
  if (text == "0") return std::to_string(number);
  return number == 0 ? text : fmt::format("{} {} {}", text, number < 0 ? '-' : '+', std::abs(number));
}
inline std::string plus(const std::string& text, const std::string& more) {
  if (text == "0") return more;
  return more == "0" ? text : text + " + " + more;
}
inline std::string times(const std::string& text, int64_t number) {
  if (text == "0" || number == 0) return "0";
  return number == 1 ? text : fmt::format("{} * {}", text, number);
}
inline std::string divided(const std::string& text, int64_t number) {
  return number == 1 || text == "0" ? text : fmt::format("{} / {}", text, number);
}

inline std::string remainder(const std::string& text, int64_t number) {
  return number == 1 || text == "0" ? "0" : fmt::format("{} % {}", text, number);
}
/// An index times a stride that may be beyond an int.
inline std::string times64(const std::string& index, int64_t stride) {
  if (index == "0" || stride == 0) return "0";
  return stride == 1 ? index : fmt::format("{} * (i64){}", index, stride);
}
/// An expression as the left operand of *, / and %: a sum in parentheses.
std::string operand(const std::string& text);
/// An index times a stride. `wide`: offsets need 64 bits.
inline std::string strided(const std::string& index, int64_t stride, bool wide) {
  if (stride == 1) return index;
  return wide ? times64(operand(index), stride) : times(operand(index), stride);
}
using LoopBody = std::function<void(const std::string& index)>;
/// An unrolled loop from 0 to `count`; for a single iteration only its body, which gets "0" for the index.
void unrolled(Code& code, const char* index, int64_t count, const LoopBody& body);
/// From `first` to `end`.
void unrolled(Code& code, const char* index, int64_t first, int64_t end, const LoopBody& body);
/// Opens such a loop for a body that declares names: a single iteration is a block.
void open_unrolled(Code& code, const char* index, int64_t count, int64_t step = 1);

/// A kernel's buffer parameter: its name, its element type in the language, and what it is bound to.
struct Parameter {
  std::string name, type;
  GpuLaunch::Argument argument = {};
};
/// "STORED(bf16)"
std::string stored(DType dtype);

/// Declares `ready`, registers with the numbers ready0, ready1, ... in the type.
void pack_ready(Code& code, DType type, int64_t count);

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

/// Writes zeros to the first `elements` elements of a type.
GpuLaunch zero_launch(DType type, int64_t elements, GpuLaunch::Argument to, const GpuTraits& traits);

/// Opens the kernel: "KERNEL void name(...) {" and a BIND for every parameter.
void open_kernel(Code& code, const std::string& name, const std::vector<Parameter>& parameters,
                 bool can_fault);

}  // namespace athanor::gpu
