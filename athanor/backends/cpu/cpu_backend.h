// The CPU: memory, fused loops, oneDNN's kernels if built in, and Athanor's own.
#pragma once
#include "athanor/kernels/kernel.h"

namespace athanor {

/// One device, "cpu". Its kernels run on the calling thread and OpenMP's threads (see threads.h), and are
/// finished when Kernel::enqueue returns. Several threads may run a kernel at once, each with separate
/// buffers.
class CpuBackend final : public Backend {
 public:
  std::string name() const override { return "cpu"; }
  std::vector<DeviceInfo> devices() override;
  std::shared_ptr<Storage> allocate(int index, size_t bytes) override;
  void release_kept(int index) noexcept override;

  std::vector<Candidate> candidates(int device, const KernelRequest& request) override;
  bool has_kernel(const Op& op, std::span<const TensorType> inputs, const TensorType& output,
                  const Attrs& attrs) override;
  bool takes_epilogue(int device, const KernelRequest& request) override;
  bool takes_strides(const Op& op) const override;
  bool computes_together(int device, const KernelRequest& request) override;
  std::vector<Layout> preferred_layouts(const Op& op, std::span<const TensorType> inputs,
                                        const TensorType& output, const Attrs& attrs) override;
  std::string slow_in(int device, DType dtype) override;
  Candidate loop_kernel(int device, const LoopProgram& program) override;
  bool takes_row_chain(int device, std::span<const LoopProgram> loops) override;
  Candidate row_chain_kernel(int device, std::span<const LoopProgram> loops) override;
  Queue& queue(int device) override;
  std::optional<uint64_t> free_memory(int device) override;
  bool has_unified_memory(int) override { return true; }

  uint8_t provider_id = 0;  // set by the registration
};

}  // namespace athanor
