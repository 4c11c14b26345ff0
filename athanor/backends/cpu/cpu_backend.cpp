#include "athanor/backends/cpu/cpu_backend.h"

#include <iterator>

#include "athanor/backends/cpu/cpu_info.h"
#include "athanor/backends/cpu/function_kernel.h"
#include "athanor/backends/cpu/generic/candidates.h"
#include "athanor/backends/cpu/loops/loop_kernel.h"
#include "athanor/backends/cpu/memory.h"
#include "athanor/backends/cpu/queue.h"
#include "athanor/base/threads.h"

#if ATHANOR_ONEDNN
#include "athanor/backends/cpu/onednn/candidates.h"
#endif

namespace athanor {
namespace {

[[maybe_unused]] const bool registered = [] {
  auto backend = std::make_unique<CpuBackend>();
  CpuBackend& cpu = *backend;
  cpu.provider_id = register_provider(std::move(backend), host_provider);
  return true;
}();

}  // namespace

std::vector<DeviceInfo> CpuBackend::devices() { return {cpu::describe_cpu({provider_id, 0})}; }

std::shared_ptr<Storage> CpuBackend::allocate(int index, size_t bytes) {
  return cpu::allocate_memory({provider_id, static_cast<uint8_t>(index)}, bytes);
}

std::vector<Candidate> CpuBackend::candidates(int, const KernelRequest& request) {
  std::vector<Candidate> all;
#if ATHANOR_ONEDNN
  all = cpu::onednn_candidates(request);
#endif
  auto own = cpu::generic_candidates(request);
  all.insert(all.end(), std::make_move_iterator(own.begin()), std::make_move_iterator(own.end()));
  return all;
}

bool CpuBackend::has_kernel(const Op& op, std::span<const TensorType> inputs, const TensorType& output,
                            const Attrs& attrs) {
#if ATHANOR_ONEDNN
  if (cpu::onednn_has_kernel(op, inputs, output, attrs)) return true;
#endif
  return cpu::generic_has_kernel(op, inputs, output, attrs);
}

std::vector<Layout> CpuBackend::preferred_layouts([[maybe_unused]] const Op& op,
                                                  [[maybe_unused]] std::span<const TensorType> inputs,
                                                  [[maybe_unused]] const TensorType& output,
                                                  [[maybe_unused]] const Attrs& attrs) {
#if ATHANOR_ONEDNN
  return cpu::onednn_preferred_layouts(op, inputs, output, attrs);
#else
  return {};  // Athanor's own kernels gain nothing from blocks
#endif
}

Queue& CpuBackend::queue(int) {
  static cpu::CpuQueue queue({provider_id, 0});
  return queue;
}

Candidate CpuBackend::loop_kernel(int, const LoopProgram& program) {
  LoopKernel loop(program);
  std::string name = loop.description();
  return cpu::function_candidate(std::move(name), 0,
                                 [loop = std::move(loop), threads = cpu_threads()](cpu::Buffers buffers) {
                                   loop.run(buffers, threads);
                                 });
}

}  // namespace athanor
