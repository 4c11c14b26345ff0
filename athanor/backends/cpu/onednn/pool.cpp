// avg_pool2d. Not max_pool2d: oneDNN's maximum drops a NaN, and ours keeps it.
#include <fmt/format.h>

#include "athanor/backends/cpu/onednn/candidates.h"
#include "athanor/backends/cpu/onednn/layouts.h"
#include "athanor/backends/cpu/onednn/sequence.h"

namespace athanor::cpu {

static dnnl::algorithm algorithm_of(const KernelRequest& request) {
  return request.attrs.flag("count_include_pad") ? dnnl::algorithm::pooling_avg_include_padding
                                                 : dnnl::algorithm::pooling_avg_exclude_padding;
}

static std::vector<Candidate> onednn_pool(const KernelRequest& request) {
  const Attrs& attrs = request.attrs;
  const Ints &kernel = attrs.ints("kernel"), &stride = attrs.ints("stride"), &padding = attrs.ints("padding");
  if (padding[0] >= kernel[0] || padding[1] >= kernel[1]) return {};  // windows that see no element
  Sequence sequence(request);
  const auto from = memory_desc(sequence.make_dense(0)), to = memory_desc(request.output());
#if DNNL_VERSION_MAJOR >= 3
  const auto found = describe<dnnl::pooling_forward>(
      primitive_attributes(), dnnl::prop_kind::forward_inference, algorithm_of(request), from, to, stride,
      kernel, Ints{0, 0}, padding, padding);
#else
  const auto found =
      describe<dnnl::pooling_forward>(primitive_attributes(), dnnl::prop_kind::forward_inference,
                                      algorithm_of(request), from, to, stride, kernel, padding, padding);
#endif
  if (!found) return {};
  const std::string implementation = found->primitive_desc.impl_info_str();
  if (implementation.find("ref") != std::string::npos) return {};
  std::vector<Candidate> candidates;
  add_candidate(candidates, [&] {
    sequence.add(
        dnnl::pooling_forward(found->primitive_desc), found->primitive_desc.scratchpad_desc(),
        {{DNNL_ARG_SRC, from, sequence.input(0, from, from)}, {DNNL_ARG_DST, to, sequence.output(to, to)}});
    return std::move(sequence).finish("oneDNN pool " + implementation);
  });
  return candidates;
}

namespace {

[[maybe_unused]] const bool onednn_pool_registered = register_kernels(
    {KernelSource::library, {"avg_pool2d"}, by_onednn<onednn_pool>, serves_none, layouts_of_pool});

}  // namespace

}  // namespace athanor::cpu
