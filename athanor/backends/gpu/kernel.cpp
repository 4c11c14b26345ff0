#include "athanor/backends/gpu/kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "athanor/backends/gpu/program.h"
#include "athanor/base/error.h"

namespace athanor::gpu {
namespace {

class GpuKernel final : public Kernel {
 public:
  GpuKernel(GpuDevice& device, GpuCandidate candidate, FaultSite site)
      : device_(device), candidate_(std::move(candidate)), site_(std::move(site)) {}

  void prepare() const override {
    std::call_once(prepared_, [&] {
      std::vector<std::shared_ptr<const Program>> all;  // if one fails, another call tries again
      for (const GpuLaunch& launch : candidate_.launches) all.push_back(program_for(device_, launch));
      programs_ = std::move(all);
    });
  }

  void enqueue(Queue& queue, std::span<const Binding> buffers, const CommandSite* site) const override {
    prepare();
    if (queue.device() != device_.id())
      throw Error(ErrorCode::internal, fmt::format("a kernel of {} was given to a queue of {}",
                                                   device_.name(), to_string(queue.device())));
    auto& gpu_queue = static_cast<GpuQueue&>(queue);
    for (size_t i = 0; i < candidate_.launches.size(); ++i)
      launch(gpu_queue, candidate_.launches[i], programs_[i]->function(), buffers, site);
    // PoCL finishes compiling when a kernel first runs, in a thread of its own, and fails if the program ends
    // meanwhile.
    if (device_.facts().shares_host_memory && !has_run_.exchange(true)) gpu_queue.await_all();
  }

  const GpuCandidate* generated() const override { return &candidate_; }

 private:
  void launch(GpuQueue& queue, const GpuLaunch& launch, Function function, std::span<const Binding> buffers,
              const CommandSite* site) const {
    // The result has no elements. CUDA and HIP refuse such launches.
    if (std::ranges::find(launch.groups, 0) != launch.groups.end()) return;
    std::vector<Place> places;
    places.reserve(launch.arguments.size());
    for (const GpuLaunch::Argument& argument : launch.arguments) {
      Place place = queue.place_of(buffers[static_cast<size_t>(argument.buffer)]);
      place.offset += static_cast<size_t>(argument.byte_offset);
      places.push_back(place);
    }
    Launch order{.name = launch.name, .function = function, .buffers = places, .tensors = launch.tensors};
    for (size_t d = 0; d < 3; ++d) {
      order.groups[d] = static_cast<size_t>(launch.groups[d]);
      order.group_size[d] = static_cast<size_t>(launch.group_size[d]);
    }
    if (launch.local_at_launch) order.local_at_launch = static_cast<size_t>(launch.local_bytes);
    if (launch.can_fault) {
      const Faults::Report report = device_.faults.expect(site_, site);
      order.fault = report.place;
      order.fault_code = report.code;
    }
    queue.launch(order, site);
  }

  GpuDevice& device_;
  GpuCandidate candidate_;
  FaultSite site_;
  mutable std::once_flag prepared_;
  mutable std::atomic<bool> has_run_ = false;
  mutable std::vector<std::shared_ptr<const Program>> programs_;
};

}  // namespace

std::vector<KernelResources> resources_of(GpuDevice& device, const GpuCandidate& candidate) {
  std::vector<KernelResources> all;
  for (const GpuLaunch& launch : candidate.launches) {
    const auto program = program_for(device, launch);
    all.push_back(device.driver().resources(program->function(), launch));
  }
  return all;
}

Candidate make_candidate(GpuDevice& device, GpuCandidate candidate, const FaultSite& site) {
  std::string name = candidate.name;
  for (const auto& [parameter, value] : candidate.parameters) name += fmt::format(" {}={}", parameter, value);
  const size_t scratch = candidate.scratch_bytes;
  const bool fewer_products = candidate.fewer_products;
  return {std::move(name), scratch, std::make_shared<GpuKernel>(device, std::move(candidate), site),
          fewer_products};
}

}  // namespace athanor::gpu
