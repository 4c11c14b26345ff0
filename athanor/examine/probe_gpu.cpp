// Probes of devices that run the kernel language.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "athanor/base/clock.h"
#include "athanor/base/embedded.h"
#include "athanor/base/error.h"
#include "athanor/examine/probe.h"
#include "athanor/kernels/gpu/gpu_access.h"

namespace athanor {
namespace {

class Prober {
 public:
  explicit Prober(Device device)
      : device_(device), access_(gpu_access(device).value()), queue_(queue_of(device)) {
    group_size_ = std::min(access_.traits.grain->side_by_side, access_.traits.max_group_size);
    width_ = access_.traits.grain->widest;
    std::vector<float> seed(128);
    for (size_t i = 0; i < seed.size(); ++i)
      seed[i] = i < 32 ? 0.5F : 0.25F;  // a * 0.5 + 0.25 stays near 0.5
    seed_ = allocate(device, seed.size() * sizeof(float));
    seed_->write(seed.data(), 0, seed.size() * sizeof(float));
    out_ = allocate(device, 64 * 16 * sizeof(float));
  }

  bool knows_waves() const { return access_.waves; }

  Candidate kernel(const std::string& name, Defines defines, int64_t groups, int buffers) const {
    defines.set("GROUPS", groups);
    GpuLaunch launch;
    launch.name = name;
    launch.source = defines.before(std::string(embedded_file("athanor/examine/" + name + ".kernel")));
    launch.groups = {groups, 1, 1};
    launch.group_size = {group_size_, 1, 1};
    for (int i = 0; i < buffers; ++i) launch.arguments.push_back({i, 0});
    Candidate candidate = access_.make({name, {}, 0, {launch}});
    candidate.kernel->prepare();
    return candidate;
  }

  // The best of some runs, by the device's clock.
  double best(const Candidate& candidate, const std::vector<Binding>& buffers, int runs = 4) const {
    double least = 1e30;
    for (int i = 0; i < runs; ++i)
      least = std::min(least, queue_.timed([&] { candidate.kernel->enqueue(queue_, buffers); }));
    return std::max(least, 1e-9);
  }

  // Arithmetic alone: the best rate with more and more groups, and its ratio to the rate of a single group.
  struct Rate {
    double best = 0, units = 1;
  };
  // `operations`: of one group in one iteration.
  Rate rate_of(const char* name, const Defines& defines, double operations) const {
    const auto seconds_of = [&](int64_t groups, int64_t iterations) {
      Defines all = defines;
      all.set("ITERATIONS", iterations);
      return best(kernel(name, all, groups, 2), {{seed_.get(), 0}, {out_.get(), 0}});
    };
    // A group alone should work for some milliseconds.
    int64_t iterations = 1024;
    double alone = seconds_of(1, iterations);
    while (alone < 2e-3 && iterations < (int64_t{1} << 24)) alone = seconds_of(1, iterations *= 4);
    operations *= static_cast<double>(iterations);
    Rate rate{operations / alone, 1};
    for (int64_t groups = 2; groups <= access_.traits.grain->probed_groups; groups *= 2) {
      const double seconds = seconds_of(groups, iterations);
      const double speed = static_cast<double>(groups) * operations / seconds;
      rate.best = std::max(rate.best, speed);
      rate.units = rate.best / (operations / alone);
      if (seconds > 0.4 || (speed < 1.02 * rate.best && groups > 4 * access_.traits.compute_units)) break;
    }
    return rate;
  }

  std::vector<Measurement> rate_and_concurrency() const {
    Defines defines;
    defines.set("WIDTH", std::to_string(width_));
    const Rate rate = rate_of("probe_rate", defines, 16.0 * static_cast<double>(width_ * group_size_));
    return {{"f32_tflops", rate.best * 1e-12, "multiply-adds in registers", {}},
            {"concurrency", rate.units, "how many times faster all groups are than one alone", {}}};
  }

