// Products of matrices on a GPU: Athanor's kernels beside those of the vendor's libraries, which are
// candidates too.
//
//   compare_products --device cuda:0 --budget 150 --json products.json
//
// Every candidate of a problem runs alone, several times, timed by the device's clock. Results are compared
// with those of Athanor's first kernel. The most interesting problems come first; the file names those for
// which no time was left.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "athanor/base/clock.h"
#include "athanor/base/error.h"
#include "athanor/base/text.h"
#include "athanor/graph/host_array.h"
#include "athanor/kernels/tuner.h"
#include "athanor/ops/ops.h"

namespace {

using namespace athanor;

struct Settings {
  std::string device = "cuda:0", json;
  std::vector<std::string> precisions = {"bf16", "f16", "tf32", "f32"};
  std::vector<int64_t> squares = {4096, 1024, 8192, 2048, 512};
  bool skinny = true;
  double budget = 150;
  int samples = 7;
};

struct Extents {
  int64_t m, n, k;
};

KernelRequest request_of(const std::string& precision, const Extents& e) {
  const DType dtype = precision == "bf16" ? DType::bf16 : precision == "f16" ? DType::f16 : DType::f32;
  const auto dense = [&](const Shape& shape) {
    return OperandDesc{dtype, shape, {}, contiguous_strides(shape)};
  };
  return {.op = &find_op("batch_matmul"),
          .attrs = {},
          .inputs = {dense({1, e.m, e.k}), dense({1, e.k, e.n})},
          .outputs = {dense({1, e.m, e.n})},
          .epilogue = {},
          .compute = precision == "tf32" ? ComputeType::tf32 : ComputeType::by_dtypes};
}

/// A problem in the device's memory.
class Problem {
 public:
  Problem(Device device, const KernelRequest& request) : device_(device), output_(request.output()) {
    std::mt19937 random(1);
    std::uniform_real_distribution<double> uniform(-1, 1);
    std::vector<double> some(4099);
    for (double& value : some) value = uniform(random);
    for (const OperandDesc& input : request.inputs) {
      std::vector<double> values(static_cast<size_t>(input.shape.size()));
      for (size_t i = 0; i < values.size(); ++i) values[i] = some[i % some.size()];
      const HostArray host = from_doubles(input.dtype, input.shape, values);
      add(host.bytes.size());
      memory_.back()->write(host.bytes.data(), 0, host.bytes.size());
    }
    add(static_cast<size_t>(output_.shape.size()) * size_of(output_.dtype));
    result_ = memory_.back();
  }

  void run(const Candidate& candidate) {
    std::vector<Binding> buffers = buffers_;
    if (candidate.scratch_bytes > 0) {
      if (!scratch_ || scratch_->bytes() < candidate.scratch_bytes)
        scratch_ = allocate(device_, candidate.scratch_bytes);
      buffers.push_back({scratch_.get(), 0});
    }
    candidate.kernel->enqueue(queue_of(device_), buffers);
  }

  /// The median of several samples, each of as many runs as take a few milliseconds.
  double seconds(const Candidate& candidate, int samples) {
    Queue& queue = queue_of(device_);
    run(candidate);
    queue.finish();
    constexpr double sample = 0.01;
    const double once = queue.timed([&] { run(candidate); });
    const int runs = std::clamp(static_cast<int>(sample / std::max(once, 1e-7)), 1, 200);
    std::vector<double> times;
    for (int i = 0; i < samples; ++i)
      times.push_back(queue.timed([&] {
        for (int r = 0; r < runs; ++r) run(candidate);
      }) / runs);
    std::ranges::sort(times);
    return times[times.size() / 2];
  }

  /// The first elements of the result, and some from its end.
  std::vector<double> some_of_the_result() const {
    const auto piece = [&](size_t from, size_t count) {
      const auto elements = static_cast<int64_t>(count / size_of(output_.dtype));
      HostArray host(output_.dtype, Shape{elements});
      result_->read(host.bytes.data(), from, host.bytes.size());
      return to_doubles(host);
    };
    const size_t bytes = static_cast<size_t>(output_.shape.size()) * size_of(output_.dtype);
    const size_t some = std::min<size_t>(bytes, 1U << 16U);
    std::vector<double> all = piece(0, some);
    const std::vector<double> last = piece(bytes - some, some);
    all.insert(all.end(), last.begin(), last.end());
    return all;
  }

  void poison() { queue_of(device_).fill({result_.get(), 0}, 0x7f, result_->bytes()); }

 private:
  void add(size_t bytes) {
    memory_.push_back(allocate(device_, bytes));
    buffers_.push_back({memory_.back().get(), 0});
  }
  Device device_;
  OperandDesc output_;
  std::vector<std::shared_ptr<Storage>> memory_;
  std::vector<Binding> buffers_;
  std::shared_ptr<Storage> result_, scratch_;
};

/// How far two results differ, relative to the largest element.
double difference(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0, scale = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    most = std::isfinite(a[i]) ? std::max(most, std::abs(a[i] - b[i])) : INFINITY;
    scale = std::max(scale, std::abs(b[i]));
  }
  return most / std::max(scale, 1e-30);
}

std::vector<std::string> names_of(const std::vector<Candidate>& candidates) {
  std::vector<std::string> names;
  for (const Candidate& candidate : candidates) names.push_back(candidate.name);
  return names;
}

