// The backend of every device that is programmed in the kernel language, over any of the drivers.
#pragma once
#include <memory>
#include <vector>

#include "athanor/backends/gpu/device.h"
#include "athanor/kernels/gpu/gpu_access.h"

namespace athanor::gpu {

/// Every device that an interface lists; {} if the interface is missing. `provider`: the provider of their
/// Device.
using ListDevices = std::vector<std::unique_ptr<Driver>> (*)(uint8_t provider);

class GpuBackend final : public KernelLanguageBackend {
 public:
  GpuBackend(std::string name, ListDevices list, bool native)
      : name_(std::move(name)), list_(list), native_(native) {}

  std::string name() const override { return name_; }
  bool is_native() const override { return native_; }
  std::vector<DeviceInfo> devices() override;
  std::shared_ptr<Storage> allocate(int index, size_t bytes) override;
  std::vector<Candidate> candidates(int device, const KernelRequest& request) override;
  bool has_kernel(const Op& op, std::span<const TensorType> inputs, const TensorType& output,
                  const Attrs& attrs) override;
  std::vector<std::string> libraries(int device) override;
  std::vector<LeftOut> left_out(int device, const KernelRequest& request) override;
  Candidate loop_kernel(int device, const LoopProgram& program) override;
  void unload_unused_kernels(int device) override;
  Queue& queue(int device) override;
  Queue& copies_in(int device) override;
  Queue& copies_out(int device) override;
  std::optional<uint64_t> free_memory(int device) override;
  bool has_unified_memory(int device) override { return at(device).facts().unified_memory; }
  bool compiles_side_by_side(int device) override { return at(device).facts().compiles_side_by_side; }
  void compile_together(int device, std::span<const Kernel* const> kernels) override;
  GpuAccess access(int device) override;

  GpuDevice& at(int index);
  uint8_t provider_id = 0;

 private:
  const std::vector<std::unique_ptr<GpuDevice>>& all();
  std::string name_;
  ListDevices list_;
  bool native_;
  std::once_flag listed_;
  // Never destroyed: storage may outlive the backend, and drivers must not be called while the program ends.
  std::vector<std::unique_ptr<GpuDevice>>* devices_ = nullptr;
};

/// Registers a backend for the life of the program; returns true.
bool register_backend(const std::string& name, ListDevices list, bool native = true);
/// The device behind an id. Throws std::bad_cast if it belongs to another kind of backend.
GpuDevice& gpu_device(Device device);

}  // namespace athanor::gpu
