#include "athanor/kernels/prologue.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace athanor {
namespace {

class LoopAndContraction final : public Kernel {
 public:
  LoopAndContraction(Candidate loop, Candidate plain, const KernelRequest& request)
      : loop_(std::move(loop)),
        plain_(std::move(plain)),
        input_(request.prologue->input),
        plain_inputs_(static_cast<std::ptrdiff_t>(request.inputs.size() - request.prologue_inputs())),
        inputs_(static_cast<std::ptrdiff_t>(request.inputs.size())),
        buffers_(static_cast<std::ptrdiff_t>(request.inputs.size() + request.outputs.size())) {}

  void prepare() const override {
    loop_.kernel->prepare();
    plain_.kernel->prepare();
  }

  void enqueue(Queue& queue, std::span<const Binding> buffers, const CommandSite* site) const override {
    const auto run = [&](const Candidate& one, std::vector<Binding> own) {
      if (one.scratch_bytes > 0) own.push_back(buffers[static_cast<size_t>(buffers_)]);
      one.kernel->enqueue(queue, own, site);
    };
    std::vector<Binding> own(buffers.begin() + plain_inputs_, buffers.begin() + inputs_);
    own.push_back(buffers[input_]);
    run(loop_, std::move(own));
    own.assign(buffers.begin(), buffers.begin() + plain_inputs_);
    own.insert(own.end(), buffers.begin() + inputs_, buffers.begin() + buffers_);
    run(plain_, std::move(own));
  }

 private:
  Candidate loop_, plain_;
  size_t input_;
  std::ptrdiff_t plain_inputs_, inputs_, buffers_;
};

}  // namespace

std::vector<std::string> prologue_names(const KernelRequest& request) {
  std::vector<std::string> names;
  if (!request.prologue) return names;
  for (const LoopStep& s : request.prologue->program.body)
    if (s.kind == LoopStep::Kind::primitive) names.emplace_back(to_string(s.prim));
  return names;
}

std::string prologue_key(const KernelRequest& request) {
  if (!request.prologue) return {};
  std::string text = to_string(request.prologue->program);
  std::ranges::replace(text, '\n', ';');
  return fmt::format(" with input {} from {}", request.prologue->input, text);
}

KernelRequest without_prologue(const KernelRequest& request) {
  KernelRequest plain = request;
  plain.inputs.resize(request.inputs.size() - request.prologue_inputs());
  plain.prologue = {};
  return plain;
}

Candidate begin_by_loop(Candidate loop, Candidate plain, const KernelRequest& request) {
  const size_t scratch = std::max(loop.scratch_bytes, plain.scratch_bytes);
  std::string name = "a loop, then " + plain.name;
  const bool fewer_products = plain.fewer_products;
  return {std::move(name), scratch,
          std::make_shared<LoopAndContraction>(std::move(loop), std::move(plain), request), fewer_products};
}

}  // namespace athanor