  Measurement rate_i8() const {
    const int64_t lanes = access_.traits.grain->width;
    const auto measured = [&](int dot) {
      Defines defines;
      defines.set("LANES", lanes).set("USE_DOT", int64_t{dot});
      return rate_of("probe_rate_i8", defines, 64.0 * static_cast<double>(lanes * group_size_)).best * 1e-12;
    };
    double rate = 0;
    try {
      rate = measured(1);
    } catch (const Error&) {  // the driver has the extension, but not for this version of the language
      rate = measured(0);
    }
    float by_dot = 0;
    out_->read(&by_dot, 64 * sizeof(float), sizeof by_dot);
    return {"i8_tops",
            rate,
            by_dot != 0 ? "multiply-adds to 32 bits, by the driver's dot product"
                        : "multiply-adds to 32 bits, in plain code: no cl_khr_integer_dot_product here",
            {}};
  }

  Measurement bandwidth() const {
    const uint64_t bytes = std::min<uint64_t>(uint64_t{256} << 20, access_.largest_buffer / 4) / 4096 * 4096;
    const auto from = allocate(device_, bytes), to = allocate(device_, bytes);
    Defines defines;
    const auto count = static_cast<int64_t>(bytes / sizeof(float)) / width_;
    defines.set("WIDTH", std::to_string(width_)).set("COUNT", count);
    defines.set("IN_PARTS", int64_t{group_size_ == 1 ? 1 : 0});  // each item has a part of its own
    const int64_t groups = std::max<int64_t>(
        1, std::min<int64_t>(count / group_size_, int64_t{access_.traits.compute_units} * 32));
    const double seconds =
        best(kernel("probe_copy", defines, groups, 2), {{from.get(), 0}, {to.get(), 0}}, 6);
    return {"bandwidth_gb_s",
            2 * static_cast<double>(bytes) / seconds * 1e-9,
            fmt::format("copying {} MiB, read and written", bytes >> 20),
            {}};
  }

  Measurement cache_bandwidth() const {
    constexpr int64_t bytes = 128 << 10;
    const int64_t count = bytes / 4 / width_;
    Defines defines;
    int64_t rounds = 16;
    const int64_t groups = int64_t{access_.traits.compute_units} * 4;
    const auto memory = allocate(device_, bytes);
    const std::vector<float> ones(bytes / sizeof(float), 1);
    memory->write(ones.data(), 0, bytes);
    double seconds = 0;
    do {
      Defines constants;
      constants.set("WIDTH", std::to_string(width_)).set("COUNT", count).set("ROUNDS", rounds *= 4);
      seconds = best(kernel("probe_read", constants, groups, 2), {{memory.get(), 0}, {out_.get(), 0}});
    } while (seconds < 2e-3 && rounds < (1 << 20));
    return {"cache_bandwidth_gb_s",
            static_cast<double>(bytes * rounds * groups) / seconds * 1e-9,
            "every group reading the same 128 KiB",
            {}};
  }

  std::vector<Measurement> link() const {
    constexpr size_t bytes = size_t{64} << 20;
    const auto there = allocate(device_, bytes);
    std::vector<std::byte> here(bytes, std::byte{1});
    double to = 1e30, from = 1e30;
    for (int i = 0; i < 4; ++i) {
      auto start = Clock::now();
      there->write(here.data(), 0, bytes);
      queue_.finish();
      to = std::min(to, seconds_since(start));
      start = Clock::now();
      there->read(here.data(), 0, bytes);
      from = std::min(from, seconds_since(start));
    }
    return {{"to_device_gb_s", bytes / to * 1e-9, "64 MiB from pageable memory", {}},
            {"from_device_gb_s", bytes / from * 1e-9, "64 MiB to pageable memory", {}}};
  }

