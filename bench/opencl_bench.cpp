// Kernels of an OpenCL device beside oneDNN's on the CPU backend and, for products of matrices, CLBlast's (if
// libclblast.so.1 is there): tuned first, then timed in turns, so that other work of the machine affects all
// alike.
//
//   bench_opencl gemm        f32, 512 to 2048 squared
//   bench_opencl conv        ResNet-18's 3x3 convolutions at batch 64, forward and both gradients
//   bench_opencl rows        norms, softmax and cross-entropy beside what their bytes must take
//   bench_opencl sweep       200 random products and convolutions: is any far below its like?
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>

#include "athanor/base/clock.h"
#include "athanor/base/error.h"
#include "athanor/base/os/library.h"
#include "athanor/base/text.h"
#include "athanor/kernels/trace.h"
#include "athanor/kernels/tuner.h"
#include "athanor/ops/ops.h"

namespace {

using namespace athanor;

struct Settings {
  std::string device = "opencl:0";
  std::string only;
  bool profile = false;
  int rounds = 7;
  int count = 200;
  unsigned seed = 1;
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.empty() ? NAN : values[values.size() / 2];
}

/// Something to time: launches, and waiting for them.
struct Contestant {
  std::string name;
  std::function<void()> launch, wait;
  std::vector<double> seconds = {};
  double once(int launches) const {
    wait();
    const auto start = Clock::now();
    for (int i = 0; i < launches; ++i) launch();
    wait();
    return seconds_since(start) / launches;
  }
};

void take_turns(std::vector<Contestant>& contestants, int rounds) {
  constexpr double sample = 0.03;
  for (Contestant& c : contestants) c.once(1);
  for (int round = 0; round < rounds; ++round)
    for (Contestant& c : contestants) {
      // OpenMP's threads spin for a while after their work, on cores that the next contestant needs. This
      // time does not count.
      const int runs = std::clamp(static_cast<int>(sample / c.once(1)), 1, 1000);
      c.once(runs);
      c.seconds.push_back(c.once(runs));
    }
}

/// Prints the time of each kernel, by the device's clock.
void print_profile(const Contestant& contestant) {
  std::map<std::string, std::pair<int, double>> kernels;
  const auto add = [&](int sign) {
    const auto trace = nlohmann::json::parse(Trace::active()->json());
    for (const auto& event : trace.at("traceEvents"))
      if (event.value("ph", "") == "X") {
        auto& [count, microseconds] = kernels[event.at("name")];
        count += sign;
        microseconds += sign * event.at("dur").get<double>();
      }
  };
  constexpr int launches = 10;
  add(-1);
  contestant.once(launches);
  add(1);
  for (const auto& [name, total] : kernels)
    if (total.first > 0)
      fmt::print("{:>39} {:9.0f} us in {} launches\n", name, total.second / launches, total.first / launches);
}

OperandDesc dense(const Shape& shape, Layout layout = {}) {
  return {DType::f32, shape, layout, contiguous_strides(shape)};
}

/// The fastest kernel of a device for a request, with separate memory.
Contestant contestant(Device device, const KernelRequest& request) {
  const Measured measured = measure(device, request);
  Backend& backend = backend_of(device);
  for (const Candidate& candidate : backend.candidates(device.index, request)) {
    if (candidate.name != measured.winner) continue;
    std::vector<std::shared_ptr<Storage>> memory;
    std::vector<Binding> buffers;
    const auto add = [&](size_t bytes) {
      std::vector<float> values(bytes / 4 + 1);
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 13) * 0.1F - 0.6F;
      memory.push_back(allocate(device, bytes));
      memory.back()->write(values.data(), 0, bytes);
      buffers.push_back({memory.back().get(), 0});
    };
    for (const OperandDesc& input : request.inputs) add(static_cast<size_t>(input.shape.size()) * 4);
    add(static_cast<size_t>(request.output().shape.size()) * 4);
    if (candidate.scratch_bytes > 0) add(candidate.scratch_bytes);
    return {candidate.name,
            [=, kernel = candidate.kernel] { (void)memory, kernel->enqueue(queue_of(device), buffers); },
            [device] { queue_of(device).finish(); }};
  }
  throw Error(ErrorCode::internal, "the winner is no candidate: " + measured.winner);
}

