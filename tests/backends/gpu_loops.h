// Runs the kernels of loops on GPU devices.
#pragma once
#include "athanor/backends/gpu/backend.h"
#include "athanor/backends/gpu/kernel.h"
#include "tests/backends/loop_programs.h"

namespace athanor::testing {

/// Runs a candidate on a device with copies of the memory, and returns the copies.
inline Memory run_on(gpu::GpuDevice& device, const GpuCandidate& generated, const Memory& start) {
  for (const GpuLaunch& launch : generated.launches)
    EXPECT_EQ(launch.source.find('#'), std::string::npos) << "it defines or asks something";
  const Candidate candidate = gpu::make_candidate(device, generated, {});
  std::vector<std::shared_ptr<Storage>> storage;
  std::vector<Binding> buffers;
  for (const auto& bytes : start.data) {
    storage.push_back(allocate(device.id(), std::max<size_t>(1, bytes.size())));
    storage.back()->write(bytes.data(), 0, bytes.size());
    buffers.push_back({storage.back().get(), 0});
  }
  const auto scratch = allocate(device.id(), std::max<size_t>(1, candidate.scratch_bytes));
  buffers.push_back({scratch.get(), 0});
  candidate.kernel->enqueue(device.kernels(), buffers);
  device.kernels().finish();
  Memory result = start;
  for (size_t b = 0; b < storage.size(); ++b)
    storage[b]->read(result.data[b].data(), 0, result.data[b].size());
  return result;
}

/// The traits of a GPU that moves vectors, even if few items are left.
inline GpuTraits with_vectors(GpuTraits traits) {
  static const Grain grain = [] {
    Grain fine = fine_grain;
    fine.loop_filling = 0;
    return fine;
  }();
  traits.grain = &grain;
  traits.registers = true;
  return traits;
}

}  // namespace athanor::testing
