// The CPU's kernels. Each file of kernels registers its kernels for its ops; there is no list of them.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "athanor/kernels/kernel.h"

namespace athanor::cpu {

/// Kernels of a library are offered first: they are the better guess.
enum class KernelSource : uint8_t { library, own };

struct OpKernels {
  KernelSource source = KernelSource::own;
  std::vector<std::string> ops;  // their names
  std::vector<Candidate> (*candidates)(const KernelRequest& request);
  /// Whether an op of these types is left whole for them. If not, other kernels may still want it whole; it
  /// decomposes if none does.
  bool (*serves)(std::span<const TensorType> inputs, const TensorType& output);
  /// See Backend::preferred_layouts; nullptr: row-major.
  std::vector<Layout> (*layouts)(const Op& op, std::span<const TensorType> inputs, const TensorType& output,
                                 const Attrs& attrs) = nullptr;
  /// Whether products of this type are computed in it by the processor; nullptr: of none but f32.
  bool (*multiplies)(DType dtype) = nullptr;
};

/// When the program starts, as ops are declared. Throws Error(internal) if an op has kernels of the source.
/// Returns true.
bool register_kernels(const OpKernels& kernels);
/// Those for an op, best guess first.
std::span<const OpKernels> kernels_of(const Op& op);
/// Whether there are kernels that multiply numbers of this type without converting them to f32.
bool any_multiplies(DType dtype);

inline bool serves_all(std::span<const TensorType>, const TensorType&) { return true; }
inline bool serves_none(std::span<const TensorType>, const TensorType&) { return false; }
/// A function that makes one kernel, as a function that makes a list.
template <Candidate (*make)(const KernelRequest&)>
std::vector<Candidate> only(const KernelRequest& request) {
  return {make(request)};
}

}  // namespace athanor::cpu