KernelRequest gemm_request(int64_t m, int64_t n, int64_t k) {
  return {&find_op("batch_matmul"), {}, {dense({1, m, k}), dense({1, k, n})}, {dense({1, m, n})}, {}};
}

struct ConvShape {
  int64_t n, c, size, o, kernel, stride, padding;
};

enum class Pass { forward, input_grad, weight_grad };
constexpr const char* conv_ops[] = {"conv2d", "conv2d_input_grad", "conv2d_weight_grad"};

/// A convolution in the layouts that the device's kernels prefer.
KernelRequest conv_request(Device device, const ConvShape& s, Pass pass) {
  const int64_t out = (s.size + 2 * s.padding - s.kernel) / s.stride + 1;
  const Shape x{s.n, s.c, s.size, s.size}, w{s.o, s.c, s.kernel, s.kernel}, y{s.n, s.o, out, out};
  Attrs attrs = {{"stride", Ints{s.stride, s.stride}},
                 {"padding", Ints{s.padding, s.padding}},
                 {"dilation", Ints{1, 1}},
                 {"groups", int64_t{1}}};
  attrs.set("input_shape", x.to_ints());
  attrs.set("weight_shape", w.to_ints());
  const Shape& first = pass == Pass::input_grad ? y : x;
  const Shape& second = pass == Pass::weight_grad ? y : w;
  const Shape& result = pass == Pass::forward ? y : pass == Pass::input_grad ? x : w;
  const Op& op = find_op(conv_ops[static_cast<int>(pass)]);
  const std::vector<TensorType> inputs = {{DType::f32, first, {}}, {DType::f32, second, {}}};
  auto layouts = backend_of(device).preferred_layouts(op, inputs, {DType::f32, result, {}}, attrs);
  layouts.resize(3);
  return {&op, attrs, {dense(first, layouts[0]), dense(second, layouts[1])}, {dense(result, layouts[2])}, {}};
}

double flops_of(const ConvShape& s) {
  const int64_t out = (s.size + 2 * s.padding - s.kernel) / s.stride + 1;
  return 2.0 * static_cast<double>(s.n * s.o * out * out * s.c * s.kernel * s.kernel);
}

/// CLBlast's product with its defaults, on the first device of the first platform.
class Clblast {
 public:
  Clblast() : blas_({"libclblast.so.1"}), cl_({"libOpenCL.so.1"}) {
    sgemm_ = reinterpret_cast<Sgemm>(blas_ && cl_ ? blas_.find("CLBlastSgemm") : nullptr);
    if (sgemm_ == nullptr) return;
    cl_platform_id platform = nullptr;
    get<decltype(&clGetPlatformIDs)>("clGetPlatformIDs")(1, &platform, nullptr);
    get<decltype(&clGetDeviceIDs)>("clGetDeviceIDs")(platform, CL_DEVICE_TYPE_ALL, 1, &device_, nullptr);
    context_ =
        get<decltype(&clCreateContext)>("clCreateContext")(nullptr, 1, &device_, nullptr, nullptr, nullptr);
    queue_ = get<decltype(&clCreateCommandQueue)>("clCreateCommandQueue")(context_, device_, 0, nullptr);
  }
  bool there() const { return sgemm_ != nullptr; }
  Contestant product(int64_t m, int64_t n, int64_t k) {
    std::vector<float> values(static_cast<size_t>(std::max({m * k, k * n, m * n})), 0.25F);
    const auto matrix = [&](int64_t elements) {
      return get<decltype(&clCreateBuffer)>("clCreateBuffer")(
          context_, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, static_cast<size_t>(elements) * 4,
          values.data(), nullptr);
    };
    cl_mem a = matrix(m * k), b = matrix(k * n), c = matrix(m * n);
    const auto size = [](int64_t x) { return static_cast<size_t>(x); };
    return {"CLBlast",
            [=, this] {
              constexpr int row_major = 101, plain = 111;
              cl_command_queue queue = queue_;
              const int status = sgemm_(row_major, plain, plain, size(m), size(n), size(k), 1, a, 0, size(k),
                                        b, 0, size(n), 0, c, 0, size(n), &queue, nullptr);
              if (status != 0) throw Error(ErrorCode::device, fmt::format("CLBlastSgemm gives {}", status));
            },
            [this] { get<decltype(&clFinish)>("clFinish")(queue_); }};
  }

