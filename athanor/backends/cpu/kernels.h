// The CPU's kernels. Each file of kernels registers its kernels for its ops; there is no list of them.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "athanor/kernels/kernel.h"

namespace athanor::cpu {

/// In the order in which they are offered, best guess first.
enum class KernelSource : uint8_t {
  library,
  matrix_unit,  // our kernels for the processor's matrix unit, if it has one
  own,          // our kernels for every processor
};

/// How numbers of a type are multiplied, slowest first.
enum class ProductsBy : uint8_t {
  conversion,  // to f32
  vectors,     // the processor's vector instructions
  tiles,       // its matrix unit
};

struct OpKernels {
  KernelSource source = KernelSource::own;
  std::vector<std::string> ops;  // their names
  std::vector<Candidate> (*candidates)(const KernelRequest& request);
  /// Whether an op of these types is left whole for these kernels. If not, other kernels may still want it
  /// whole; it decomposes if none does.
  bool (*serves)(std::span<const TensorType> inputs, const TensorType& output);
  /// See Backend::preferred_layouts; nullptr: row-major.
  std::vector<Layout> (*layouts)(const Op& op, std::span<const TensorType> inputs, const TensorType& output,
                                 const Attrs& attrs) = nullptr;
  /// How these kernels multiply numbers of a type on this processor; nullptr: they convert them.
  ProductsBy (*products_by)(DType dtype) = nullptr;
  /// See Backend::takes_strides.
  bool strided = false;
  /// See Backend::computes_together; nullptr: they compute one op each.
  bool (*together)(const KernelRequest& request) = nullptr;
};

/// Call this when the program starts, as for the declaration of ops. Throws Error(internal) if an op already
/// has kernels of this source. Returns true.
bool register_kernels(const OpKernels& kernels);
/// The kernels for an op, best guess first.
std::span<const OpKernels> kernels_of(const Op& op);
/// The fastest way in which any kernels multiply numbers of this type on this processor.
ProductsBy products_by(DType dtype);
/// What products of f16 or bf16 cost in this way, as Backend::slow_in() says it.
std::string cost_of_products(DType dtype, ProductsBy by);

inline bool serves_all(std::span<const TensorType>, const TensorType&) { return true; }
inline bool serves_none(std::span<const TensorType>, const TensorType&) { return false; }
/// Makes a list with the one candidate that `make` returns.
template <Candidate (*make)(const KernelRequest&)>
std::vector<Candidate> only(const KernelRequest& request) {
  return {make(request)};
}

}  // namespace athanor::cpu
