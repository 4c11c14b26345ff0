#include "athanor/backends/cpu/cpu_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "athanor/backends/cpu/cpu_info.h"
#include "athanor/backends/cpu/function_kernel.h"
#include "athanor/backends/cpu/kernels.h"
#include "athanor/backends/cpu/loops/loop_chain.h"
#include "athanor/backends/cpu/loops/loop_kernel.h"
#include "athanor/backends/cpu/memory.h"
#include "athanor/backends/cpu/queue.h"
#include "athanor/base/os/memory.h"
#include "athanor/base/threads.h"
#include "athanor/kernels/epilogue.h"
#include "athanor/ops/conv_kind.h"

namespace athanor {

// Measured: docs/mixed-precision.md.
std::string cpu::cost_of_products(DType dtype, ProductsBy by) {
  const bool brain = dtype == DType::bf16;
  switch (by) {
    case ProductsBy::tiles:
      return {};
    case ProductsBy::vectors:
      return fmt::format(
          "there is no matrix unit for {} (AMX): a step takes 0.9 to 1.3 times as long as in f32",
          to_string(dtype));
    case ProductsBy::conversion:
      break;
  }
#if ATHANOR_ONEDNN
  constexpr const char* what_helps = " (it needs AVX512-BF16 or AMX)";
#else
  constexpr const char* what_helps = " (without oneDNN, only AMX is fast at it)";
#endif
  return fmt::format(
      "no {} arithmetic is used{}: numbers are converted for each product, and a step takes {} times as long "
      "as in f32",
      to_string(dtype), brain ? what_helps : "", brain ? "2 to 7" : "4 to 14");
}

namespace {

[[maybe_unused]] const bool registered = [] {
  auto backend = std::make_unique<CpuBackend>();
  CpuBackend& cpu = *backend;
  cpu.provider_id = register_provider(std::move(backend), host_provider);
  return true;
}();

}  // namespace

std::vector<DeviceInfo> CpuBackend::devices() { return {cpu::describe_cpu({provider_id, 0})}; }

std::optional<uint64_t> CpuBackend::free_memory(int) {
  const uint64_t available = os::memory_size().available;
  return available > 0 ? std::optional(available) : std::nullopt;
}

void CpuBackend::release_kept(int) noexcept { cpu::release_kept_memory(); }

std::shared_ptr<Storage> CpuBackend::allocate(int index, size_t bytes) {
  return cpu::allocate_memory({provider_id, static_cast<uint8_t>(index)}, bytes);
}

std::vector<Candidate> CpuBackend::candidates(int, const KernelRequest& request) {
  std::vector<Candidate> all;
  if (request.compute != ComputeType::by_dtypes || !simple_epilogue(request)) return all;
  for (const cpu::OpKernels& kernels : cpu::kernels_of(*request.op))
    if (kernels.candidates != nullptr)
      std::ranges::move(kernels.candidates(request), std::back_inserter(all));
  return all;
}

bool CpuBackend::has_kernel(const Op& op, std::span<const TensorType> inputs, const TensorType& output,
                            const Attrs&) {
  return std::ranges::any_of(cpu::kernels_of(op), [&](const auto& k) { return k.serves(inputs, output); });
}

bool CpuBackend::takes_epilogue(int, const KernelRequest& request) {
  if (has_further_results(request)) return false;
  const bool finishes = request.op->prim == Prim::batch_matmul || request.op->name == "conv2d";
  return finishes && simple_epilogue(request).has_value();
}

bool CpuBackend::takes_strides(const Op& op) const {
  return std::ranges::any_of(cpu::kernels_of(op), &cpu::OpKernels::strided);
}

bool CpuBackend::computes_together(int, const KernelRequest& request) {
  return std::ranges::any_of(cpu::kernels_of(*request.op), [&](const cpu::OpKernels& kernels) {
    return kernels.together != nullptr && kernels.together(request);
  });
}

std::vector<Layout> CpuBackend::preferred_layouts(const Op& op, std::span<const TensorType> inputs,
                                                  const TensorType& output, const Attrs& attrs) {
  for (const cpu::OpKernels& kernels : cpu::kernels_of(op))
    if (kernels.layouts != nullptr) return kernels.layouts(op, inputs, output, attrs);
  return {};
}

std::string CpuBackend::slow_in(int, DType dtype) {
  return cpu::cost_of_products(dtype, cpu::products_by(dtype));
}

Queue& CpuBackend::queue(int) {
  static cpu::CpuQueue queue({provider_id, 0});
  return queue;
}

Candidate CpuBackend::loop_kernel(int, const LoopProgram& program) {
  LoopKernel loop(program);
  std::string name = loop.description();
  return cpu::function_candidate(std::move(name), 0,
                                 [loop = std::move(loop), threads = cpu_workers()](cpu::Buffers buffers) {
                                   loop.run(buffers, threads);
                                 });
}

bool CpuBackend::takes_row_chain(int, std::span<const LoopProgram> loops) {
  return LoopChain::make(loops).has_value();
}

Candidate CpuBackend::row_chain_kernel(int, std::span<const LoopProgram> loops) {
  LoopChain chain = LoopChain::make(loops).value();
  std::string name = chain.description();
  return cpu::function_candidate(std::move(name), 0,
                                 [chain = std::move(chain), threads = cpu_workers()](cpu::Buffers buffers) {
                                   chain.run(buffers, threads);
                                 });
}

}  // namespace athanor
