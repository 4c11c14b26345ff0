// One interface to oneDNN 2 and 3.
#pragma once
#include <dnnl.hpp>
#include <memory>
#include <optional>
#include <vector>

#include "athanor/kernels/epilogue.h"
#include "athanor/kernels/kernel.h"

namespace athanor::cpu {

/// The only engine and stream of the process. Streams of CPU engines run everything at once, in the calling
/// thread, so threads may share them.
const dnnl::engine& onednn_engine();
const dnnl::stream& onednn_stream();

/// Whether the processor computes fast enough with this type: f32 always, bf16 with AVX512-BF16.
bool onednn_supports(DType dtype);
/// Whether the processor multiplies bf16 in tiles (AMX), which take activations with channels last.
bool onednn_has_tiles();
/// The block size of the channel layout that oneDNN prefers on this processor: 16, 8 or 0.
int onednn_block();

dnnl::memory::data_type onednn_type(DType dtype);
/// The memory format of an operand; strided ones keep their strides.
dnnl::memory::desc memory_desc(const OperandDesc& operand);
/// The same shape and type, with the format left to oneDNN.
dnnl::memory::desc any_format(const OperandDesc& operand);

/// The post-op of an activation. The caller always provides scratchpads, so that all memory is planned.
dnnl::primitive_attr primitive_attributes(Activation activation = Activation::none);

/// A primitive with an implementation in oneDNN. `primitive_desc.next_impl()` goes to the next one.
template <class P>
struct Description {
  // oneDNN 2 keeps a pointer to the operation's description and reads it again in next_impl().
  std::shared_ptr<void> operation;
  typename P::primitive_desc primitive_desc;
};

/// Describes a primitive P by the arguments of its kind, in oneDNN's order; {} if oneDNN has no
/// implementation.
template <class P, class... Args>
std::optional<Description<P>> describe(const dnnl::primitive_attr& attr, const Args&... args) {
  try {
#if DNNL_VERSION_MAJOR >= 3
    Description<P> found{nullptr, {onednn_engine(), args..., attr, true}};
#else
    const auto operation = std::make_shared<typename P::desc>(args...);
    Description<P> found{operation, {*operation, attr, onednn_engine(), true}};
#endif
    if (found.primitive_desc) return found;
  } catch (const dnnl::error&) {  // it does not even accept the arguments
  }
  return {};
}

/// The same for gradients. They take the description of their forward primitive, which must live as long.
template <class P, class Forward, class... Args>
std::optional<Description<P>> describe_gradient(const dnnl::primitive_attr& attr, const Forward& forward,
                                                const Args&... args) {
  try {
#if DNNL_VERSION_MAJOR >= 3
    Description<P> found{nullptr, {onednn_engine(), args..., forward.primitive_desc, attr, true}};
#else
    const auto operation = std::make_shared<typename P::desc>(args...);
    Description<P> found{operation, {*operation, attr, onednn_engine(), forward.primitive_desc, true}};
#endif
    if (found.primitive_desc) return found;
  } catch (const dnnl::error&) {
  }
  return {};
}

/// Adds the candidate that `make` returns. Returns false if oneDNN cannot make a primitive that it has
/// described (for example, with sizes that an implementation counts in 32 bits).
template <class Make>
bool add_candidate(std::vector<Candidate>& candidates, const Make& make) {
  try {
    candidates.push_back(make());
    return true;
  } catch (const dnnl::error&) {
    return false;
  }
}

}  // namespace athanor::cpu