 private:
  template <class F>
  F get(const char* name) const {
    return reinterpret_cast<F>(cl_.find(name));
  }
  using Sgemm = int (*)(int, int, int, size_t, size_t, size_t, float, cl_mem, size_t, size_t, cl_mem, size_t,
                        size_t, float, cl_mem, size_t, size_t, cl_command_queue*, cl_event*);
  os::Library blas_, cl_;
  Sgemm sgemm_ = nullptr;
  cl_device_id device_ = nullptr;
  cl_context context_ = nullptr;
  cl_command_queue queue_ = nullptr;
};

std::string rate(double flops, double seconds) { return fmt::format("{:7.1f}", flops / seconds * 1e-9); }

void bench_gemm(const Settings& settings) {
  const Device device = parse_device(settings.device), cpu = parse_device("cpu");
  Clblast clblast;
  fmt::print("{:>12} {:>9} {:>9} {:>9} {:>10} {:>10}   kernel\n", "GFLOP/s", settings.device, "CPU",
             "CLBlast", "of CPU's", "of CLBlast");
  for (const int64_t n : {512, 768, 1024, 1536, 2048}) {
    std::vector<Contestant> all = {contestant(device, gemm_request(n, n, n)),
                                   contestant(cpu, gemm_request(n, n, n))};
    if (clblast.there()) all.push_back(clblast.product(n, n, n));
    take_turns(all, settings.rounds);
    const double flops = 2.0 * static_cast<double>(n * n * n);
    const double own = median(all[0].seconds), host = median(all[1].seconds);
    const double other = clblast.there() ? median(all[2].seconds) : NAN;
    fmt::print("{:>11}³ {:>9} {:>9} {:>9} {:>10.2f} {:>10.1f}   {}; {}\n", n, rate(flops, own),
               rate(flops, host), rate(flops, other), host / own, other / own, all[0].name, all[1].name);
    std::cout.flush();
  }
}

void bench_conv(const Settings& settings) {
  std::optional<Trace> trace;
  if (settings.profile) trace.emplace();
  const Device device = parse_device(settings.device), cpu = parse_device("cpu");
  fmt::print("{:>39} {:>9} {:>9} {:>9}   kernel\n", "GFLOP/s (of a direct convolution)", settings.device,
             "CPU", "of CPU's");
  const ConvShape shapes[] = {{128, 32, 14, 64, 3, 1, 1},  {64, 64, 32, 64, 3, 1, 1},
                              {64, 64, 32, 128, 3, 2, 1},  {64, 128, 16, 128, 3, 1, 1},
                              {64, 128, 16, 256, 3, 2, 1}, {64, 256, 8, 256, 3, 1, 1},
                              {64, 256, 8, 512, 3, 2, 1},  {64, 512, 4, 512, 3, 1, 1}};
  for (const ConvShape& s : shapes)
    for (const Pass pass : {Pass::forward, Pass::input_grad, Pass::weight_grad}) {
      const std::string name = fmt::format("{} {}-{} {}x{}{}", conv_ops[static_cast<int>(pass)], s.c, s.o,
                                           s.size, s.size, s.stride > 1 ? " stride 2" : "");
      if (name.find(settings.only) == std::string::npos) continue;
      std::vector<Contestant> all = {contestant(device, conv_request(device, s, pass)),
                                     contestant(cpu, conv_request(cpu, s, pass))};
      take_turns(all, settings.rounds);
      const double own = median(all[0].seconds), host = median(all[1].seconds);
      fmt::print("{:>39} {:>9} {:>9} {:>9.2f}   {}; {}\n", name, rate(flops_of(s), own),
                 rate(flops_of(s), host), host / own, all[0].name, all[1].name);
      if (settings.profile) print_profile(all[0]);
      std::cout.flush();
    }
}

/// The least traffic to memory: `passes` reads or writes of as many bytes as x has. A row of [16384, 1000]
/// stays in a core's cache. The elements that batch norm reduces do not, so its statistics need extra passes.
struct Rows {
  std::string name;
  double passes;
  std::function<std::vector<Tensor>(const Tensor& x, const Tensor& other)> results;
};

