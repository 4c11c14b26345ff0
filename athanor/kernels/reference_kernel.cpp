#include "athanor/kernels/reference_kernel.h"

#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/error.h"
#include "athanor/graph/host_array.h"
#include "athanor/graph/op.h"
#include "athanor/kernels/host_trace.h"

namespace athanor {
namespace {

class ReferenceKernel final : public Kernel {
 public:
  explicit ReferenceKernel(const KernelRequest& request)
      : op_(*request.op), attrs_(request.attrs), inputs_(request.inputs), output_(request.output()) {}

  void enqueue(Queue& /*queue*/, std::span<const Binding> buffers, const CommandSite* site) const override {
    const HostTrace traced(site);
    std::vector<RefArray> arrays;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      HostArray host(inputs_[i].dtype, inputs_[i].shape);
      buffers[i].storage->read(host.bytes.data(), static_cast<size_t>(buffers[i].offset), host.bytes.size());
      arrays.emplace_back(inputs_[i].shape).data = to_doubles(host);
    }
    const RefArray result = op_.reference(arrays, attrs_);
    const HostArray host = from_doubles(output_.dtype, output_.shape, result.data);
    const Binding& output = buffers[inputs_.size()];
    output.storage->write(host.bytes.data(), static_cast<size_t>(output.offset), host.bytes.size());
  }

 private:
  const Op& op_;
  Attrs attrs_;
  std::vector<OperandDesc> inputs_;
  OperandDesc output_;
};

}  // namespace

Candidate reference_kernel(const KernelRequest& request) {
  if (!request.op->reference || !std::ranges::all_of(request.inputs, &OperandDesc::dense))
    throw Error(ErrorCode::internal, fmt::format("no reference computes {}", request.key()));
  return {.name = "reference, float64", .kernel = std::make_shared<ReferenceKernel>(request)};
}

}  // namespace athanor
