#include "athanor/backends/gpu/unit_trials.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>

#include "athanor/backends/gpu/device.h"
#include "athanor/backends/gpu/exchange_trial.h"
#include "athanor/backends/gpu/kernel.h"
#include "athanor/backends/gpu/storage.h"
#include "athanor/base/clock.h"
#include "athanor/base/error.h"
#include "athanor/graph/host_array.h"
#include "athanor/kernels/cache.h"
#include "athanor/kernels/marked.h"
#include "athanor/ops/product_op.h"

namespace athanor::gpu {
namespace {

/// Small whole numbers, whose sums are exact in every type: -1, 0 and 1, in no regular order.
struct Trial {
  // Some tiles of every unit, with more than one step along k for each.
  static constexpr int64_t m = 64, n = 96, k = 128;
  std::vector<double> a, b, want;

  Trial() : a(m * k), b(k * n), want(m * n) {
    uint32_t state = 1;
    for (std::vector<double>* matrix : {&a, &b})
      for (double& x : *matrix) {
        state = state * 1664525 + 1013904223;
        x = static_cast<double>(state >> 16) / 65536 * 3;
        x = x < 1 ? -1 : x < 2 ? 0 : 1;
      }
    const auto at = [](std::vector<double>& matrix, int64_t row, int64_t columns, int64_t column) -> double& {
      return matrix[static_cast<size_t>(row * columns + column)];
    };
    for (int64_t row = 0; row < m; ++row)
      for (int64_t column = 0; column < n; ++column)
        for (int64_t step = 0; step < k; ++step)
          at(want, row, n, column) += at(a, row, k, step) * at(b, step, n, column);
  }
};

/// The trial's product of matrices, with the unit's types.
KernelRequest product_by(const MatrixUnit& unit) {
  const auto desc = [](const TensorType& type) {
    return OperandDesc{type.dtype, type.shape, {}, contiguous_strides(type.shape)};
  };
  const std::array factors{TensorType{unit.input, {1, Trial::m, Trial::k}, {}},
                           TensorType{unit.input, {1, Trial::k, Trial::n}, {}}};
  const Op& op = product_op(unit.input);
  KernelRequest request{&op, {}, {desc(factors[0]), desc(factors[1])}, {desc(op.infer(factors, {}))}, {}};
  if (unit.tf32) request.compute = ComputeType::tf32;
  return request;
}

/// The first kernel that uses the unit; none if the unit does not fit the device.
std::optional<GpuCandidate> kernel_for(const MatrixUnit& unit, const KernelRequest& request,
                                       GpuTraits traits) {
  traits.registers = true;
  traits.matrix_units = traits.lane_units = {};
  (unit.of_lanes() ? traits.lane_units : traits.matrix_units) = {&unit, 1};
  for (GpuCandidate& candidate : gpu_candidates(request, traits))
    if (candidate.parameters.contains("tile_m")) return std::move(candidate);
  return std::nullopt;
}

/// What a kernel writes to its output, which comes behind its inputs.
std::vector<std::byte> output_of(GpuDevice& device, GpuCandidate candidate,
                                 const std::vector<std::vector<std::byte>>& inputs, size_t bytes) {
  std::vector<std::shared_ptr<GpuStorage>> storage;
  std::vector<Binding> buffers;
  const auto add = [&](const std::vector<std::byte>& data) {
    storage.push_back(std::make_shared<GpuStorage>(device, device.pool.take(data.size()), data.size()));
    storage.back()->write(data.data(), 0, data.size());
    buffers.push_back({storage.back().get(), 0});
  };
  for (const std::vector<std::byte>& input : inputs) add(input);
  std::vector<std::byte> output(bytes, std::byte{0x7f});
  add(output);
  add(std::vector<std::byte>(std::max<size_t>(candidate.scratch_bytes, 1)));
  const Candidate made = make_candidate(device, std::move(candidate), {});
  made.kernel->enqueue(device.kernels(), buffers);
  device.kernels().finish();
  storage[inputs.size()]->read(output.data(), 0, bytes);
  return output;
}

std::string fault_of_product(GpuDevice& device, const KernelRequest& request, GpuCandidate candidate) {
  static const Trial trial;
  HostArray result(request.output().dtype, request.output().shape);
  result.bytes = output_of(device, std::move(candidate),
                           {from_doubles(request.inputs[0].dtype, request.inputs[0].shape, trial.a).bytes,
                            from_doubles(request.inputs[1].dtype, request.inputs[1].shape, trial.b).bytes},
                           result.bytes.size());
  const std::vector<double> got = to_doubles(result);
  const auto wrong = std::ranges::mismatch(got, trial.want);
  if (wrong.in1 == got.end()) return {};
  return fmt::format("element {} of its product is {}, not {}", wrong.in1 - got.begin(), *wrong.in1,
                     *wrong.in2);
}

std::string fault_of_exchange(GpuDevice& device, GpuCandidate candidate, const std::vector<uint32_t>& want) {
  const size_t bytes = want.size() * sizeof(uint32_t);
  const auto output = output_of(device, std::move(candidate), {}, bytes);
  return std::memcmp(output.data(), want.data(), bytes) == 0 ? "" : "its lanes exchange other numbers";
}

/// Whether `fault` finds nothing wrong with a kernel. Kernels of equal names and texts are tried once.
/// Throws Error(out_of_memory), which says nothing about the kernel.
bool passes(GpuDevice& device, const std::string& name, GpuCandidate candidate,
            const std::function<void(GpuLaunch&)>& change,
            const std::function<std::string(GpuCandidate)>& fault) {
  std::string sources;
  for (GpuLaunch& launch : candidate.launches) {
    if (change) change(launch);
    sources += launch.compile_options + "\n" + render(launch, device.facts().target);
  }
  KernelCache& cache = KernelCache::instance();
  const std::string key = fmt::format("{}|{}|{}", device.facts().info.name, name,
                                      KernelCache::binary_key(device.facts().fingerprint, sources));
  const auto known = [&]() -> std::optional<bool> {
    if (cache.is_marked(key, name)) return false;
    if (const auto verdict = cache.find_verdict(key)) return verdict->wrong.empty();
    return std::nullopt;
  };
  if (const auto answer = known()) return *answer;
  const auto turn = cache.turn_to_try(key);
  if (const auto answer = known()) return *answer;  // another process may have tried it meanwhile
  const auto start = Clock::now();
  std::vector<std::string> wrong;
  {
    const Marked marked(key, name);
    try {
      if (std::string found = fault(std::move(candidate)); !found.empty()) wrong.push_back(std::move(found));
    } catch (const Error& error) {
      if (error.code() == ErrorCode::out_of_memory) throw;
      const std::string& text = error.problem();
      wrong.push_back(text.substr(0, text.find('\n')));
    }
  }
  cache.store_verdict(key, {wrong, 1, seconds_since(start)});
  return wrong.empty();
}

bool works(GpuDevice& device, const MatrixUnit& unit, const GpuTraits& traits,
           const std::function<void(GpuLaunch&)>& change) {
  const KernelRequest request = product_by(unit);
  auto product = kernel_for(unit, request, traits);
  if (!product) return false;
  const auto fault = [&](GpuCandidate kernel) {
    return fault_of_product(device, request, std::move(kernel));
  };
  if (!passes(device, fmt::format("{} {}", to_string(unit.input), unit.name), std::move(*product), change,
              fault))
    return false;
  if (!unit.exchanges_lanes() || unit.of_lanes()) return true;
  const ExchangeTrial trial = exchange_trial(unit);  // the same for units of all types
  return passes(
      device, trial.launch.name, {.name = trial.launch.name, .launches = {trial.launch}}, change,
      [&](GpuCandidate kernel) { return fault_of_exchange(device, std::move(kernel), trial.want); });
}

}  // namespace

std::vector<MatrixUnit> units_that_work(GpuDevice& device, const GpuTraits& traits,
                                        std::span<const MatrixUnit> units,
                                        const std::function<void(GpuLaunch&)>& change) {
  std::vector<MatrixUnit> all;
  const auto found = [&](const MatrixUnit& unit) {
    return std::ranges::any_of(all, [&](const MatrixUnit& one) {
      return one.input == unit.input && one.tf32 == unit.tf32 && one.of_lanes() == unit.of_lanes() &&
             one.m == unit.m && one.n == unit.n;
    });
  };
  for (const MatrixUnit& unit : units)
    if (!found(unit) && works(device, unit, traits, change)) all.push_back(unit);
  return all;
}

}  // namespace athanor::gpu
