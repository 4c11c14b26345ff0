// concat: inputs one after the other along an axis.
#include "athanor/backends/cpu/generic/strided.h"
#include "athanor/backends/cpu/kernels.h"

namespace athanor::cpu {

static Candidate concat_kernel(const KernelRequest& request) {
  const int axis = normalize_axis(request.attrs.integer("axis"), request.output().shape.rank());
  return function_candidate(
      "generic concat", 0, [inputs = request.inputs, output = request.output(), axis](Buffers buffers) {
        const Ints& strides = output.strides;
        const size_t element = size_of(output.dtype);
        auto* to = static_cast<std::byte*>(buffers[inputs.size()]);
        for (size_t i = 0; i < inputs.size(); ++i) {
          copy_strided(element, inputs[i].shape.dims(), buffers[i], inputs[i].strides, to, strides);
          to += static_cast<size_t>(inputs[i].shape[axis] * strides[static_cast<size_t>(axis)]) * element;
        }
      });
}

namespace {

[[maybe_unused]] const bool concat_registered =
    register_kernels({.ops = {"concat"}, .candidates = only<concat_kernel>, .serves = serves_all});

}  // namespace

}  // namespace athanor::cpu