nlohmann::json measure_problem(Device device, const std::string& precision, const Extents& e,
                               const Settings& settings) {
  KernelRequest request = request_of(precision, e);
  Backend& backend = backend_of(device);
  const auto candidates = backend.candidates(device.index, request);
  if (candidates.empty())
    throw Error(ErrorCode::device, fmt::format("{} has no kernel for it", to_string(device)));
  KernelRequest without = request;
  without.libraries = false;
  const std::vector<std::string> own = names_of(backend.candidates(device.index, without));
  nlohmann::json result{{"precision", precision}, {"m", e.m}, {"n", e.n}, {"k", e.k}};
  std::vector<Uncompiled> kernels;
  for (const Candidate& candidate : candidates) kernels.push_back({candidate.kernel.get(), device});
  prepare({}, kernels);  // compiles several at once; one that does not compile fails below
  Problem problem(device, request);
  const double flops = 2.0 * static_cast<double>(e.m) * static_cast<double>(e.n) * static_cast<double>(e.k);
  std::vector<double> expected;
  nlohmann::json failed = nlohmann::json::array();
  std::map<std::string, nlohmann::json> measured;
  for (const Candidate& candidate : candidates) {
    const bool ours = std::ranges::find(own, candidate.name) != own.end();
    try {
      problem.poison();
      const double seconds = problem.seconds(candidate, settings.samples);
      const auto got = problem.some_of_the_result();
      if (expected.empty()) expected = got;
      const double off = difference(got, expected);
      if (!(off <= 2 * request.rounding())) {
        failed.push_back(
            {{"kernel", candidate.name}, {"why", fmt::format("its results differ by {:.1e}", off)}});
        continue;
      }
      measured[candidate.name] = {
          {"kernel", candidate.name}, {"seconds", seconds}, {"tflops", flops / seconds * 1e-12}};
      nlohmann::json& best = result[ours ? "ours" : "library"];
      if (best.is_null() || seconds < best["seconds"].get<double>()) best = measured[candidate.name];
    } catch (const Error& error) {
      failed.push_back({{"kernel", candidate.name}, {"why", error.problem()}});
    }
  }
  result["failed"] = failed;
  // What a training step would run.
  const Choice choice = choose(device, request, candidates, Choosing::timed);
  if (const auto found = measured.find(candidates[choice.index].name); found != measured.end())
    result["chosen"] = found->second;
  return result;
}

std::vector<Extents> extents_of(const Settings& settings) {
  std::vector<Extents> all;
  for (const int64_t n : settings.squares) all.push_back({n, n, n});
  if (settings.skinny) {
    const int64_t most = *std::ranges::max_element(settings.squares), wide = std::min<int64_t>(most, 4096);
    for (const int64_t few : {16, 1, 64}) all.push_back({few, wide, wide});
    all.push_back({wide, wide, 64});  // like a weight's gradient of a small batch
    all.push_back({64, 64, most * 8});
  }
  return all;
}

std::string line_of(const nlohmann::json& one) {
  const auto side = [&](const char* name) {
    return one.contains(name) ? fmt::format("{:8.2f} TFLOP/s", one[name]["tflops"].get<double>())
                              : fmt::format("{:>16}", "none");
  };
  std::string ratio;
  if (one.contains("ours") && one.contains("library"))
    ratio = fmt::format("{:5.2f} of the library",
                        one["library"]["seconds"].get<double>() / one["ours"]["seconds"].get<double>());
  return fmt::format("{:5} {:6} {:6} {:6}  ours {}  library {}  {}", one["precision"].get<std::string>(),
                     one["m"].get<int64_t>(), one["n"].get<int64_t>(), one["k"].get<int64_t>(), side("ours"),
                     side("library"), ratio);
}

int run(const Settings& settings) {
  const Device device = parse_device(settings.device);
  const auto start = Clock::now();
  nlohmann::json report{{"device", settings.device},
                        {"name", info_of(device).name},
                        {"products", nlohmann::json::array()},
                        {"left_out", nlohmann::json::array()}};
  for (const auto& [name, property] : info_of(device).properties) report["properties"][name] = property.value;
  const auto save = [&] {
    report["libraries"] = backend_of(device).libraries(device.index);
    report["seconds"] = seconds_since(start);
    if (!settings.json.empty()) std::ofstream(settings.json) << report.dump(1) << '\n';
  };
  for (const Extents& e : extents_of(settings))
    for (const std::string& precision : settings.precisions) {
      const std::string name = fmt::format("{} {}x{}x{}", precision, e.m, e.n, e.k);
      if (seconds_since(start) > settings.budget) {
        report["left_out"].push_back(name + ": no time was left");
        continue;
      }
      try {
        report["products"].push_back(measure_problem(device, precision, e, settings));
        std::cout << line_of(report["products"].back()) << std::endl;
      } catch (const Error& error) {
        report["left_out"].push_back(fmt::format("{}: {}", name, error.problem()));
        std::cout << name << ": " << error.problem() << std::endl;
      }
      save();  // if the program is stopped, nothing measured is lost
    }
  save();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app("Times products of matrices on a GPU: our kernels beside the vendor's libraries.");
  app.add_option("--device", settings.device, "cuda:0, hip:0, opencl:0, ...");
  app.add_option("--precision", settings.precisions, "bf16, f16, tf32 and f32")->expected(1, 4);
  app.add_option("--squares", settings.squares, "Extents of square matrices")->expected(1, 20);
  app.add_flag("!--no-skinny", settings.skinny, "Only square matrices");
  app.add_option("--budget", settings.budget, "Seconds after which no new problem begins");
  app.add_option("--samples", settings.samples, "Samples of each kernel's time")->check(CLI::PositiveNumber);
  app.add_option("--json", settings.json, "Writes everything that was measured to this file");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(settings);
  } catch (const Error& error) {
    std::cerr << "compare_products: " << error.what() << '\n';
    return 1;
  }
}