void bench_rows(const Settings& settings) {
  std::optional<Trace> trace;
  if (settings.profile) trace.emplace();
  const Device device = parse_device(settings.device);
  const auto values = [&](const Shape& shape) {
    return Tensor(normal(shape, 0, 1, DType::f32, default_generator(), device).eval());
  };
  const auto along = [](const auto& f) {
    return [f](const Tensor& x, const Tensor& dy) {
      Tensor leaf = x.detach();
      leaf.requires_grad();
      return grad({f(leaf)}, {leaf}, {dy});
    };
  };
  const auto layer = [](const Tensor& x) { return layer_norm(x, 1); };
  const auto batch = [](const Tensor& x) { return batch_norm(x); };
  const auto soft = [](const Tensor& x) { return softmax(x, 1); };
  std::vector<int64_t> classes(16384);
  for (size_t i = 0; i < classes.size(); ++i) classes[i] = static_cast<int64_t>(i * 37 % 1000);
  const Tensor labels = Tensor::from<int64_t>(classes, {16384}, device);
  const auto loss = [&](const Tensor& x) { return cross_entropy(x, labels); };
  struct Problem {
    Shape shape;
    std::vector<Rows> rows;
  };
  const std::vector<Problem> problems = {
      {{16384, 1000},
       {{"sum of two (the bandwidth)", 3,
         [](const Tensor& x, const Tensor& dy) { return std::vector{x + dy}; }},
        {"sum of the rows", 1, [](const Tensor& x, const Tensor&) { return std::vector{sum(x, 0)}; }},
        {"layer norm", 2, [&](const Tensor& x, const Tensor&) { return std::vector{layer(x)}; }},
        {"layer norm, gradient", 3, along(layer)},
        {"softmax", 2, [&](const Tensor& x, const Tensor&) { return std::vector{soft(x)}; }},
        {"softmax, gradient", 3, along(soft)},
        {"cross-entropy", 1, [&](const Tensor& x, const Tensor&) { return std::vector{loss(x)}; }},
        {"cross-entropy, gradient", 2,
         [&](const Tensor& x, const Tensor&) {
           Tensor leaf = x.detach();
           leaf.requires_grad();
           return grad({loss(leaf)}, {leaf});
         }}}},
      {{64, 256, 32, 32},
       {{"batch norm", 3, [&](const Tensor& x, const Tensor&) { return std::vector{batch(x)}; }},
        {"batch norm, gradient", 6, along(batch)},
        {"ReLU's gradient and the bias's", 3, [](const Tensor& x, const Tensor& dy) {
           const Tensor dx = where(greater(x, 0), dy, 0);
           return std::vector{dx, sum(dx, {0, 2, 3})};
         }}}}};
  double bandwidth = 0;
  fmt::print("{:>28} {:>10} {:>8} {:>10} {:>9}\n", "f32", "ms", "passes", "GB/s", "of limit");
  for (const Problem& problem : problems) {
    const Tensor x = values(problem.shape), dy = values(problem.shape);
    for (const Rows& row : problem.rows) {
      if (bandwidth > 0 && row.name.find(settings.only) == std::string::npos) continue;
      std::vector<Contestant> one = {
          {row.name, [&] { eval(row.results(x, dy)); }, [&] { queue_of(device).finish(); }}};
      take_turns(one, settings.rounds);
      const double seconds = median(one[0].seconds);
      const double rate = row.passes * 4 * static_cast<double>(x.size()) / seconds;
      bandwidth = std::max(bandwidth, rate);
      fmt::print("{:>28} {:10.2f} {:8} {:10.1f} {:9.2f}\n", row.name, seconds * 1e3, row.passes, rate * 1e-9,
                 rate / bandwidth);
      if (settings.profile) print_profile(one[0]);
      std::cout.flush();
    }
  }
}

/// A problem's share of the device's roofline: peak arithmetic and memory bandwidth, each the best that any
/// problem of the sweep reached.
struct Swept {
  std::string name, kernel;
  double flops, bytes, seconds;
};

