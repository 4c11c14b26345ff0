// oneDNN 2 and 3 behind one face.
#pragma once
#include <dnnl.hpp>
#include <optional>

#include "athanor/kernels/kernel.h"

namespace athanor::cpu {

/// The process's one engine and stream. Streams of CPU engines run what they are given at once, in the
/// calling thread, so threads may share them.
const dnnl::engine& onednn_engine();
const dnnl::stream& onednn_stream();

/// Whether the processor computes with this type fast enough to be worth it: f32 always, bf16 with
/// AVX512-BF16.
bool onednn_supports(DType dtype);
/// The block of the channel layout that oneDNN likes best on this processor: 16, 8 or 0.
int onednn_block();

dnnl::memory::data_type onednn_type(DType dtype);
/// The memory format of an operand; strided ones keep their strides.
dnnl::memory::desc memory_desc(const OperandDesc& operand);
/// The same shape and type, with the format left to oneDNN.
dnnl::memory::desc any_format(const OperandDesc& operand);

/// The post-op of an activation. Scratchpads are always the caller's, so that planned memory is all there is.
dnnl::primitive_attr primitive_attributes(const std::string& activation = {});

/// Describes a primitive P from the arguments of its kind, in oneDNN's order; {} when oneDNN has no
/// implementation.
template <class P, class... Args>
std::optional<typename P::primitive_desc> describe(const dnnl::primitive_attr& attr, const Args&... args) {
  try {
#if DNNL_VERSION_MAJOR >= 3
    typename P::primitive_desc found(onednn_engine(), args..., attr, true);
#else
    typename P::primitive_desc found(typename P::desc(args...), attr, onednn_engine(), true);
#endif
    if (found) return found;
  } catch (const dnnl::error&) {  // it does not even accept the arguments
  }
  return {};
}

/// The same for gradients, which take the description of their forward primitive.
template <class P, class Hint, class... Args>
std::optional<typename P::primitive_desc> describe_gradient(const dnnl::primitive_attr& attr,
                                                            const Hint& hint, const Args&... args) {
  try {
#if DNNL_VERSION_MAJOR >= 3
    typename P::primitive_desc found(onednn_engine(), args..., hint, attr, true);
#else
    typename P::primitive_desc found(typename P::desc(args...), attr, onednn_engine(), hint, true);
#endif
    if (found) return found;
  } catch (const dnnl::error&) {
  }
  return {};
}

}  // namespace athanor::cpu
