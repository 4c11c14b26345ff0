#include "athanor/kernels/finish_by_loop.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "athanor/base/ceil_div.h"

namespace athanor {
namespace {

class ContractionAndLoop final : public Kernel {
 public:
  ContractionAndLoop(Candidate contraction, Candidate loop, const KernelRequest& request, size_t result_bytes)
      : contraction_(std::move(contraction)),
        loop_(std::move(loop)),
        own_inputs_(request.own_inputs()),
        inputs_(request.inputs.size()),
        outputs_(request.outputs.size()),
        first_with_(request.first_with()),
        with_(request.with.size()),
        result_bytes_(static_cast<int64_t>(result_bytes)) {}

  void prepare() const override {
    contraction_.kernel->prepare();
    loop_.kernel->prepare();
  }

  void enqueue(Queue& queue, std::span<const Binding> buffers, const CommandSite* site) const override {
    const Binding result = buffers[inputs_ + outputs_];
    const Binding scratch{result.storage, result.offset + result_bytes_};
    const auto run = [&](const Candidate& one, std::vector<Binding> own) {
      if (one.scratch_bytes > 0) own.push_back(scratch);
      one.kernel->enqueue(queue, own, site);
    };
    std::vector<Binding> own(buffers.begin(), buffers.begin() + static_cast<std::ptrdiff_t>(own_inputs_));
    own.push_back(result);
    const auto with = buffers.begin() + static_cast<std::ptrdiff_t>(inputs_ + first_with_);
    own.insert(own.end(), with, with + static_cast<std::ptrdiff_t>(with_));
    run(contraction_, std::move(own));
    // The buffers in the order in which the epilogue numbers them.
    own = {result};
    own.insert(own.end(), buffers.begin() + static_cast<std::ptrdiff_t>(own_inputs_),
               buffers.begin() + static_cast<std::ptrdiff_t>(inputs_ + outputs_));
    run(loop_, std::move(own));
  }

 private:
  Candidate contraction_, loop_;
  size_t own_inputs_, inputs_, outputs_, first_with_, with_;
  int64_t result_bytes_;  // at the scratch memory's begin; both kernels in turn use the rest
};

}  // namespace

Candidate finish_by_loop(Candidate contraction, Candidate loop, const KernelRequest& request) {
  constexpr int64_t alignment = 256;
  const OperandDesc& output = request.output();
  const int64_t bytes = output.reach() * static_cast<int64_t>(size_of(output.dtype));
  const auto result = static_cast<size_t>(ceil_div(bytes, alignment) * alignment);
  const size_t scratch = result + std::max(contraction.scratch_bytes, loop.scratch_bytes);
  std::string name = contraction.name + ", then a loop";
  const bool fewer_products = contraction.fewer_products;
  return {std::move(name), scratch,
          std::make_shared<ContractionAndLoop>(std::move(contraction), std::move(loop), request, result),
          fewer_products};
}

}  // namespace athanor