  std::vector<Measurement> latency() const {
    Defines defines;
    defines.set("WIDTH", "1").set("ITERATIONS", 1);
    const Candidate least = kernel("probe_rate", defines, 1, 2);
    const std::vector<Binding> buffers{{seed_.get(), 0}, {out_.get(), 0}};
    constexpr int launches = 500;
    queue_.finish();
    auto start = Clock::now();
    for (int i = 0; i < launches; ++i) least.kernel->enqueue(queue_, buffers);
    queue_.finish();
    const double queued = seconds_since(start) / launches;
    double trip = 1e30;
    for (int i = 0; i < 50; ++i) {
      start = Clock::now();
      least.kernel->enqueue(queue_, buffers);
      queue_.finish();
      trip = std::min(trip, seconds_since(start));
    }
    return {{"launch_us", queued * 1e6, "launches one after the other, each", {}},
            {"round_trip_us", trip * 1e6, "a launch that is waited for", {}}};
  }

  Measurement wave_width() const {
    const auto answer = allocate(device_, 64);
    const Candidate asked = kernel("probe_wave", {}, 1, 1);
    const std::vector<Binding> buffers{{answer.get(), 0}};
    asked.kernel->enqueue(queue_, buffers);
    queue_.finish();
    int32_t width = 0;
    answer->read(&width, 0, sizeof width);
    return {"wave_width", static_cast<double>(width), "sub-group of a running kernel", {}};
  }

 private:
  Device device_;
  GpuAccess access_;
  Queue& queue_;
  int64_t group_size_ = 1, width_ = 1;
  std::shared_ptr<Storage> seed_, out_;
};

}  // namespace

Measurement matrix_units_found(std::span<const MatrixUnit> units) {
  std::vector<std::pair<std::string, std::vector<std::string>>> types;  // by the unit's name
  for (const MatrixUnit& unit : units) {
    const std::string name(unit.name);
    auto found = std::ranges::find(types, name, &std::pair<std::string, std::vector<std::string>>::first);
    if (found == types.end()) found = types.insert(types.end(), {name, {}});
    found->second.push_back(unit.tf32 ? "tf32" : std::string(to_string(unit.input)));
  }
  std::vector<std::string> texts;
  for (const auto& [name, of] : types) texts.push_back(fmt::format("{} of {}", name, fmt::join(of, ", ")));
  if (texts.empty())
    return {"matrix_units_found", 0, {}, "none is known, or none multiplied right when it was tried"};
  return {
      "matrix_units_found", static_cast<double>(units.size()), fmt::format("{}", fmt::join(texts, "; ")), {}};
}

std::vector<ProbePart> probe_parts_of_gpu(Device device) {
  const auto prober = std::make_shared<const Prober>(device);
  std::vector<ProbePart> all;
  const auto add = [&](const char* what, const std::vector<std::string>& properties, auto how) {
    all.push_back({what, properties, [prober, how](const ProbeProgress&) { return how(*prober); }});
  };
  using All = std::vector<Measurement>;
  add("rate and concurrency", {"f32_tflops", "concurrency"},
      [](const Prober& on) { return on.rate_and_concurrency(); });
  add("rate in 8-bit integers", {"i8_tops"}, [](const Prober& on) { return All{on.rate_i8()}; });
  add("memory bandwidth", {"bandwidth_gb_s"}, [](const Prober& on) { return All{on.bandwidth()}; });
  add("cache bandwidth", {"cache_bandwidth_gb_s"},
      [](const Prober& on) { return All{on.cache_bandwidth()}; });
  add("link to the host", {"to_device_gb_s", "from_device_gb_s"}, [](const Prober& on) { return on.link(); });
  add("launches", {"launch_us", "round_trip_us"}, [](const Prober& on) { return on.latency(); });
  add("wave width", {"wave_width"}, [](const Prober& on) {
    return on.knows_waves()
               ? All{on.wave_width()}
               : missing({"wave_width"}, "the driver has no sub-groups, by which kernels could tell");
  });
  all.push_back({"matrix units", {"matrix_units_found"}, [device](const ProbeProgress&) {
                   return All{matrix_units_found(gpu_access(device).value().traits.matrix_units)};
                 }});
  return all;
}

}  // namespace athanor
