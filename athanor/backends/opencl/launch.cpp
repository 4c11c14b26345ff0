#include "athanor/backends/opencl/launch.h"

#include <fmt/format.h>

#include <array>
#include <mutex>

#include "athanor/backends/opencl/program.h"
#include "athanor/base/error.h"
#include "athanor/kernels/trace.h"

namespace athanor::opencl {
namespace {

class ClKernel final : public Kernel {
 public:
  ClKernel(ClDevice& device, GpuCandidate candidate, const FaultSite& site)
      : device_(device), candidate_(std::move(candidate)) {
    for (GpuLaunch& launch : candidate_.launches) {
      if (!launch.can_fault) continue;
      if (fault_code_ == 0) fault_code_ = device.fault_code(site);
      launch.source = fmt::format("#define FAULT_CODE {}\n", fault_code_) + launch.source;
    }
  }

  void prepare() const override {
    std::call_once(prepared_, [&] {
      for (const GpuLaunch& launch : candidate_.launches) programs_.push_back(program_for(device_, launch));
    });
  }

  void run(std::span<void* const> buffers) const override {
    prepare();
    const std::scoped_lock lock(device_.mutex);
    for (size_t i = 0; i < candidate_.launches.size(); ++i)
      launch(candidate_.launches[i], programs_[i]->kernel(), buffers);
  }

  const GpuCandidate* generated() const override { return &candidate_; }

 private:
  static void set(cl_kernel kernel, cl_uint place, cl_mem buffer, cl_ulong offset) {
    const std::string doing = "cannot set a kernel's argument";
    check(api().SetKernelArg(kernel, place, sizeof(cl_mem), &buffer), doing);
    check(api().SetKernelArg(kernel, place + 1, sizeof(cl_ulong), &offset), doing);
  }

  void launch(const GpuLaunch& launch, cl_kernel kernel, std::span<void* const> buffers) const {
    cl_uint place = 0;
    for (const GpuLaunch::Argument& argument : launch.arguments) {
      const auto* address =
          static_cast<const std::byte*>(buffers[static_cast<size_t>(argument.buffer)]) + argument.byte_offset;
      const ClDevice::Place at = device_.find(address);
      set(kernel, place, at.buffer, at.offset);
      place += 2;
    }
    if (launch.can_fault) {
      set(kernel, place, device_.fault_buffer(), 0);
      device_.expect_faults(fault_code_);
    }
    std::array<size_t, 3> all{}, group{};
    for (size_t d = 0; d < 3; ++d) {
      group[d] = static_cast<size_t>(launch.group_size[d]);
      all[d] = static_cast<size_t>(launch.groups[d]) * group[d];
    }
    cl_event event = nullptr;
    const bool record = device_.recorded != nullptr, trace = Trace::active() != nullptr;
    check(api().EnqueueNDRangeKernel(device_.queue(), kernel, 3, nullptr, all.data(), group.data(), 0,
                                     nullptr, record || trace ? &event : nullptr),
          fmt::format("cannot launch the kernel '{}' on {}", launch.name, to_string(device_.device())));
    if (trace) device_.trace(event, "kernels", Trace::label().empty() ? launch.name : Trace::label());
    if (record)
      device_.recorded->push_back(event);
    else if (event != nullptr)
      api().ReleaseEvent(event);
  }

  ClDevice& device_;
  GpuCandidate candidate_;
  int fault_code_ = 0;
  mutable std::once_flag prepared_;
  mutable std::vector<std::shared_ptr<const Program>> programs_;
};

}  // namespace

Candidate make_candidate(ClDevice& device, GpuCandidate candidate, const FaultSite& site) {
  std::string name = candidate.name;
  for (const auto& [parameter, value] : candidate.parameters) name += fmt::format(" {}={}", parameter, value);
  const size_t scratch = candidate.scratch_bytes;
  return {std::move(name), scratch, std::make_shared<ClKernel>(device, std::move(candidate), site)};
}

}  // namespace athanor::opencl
