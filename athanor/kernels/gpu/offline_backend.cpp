// A GPU that need not exist: plans can be made for it and their kernels can be looked at, but not run.
#include <cstring>
#include <vector>

#include "athanor/base/error.h"
#include "athanor/kernels/gpu/gpu_access.h"
#include "athanor/kernels/gpu/gpu_kernel.h"

namespace athanor {
namespace {

/// The traits of a typical card, until an architecture is set. Templates know a driver's reports only through
/// these values.
GpuTraits& traits() {
  static GpuTraits instance{.max_group_size = 256,
                            .local_bytes = 32 * 1024,
                            .compute_units = 32,
                            .f64 = true,
                            .f16 = true,
                            .atomics_64 = true};
  return instance;
}

class OfflineKernel final : public Kernel {
 public:
  explicit OfflineKernel(GpuCandidate candidate) : candidate_(std::move(candidate)) {}
  void enqueue(Queue&, std::span<const Binding>, const CommandSite*) const override { refuse(); }
  [[noreturn]] static void refuse() {
    throw Error(ErrorCode::device, "the device 'offline' is for looking at kernels", {},
                "'athanor detect' lists those that run");
  }
  const GpuCandidate* generated() const override { return &candidate_; }

 private:
  GpuCandidate candidate_;
};

/// Storage for values of a model that is only looked at: all zeros, and no kernel reads them.
class OfflineStorage final : public Storage {
 public:
  OfflineStorage(Device device, size_t bytes) : Storage(device, bytes, nullptr) {}
  void read(void* destination, size_t, size_t count) const override { std::memset(destination, 0, count); }
  void write(const void*, size_t, size_t) override {}
};

class OfflineBackend final : public KernelLanguageBackend {
 public:
  uint8_t provider_id = 0;

  std::string name() const override { return "offline"; }
  // Not listed: it must be asked for by name.
  std::vector<DeviceInfo> devices() override { return {}; }
  std::optional<DeviceInfo> hidden() override {
    return DeviceInfo{{provider_id, 0}, "a GPU that need not be there", "gpu", 0, {}};
  }
  std::shared_ptr<Storage> allocate(int, size_t bytes) override {
    return std::make_shared<OfflineStorage>(Device{provider_id, 0}, bytes);
  }
  std::vector<Candidate> candidates(int, const KernelRequest& request) override {
    // The first is the best guess; nothing can be timed.
    auto all = gpu_candidates(request, traits());
    if (all.empty()) return {};
    return {made(std::move(all.front()))};
  }
  bool has_kernel(const Op& op, std::span<const TensorType> inputs, const TensorType& output,
                  const Attrs& attrs) override {
    return gpu_has_kernel(op, inputs, output, attrs, traits());
  }
  Candidate loop_kernel(int, const LoopProgram& program) override {
    return made(gpu_loop_candidates(program, traits()).front());
  }
  Queue& queue(int) override { OfflineKernel::refuse(); }
  GpuAccess access(int) override { return {traits(), 0, false, made}; }

  static Candidate made(GpuCandidate candidate) {
    std::string name = candidate.name;
    const size_t scratch = candidate.scratch_bytes;
    return {std::move(name), scratch, std::make_shared<OfflineKernel>(std::move(candidate))};
  }
};

[[maybe_unused]] const bool offline_registered = [] {
  auto backend = std::make_unique<OfflineBackend>();
  OfflineBackend& offline = *backend;
  offline.provider_id = register_provider(std::move(backend));
  return true;
}();

}  // namespace

void set_offline_architecture(GpuTarget target, std::string_view architecture) {
  add_architecture(traits(), target, architecture);
  set_driver_facts(traits(), target, architecture);
}

}  // namespace athanor
