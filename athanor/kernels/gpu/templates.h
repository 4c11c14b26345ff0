// The templates: kernels of the ops that are not loops, each family in a file with its text
// (templates/NAME.cpp, NAME.kernel). A template registers itself; there is no list of them.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "athanor/kernels/gpu/gpu_kernel.h"

namespace athanor::gpu {

struct Template {
  std::vector<std::string> ops;  // their names
  std::vector<GpuCandidate> (*candidates)(const KernelRequest& request, const GpuTraits& traits);
  /// Whether it has kernels for these types and attributes that the device has room for; nullptr: always.
  /// Otherwise the op decomposes.
  bool (*serves)(std::span<const TensorType> inputs, const TensorType& output, const Attrs& attrs,
                 const GpuTraits& traits) = nullptr;
  /// Whether it computes a request of several ops; nullptr: never.
  bool (*together)(const KernelRequest& request, const GpuTraits& traits) = nullptr;
  /// In which layouts its kernels are fastest: see Backend::preferred_layouts(); nullptr: row-major.
  std::vector<Layout> (*layouts)(std::span<const TensorType> inputs, const TensorType& output,
                                 const Attrs& attrs, const GpuTraits& traits) = nullptr;
  bool tf32 = false;       // it has candidates for requests whose factors may be rounded to tf32
  bool finishes = false;   // its kernels take any epilogue
  bool further = false;    // all of them also store further results, and none of them reduces
  bool prologues = false;  // some of them take a prologue
  bool strided = false;    // they take strides: see Backend::takes_strides()
};

/// Registers a template when the program starts, as ops are declared. Throws Error(internal) if one of the
/// ops has a template already. Returns true.
bool register_template(const Template& one);
/// The names of the ops that have a template.
std::vector<std::string> ops_with_templates();

/// For composite ops, whose decomposition serves all other types, floats of 8 bits among them.
inline bool serves_floats(std::span<const TensorType>, const TensorType& output, const Attrs&,
                          const GpuTraits&) {
  return is_float(output.dtype) && size_of(output.dtype) > 1;
}

/// The layout of images [N, C, H, W] for which kernels of convolutions are fastest.
Layout layout_of_images(const TensorType& images, const GpuTraits& traits);

/// The bytes of local memory that an array takes: compilers begin each at a multiple of 16 bytes.
constexpr int64_t local_array(int64_t bytes) { return (bytes + 15) / 16 * 16; }

}  // namespace athanor::gpu
