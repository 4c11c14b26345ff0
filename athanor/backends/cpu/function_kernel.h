// The base of the CPU's kernels, and kernels that are one C++ function.
#pragma once
#include <memory>
#include <string>
#include <utility>

#include "athanor/kernels/kernel.h"

namespace athanor::cpu {

/// The addresses that a kernel gets: inputs, output, scratch.
using Buffers = std::span<void* const>;

/// A kernel of the CPU. It is done when enqueue() returns.
class CpuKernel : public Kernel {
 public:
  void enqueue(Queue& queue, std::span<const Binding> buffers, const CommandSite* site) const final;
  virtual void run(Buffers buffers) const = 0;
};

template <class F>
class FunctionKernel final : public CpuKernel {
 public:
  explicit FunctionKernel(F f) : f_(std::move(f)) {}
  void run(Buffers buffers) const override { f_(buffers); }

 private:
  F f_;
};

/// A candidate that calls f(Buffers).
template <class F>
Candidate function_candidate(std::string name, size_t scratch_bytes, F f) {
  return {std::move(name), scratch_bytes, std::make_shared<FunctionKernel<F>>(std::move(f))};
}

}  // namespace athanor::cpu
