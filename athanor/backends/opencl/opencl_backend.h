// Devices of any vendor through OpenCL 1.2 or later.
#pragma once
#include "athanor/backends/opencl/device.h"
#include "athanor/kernels/kernel.h"

namespace athanor {

class OpenClBackend final : public Backend {
 public:
  std::string name() const override { return "opencl"; }
  std::vector<DeviceInfo> devices() override;
  std::shared_ptr<Storage> allocate(int index, size_t bytes) override;
  std::vector<Candidate> candidates(int device, const KernelRequest& request) override;
  bool has_kernel(const Op& op, std::span<const TensorType> inputs, const TensorType& output,
                  const Attrs& attrs) override;
  std::vector<Layout> preferred_layouts(const Op&, std::span<const TensorType>, const TensorType&,
                                        const Attrs&) override {
    return {};
  }
  Candidate loop_kernel(int device, const LoopProgram& program) override;
  void synchronize(int device) override;
  double timed(int device, const std::function<void()>& launches) override;

  uint8_t provider_id = 0;

 private:
  opencl::ClDevice& at(int index);
};

}  // namespace athanor
