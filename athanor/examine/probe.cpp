#include "athanor/examine/probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "athanor/base/error.h"
#include "athanor/kernels/gpu/gpu_access.h"
#include "athanor/kernels/tuner.h"

namespace athanor {
namespace {

constexpr double enough = 0.7;

// A property's value as a number, from a source other than the probe.
std::optional<std::pair<double, std::string>> said_of(const FoundDevice& device, const std::string& property,
                                                      const std::string& by = {}) {
  const auto found = device.properties.find(property);
  if (found == device.properties.end()) return std::nullopt;
  std::vector<const Reading*> all{&found->second.in_use};
  for (const Reading& other : found->second.others) all.push_back(&other);
  for (const Reading* reading : all) {
    if (reading->source.starts_with("probe") || reading->source == "user") continue;
    if (!by.empty() && reading->source != by) continue;
    if (const auto* number = std::get_if<double>(&reading->value)) return {{*number, reading->source}};
    if (const auto* number = std::get_if<int64_t>(&reading->value))
      return {{static_cast<double>(*number), reading->source}};
  }
  return std::nullopt;
}

// The best measurement, if probes of several backends measured.
std::optional<double> measured_of(const FoundDevice& device, const std::string& property) {
  const auto found = device.properties.find(property);
  if (found == device.properties.end()) return std::nullopt;
  std::optional<double> best;
  const auto look = [&](const Reading& reading) {
    if (!reading.source.starts_with("probe")) return;
    const auto* number = std::get_if<double>(&reading.value);
    if (number != nullptr && (!best || *number > *best)) best = *number;
  };
  look(found->second.in_use);
  for (const Reading& other : found->second.others) look(other);
  return best;
}

// 16 GT/s x8 as GB/s one way: 128b/130b coding from 8 GT/s on, 8b/10b below.
double link_gb_s(const std::string& link) {
  double speed = 0;
  int width = 0;
  if (std::sscanf(link.c_str(), "%lf GT/s x%d", &speed, &width) != 2) return 0;
  return speed * width / 8 * (speed < 8 ? 0.8 : 128.0 / 130);
}

std::vector<std::string> causes_of(const FoundDevice& device, const std::string& property) {
  std::vector<std::string> causes;
  const std::string link = device.text("pcie_link"), best = device.text("pcie_link_best");
  if (property.ends_with("_device_gb_s")) {
    if (!link.empty() && best.find("GT/s") != std::string::npos && link != best)
      causes.push_back(fmt::format(
          "the link runs at {}, of {} at best: another slot, a riser, or settings of the firmware", link,
          best));
    causes.emplace_back("pageable memory costs a copy more than pinned memory");
    causes.emplace_back("a virtual machine, or an IOMMU that translates (iommu=pt)");
    return causes;
  }
  const int64_t used = device.number("memory_used_bytes"), all = device.number("memory_bytes");
  if (used > 0 && all > 0 && used > all / 4) causes.emplace_back("another program uses the device now");
  if (property.starts_with("bandwidth")) {
    causes.emplace_back("memory clocks held low (power saving, heat); ECC takes a part");
    causes.emplace_back("a smaller copy than the caches, or a driver that copies badly");
  } else if (property == "concurrency") {
    causes.emplace_back("a part of the device that this program may not use (partitions, CU masks, cgroups)");
    causes.emplace_back("another program uses the device now");
  } else {
    causes.emplace_back("a power limit, heat, or clocks held low");
    causes.emplace_back("another program uses the device now");
    if (property.find("matrix") != std::string::npos || property.find("product") != std::string::npos)
      causes.emplace_back("Athanor's kernels do not use this device's matrix units yet");
  }
  return causes;
}

// Seconds of the fastest kernel. The choice is remembered.
double seconds_of(Device device, const KernelRequest& request, const TuningProgress& progress) {
  Backend& backend = backend_of(device);
  const std::vector<Candidate> candidates = backend.candidates(device.index, request);
  const Candidate& winner =
      candidates.at(choose(device, request, candidates, Choosing::timed, progress).index);
  const size_t bytes = static_cast<size_t>(request.output().shape.size()) * size_of(request.output().dtype);
  std::vector<std::shared_ptr<Storage>> memory;
  std::vector<Binding> buffers;
  for (const size_t size : {bytes, bytes, bytes, winner.scratch_bytes}) {
    if (size == 0) continue;
    memory.push_back(allocate(device, size));
    memory.back()->write(std::vector<std::byte>(size).data(), 0, size);
    buffers.push_back({memory.back().get(), 0});
  }
  winner.kernel->prepare();
  double least = 1e30;
  Queue& queue = backend.queue(device.index);
  for (int run = 0; run < 4; ++run)
    least = std::min(least, queue.timed([&] { winner.kernel->enqueue(queue, buffers); }));
  return std::max(least, 1e-9);
}

// The rate of the fastest matrix product with Athanor's kernels.
ProbePart product_rate(Device device, DType dtype) {
  const std::string property = fmt::format("{}_product_tflops", to_string(dtype));
  const std::string what = fmt::format("product of matrices in {}", to_string(dtype));
  return {what, {property}, [=](const ProbeProgress& say) -> std::vector<Measurement> {
            double best = 0;
            int64_t best_extent = 0;
            for (const int64_t extent : {512, 1024, 2048, 4096, 8192}) {
              const Shape shape{1, extent, extent};
              const OperandDesc operand{dtype, shape, {}, contiguous_strides(shape)};
              const KernelRequest request{.op = &find_op("batch_matmul"),
                                          .attrs = {},
                                          .inputs = {operand, operand},
                                          .outputs = {operand},
                                          .epilogue = {}};
              const double seconds = seconds_of(device, request, [&](size_t number, size_t of) {
                say(what, fmt::format("{0} x {0}, kernel {1} of {2}", extent, number, of));
              });
              const double n = static_cast<double>(extent), rate = 2 * n * n * n / seconds * 1e-12;
              if (rate > best) best = rate, best_extent = extent;
              if (seconds > 5e-3)
                break;  // long enough; choosing a kernel for a larger one would take minutes
            }
            return {{property, best, fmt::format("product of {0} x {0} matrices", best_extent), {}}};
          }};
}

}  // namespace

std::vector<ProbePart> probe_parts(Device device) {
  std::vector<ProbePart> all = gpu_access(device) ? probe_parts_of_gpu(device) : probe_parts_of_cpu();
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) all.push_back(product_rate(device, dtype));
  return all;
}