void report(const std::vector<Swept>& all) {
  double peak = 0, bandwidth = 0;
  for (const Swept& s : all) {
    peak = std::max(peak, s.flops / s.seconds);
    bandwidth = std::max(bandwidth, s.bytes / s.seconds);
  }
  std::map<int, std::vector<const Swept*>> classes;
  const auto efficiency = [&](const Swept& s) {
    return std::max(s.flops / peak, s.bytes / bandwidth) / s.seconds;
  };
  for (const Swept& s : all) classes[static_cast<int>(std::log10(s.flops))].push_back(&s);
  fmt::print("\nAt best {:.0f} GFLOP/s and {:.1f} GB/s. Efficiency is the share of that roofline.\n",
             peak * 1e-9, bandwidth * 1e-9);
  size_t cliffs = 0;
  for (auto& [decade, members] : classes) {
    std::vector<double> values;
    for (const Swept* s : members) values.push_back(efficiency(*s));
    const double middle = median(values);
    fmt::print("1e{} FLOP: {:3} problems, median {:.3f}, least {:.3f} = {:.2f} of the median\n", decade,
               members.size(), middle, std::ranges::min(values), std::ranges::min(values) / middle);
    for (const Swept* s : members)
      if (efficiency(*s) < middle / 5) {
        ++cliffs;
        fmt::print("  below a fifth: {} ({:.3f}; {})\n", s->name, efficiency(*s), s->kernel);
      }
  }
  fmt::print("{} of {} problems are below a fifth of the median of their size.\n", cliffs, all.size());
}

void bench_sweep(const Settings& settings) {
  const Device device = parse_device(settings.device);
  std::mt19937 random(settings.seed);
  const auto between = [&](double least, double most) {
    return static_cast<int64_t>(
        std::exp(std::uniform_real_distribution(std::log(least), std::log(most + 0.999))(random)));
  };
  std::vector<Swept> all;
  int drawn = 0;
  const auto run = [&](std::string name, const KernelRequest& request, double flops) {
    ++drawn;
    if (name.find(settings.only) == std::string::npos) return;
    std::vector<Contestant> one = {contestant(device, request)};
    take_turns(one, 3);
    double bytes = 4.0 * static_cast<double>(request.output().shape.size());
    for (const OperandDesc& input : request.inputs) bytes += 4.0 * static_cast<double>(input.shape.size());
    all.push_back({std::move(name), one[0].name, flops, bytes, median(one[0].seconds)});
    fmt::print("{:3}  {:48} {:>9} GFLOP/s  {}\n", drawn, all.back().name, rate(flops, all.back().seconds),
               one[0].name);
    std::cout.flush();
  };
  while (drawn < settings.count) {
    if (drawn % 2 == 0) {
      const int64_t m = between(1, 3000), n = between(1, 3000), k = between(1, 3000);
      const double flops = 2.0 * static_cast<double>(m * n * k);
      if (flops < 1e4 || flops > 4e9) continue;
      run(fmt::format("gemm {}x{}x{}", m, n, k), gemm_request(m, n, k), flops);
    } else {
      constexpr int64_t kernels[] = {1, 3, 3, 5, 7};
      ConvShape s{
          between(1, 64), between(1, 512), between(4, 64), between(1, 512), kernels[random() % 5], 1, 0};
      s.stride = random() % 3 == 0 ? 2 : 1;
      s.padding = s.kernel / 2;
      if (flops_of(s) < 1e4 || flops_of(s) > 4e9) continue;
      const auto pass = static_cast<Pass>(random() % 3);
      run(fmt::format("{} {}x{}x{}x{} to {} {}x{} / {}", conv_ops[static_cast<int>(pass)], s.n, s.c, s.size,
                      s.size, s.o, s.kernel, s.kernel, s.stride),
          conv_request(device, s, pass), flops_of(s));
    }
  }
  report(all);
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app("Times an OpenCL device's kernels beside oneDNN's and CLBlast's.");
  app.add_option("--device", settings.device, "The device");
  app.add_option("--rounds", settings.rounds, "Turns, of which the median counts")
      ->check(CLI::PositiveNumber);
  app.add_option("--only", settings.only, "Those with this in their name (conv, rows, sweep)");
  app.add_flag("--profile", settings.profile, "What each kernel takes (conv, rows)");
  app.add_option("--count", settings.count, "Problems of the sweep")->check(CLI::PositiveNumber);
  app.add_option("--seed", settings.seed, "Of the sweep's problems");
  app.fallthrough();
  app.require_subcommand(1);
  app.add_subcommand("gemm", "Products of square matrices")->callback([&] { bench_gemm(settings); });
  app.add_subcommand("conv", "ResNet-18's 3x3 convolutions")->callback([&] { bench_conv(settings); });
  app.add_subcommand("rows", "Norms, softmax, cross-entropy")->callback([&] { bench_rows(settings); });
  app.add_subcommand("sweep", "Random problems")->callback([&] { bench_sweep(settings); });
  try {
    CLI11_PARSE(app, argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "bench_opencl: " << error.what() << '\n';
    return 1;
  }
}