std::vector<Measurement> run_part(const ProbePart& part, const ProbeProgress& say) {
  say(part.what, {});
  try {
    return part.measure(say);
  } catch (const Error& error) {
    return missing(part.properties, error.problem().substr(0, error.problem().find('\n')));
  }
}

std::vector<Measurement> missing(const std::vector<std::string>& properties, const std::string& why) {
  std::vector<Measurement> all;
  for (const std::string& property : properties) all.push_back({property, 0, {}, why});
  return all;
}

void add_measurements(FoundDevice& device, const std::vector<Measurement>& measurements,
                      const std::string& source) {
  for (const Measurement& one : measurements) {
    if (!one.missing.empty()) continue;
    Fact& fact = device.properties[one.property];
    const bool whole = one.property == "wave_width";
    if (whole && !fact.in_use.source.empty() && device.number("wave_width") != std::llround(one.value))
      fact.note = fmt::format("the kernel ran in waves of {:.0f}: its compiler chose so{}", one.value,
                              device.text("vendor") == "AMD"
                                  ? ", or was told to (GPU_ENABLE_WAVE32_MODE, -mwavefrontsize64)"
                                  : "");
    Reading reading{
        whole ? Value(static_cast<int64_t>(std::llround(one.value))) : Value(one.value), source, {}};
    if (fact.in_use.source.empty())
      fact.in_use = std::move(reading);
    else
      fact.others.push_back(std::move(reading));
  }
}

std::vector<Shortfall> find_shortfalls(const FoundDevice& device) {
  std::vector<Shortfall> all;
  const auto compare = [&](const std::string& property,
                           std::optional<std::pair<double, std::string>> expected) {
    const auto measured = measured_of(device, property);
    if (measured && expected && expected->first > 0 && *measured < enough * expected->first)
      all.push_back(
          {device.name, property, *measured, expected->first, expected->second, causes_of(device, property)});
  };
  compare("f32_tflops", said_of(device, "f32_tflops", "data sheet"));
  compare("bandwidth_gb_s", said_of(device, "bandwidth_gb_s", "data sheet"));
  auto f16 = said_of(device, "f16_matrix_tflops", "data sheet");
  compare("f16_product_tflops", f16 ? f16 : said_of(device, "f16_tflops", "data sheet"));
  auto bf16 = said_of(device, "bf16_matrix_tflops", "data sheet");
  compare("bf16_product_tflops", std::move(bf16));
  // Launches count units, or work-group processors with two units each.
  if (auto units = said_of(device, "compute_units"); units && device.kind != "cpu") {
    if (device.text("launch_mode") == "WGP") units->first /= 2;
    compare("concurrency", std::move(units));
  } else if (device.kind == "cpu") {
    compare("concurrency", said_of(device, "compute_units"));
  }
  if (const double link = link_gb_s(device.text("pcie_link_best")); link > 0) {
    compare("to_device_gb_s", {{link, "pci"}});
    compare("from_device_gb_s", {{link, "pci"}});
  }
  return all;
}

}  // namespace athanor
