// Fused loops on the CPU, from the L1 cache to main memory. `of_stream` is the kernel's bandwidth divided by
// that of STREAM's triad (McCalpin). The two run in turn, on as many threads; the triad's arrays are in main
// memory. The best times count, as in STREAM.
//
//   bench_loops --benchmark_filter=update
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "athanor/backends/cpu/loops/loop_kernel.h"

#ifdef _OPENMP
#include <omp.h>
#endif

namespace {

using namespace athanor;
using Clock = std::chrono::steady_clock;

int thread_count() {
#ifdef _OPENMP
  return omp_get_max_threads();
#else
  return 1;
#endif
}

/// Loads, steps and stores of f32 over [space].
struct Program {
  LoopProgram p;
  bool in_epilogue = false;
  explicit Program(Ints space, std::vector<bool> reduced = {}) {
    p.reduced = reduced.empty() ? std::vector<bool>(space.size()) : std::move(reduced);
    p.space = std::move(space);
  }
  int add(LoopStep s) {
    (in_epilogue ? p.epilogue : p.body).push_back(std::move(s));
    return static_cast<int>(p.body.size() + p.reductions.size() + p.epilogue.size()) - 1;
  }
  int operand(Ints strides) {
    p.operands.push_back({p.buffers++, DType::f32, 0, std::move(strides)});
    return static_cast<int>(p.operands.size()) - 1;
  }
  int load(Ints strides) {
    LoopStep s;
    s.kind = LoopStep::Kind::load;
    s.operand = operand(std::move(strides));
    return add(s);
  }
  int constant(double v) {
    LoopStep s;
    s.kind = LoopStep::Kind::constant;
    s.value = v;
    return add(s);
  }
  int op(Prim prim, int a, int b = -1, int c = -1) {
    LoopStep s;
    s.prim = prim;
    s.type = prim == Prim::less ? DType::b8 : DType::f32;
    s.a = a;
    s.b = b;
    s.c = c;
    return add(s);
  }
  int sum(int source) {
    p.reductions.push_back({Prim::sum, source, DType::f32});
    in_epilogue = true;
    return static_cast<int>(p.body.size() + p.reductions.size()) - 1;
  }
  void store(int source, Ints strides) {
    const int o = operand(std::move(strides));
    (in_epilogue ? p.epilogue_stores : p.stores).push_back({source, o});
  }
  void store_over(int source, int load_operand) { p.stores.push_back({source, load_operand}); }
};

/// Memory for the operands, and the bytes of it that a run reads and writes.
struct Buffers {
  std::vector<std::unique_ptr<float, decltype(&std::free)>> data;  // aligned to cache lines, like tensors
  std::vector<void*> addresses;
  double bytes = 0;
  explicit Buffers(const LoopProgram& p) {
    addresses.resize(static_cast<size_t>(p.buffers));
    const auto touch = [&](int operand) {
      const LoopOperand& o = p.operands[static_cast<size_t>(operand)];
      int64_t last = 0, elements = 1;
      for (size_t d = 0; d < p.space.size(); ++d) {
        last += o.strides[d] * (p.space[d] - 1);
        if (o.strides[d] != 0) elements *= p.space[d];
      }
      void*& address = addresses[static_cast<size_t>(o.buffer)];
      if (address == nullptr) {
        const size_t lines = (static_cast<size_t>(last) + 16) / 16;
        data.emplace_back(static_cast<float*>(std::aligned_alloc(64, lines * 64)), &std::free);
        std::fill_n(data.back().get(), lines * 16, 0.5F);
        address = data.back().get();
      }
      bytes += 4 * static_cast<double>(elements);
    };
    for (const LoopStep& s : p.body)
      if (s.kind == LoopStep::Kind::load) touch(s.operand);
    for (const LoopStore& s : p.stores) touch(s.operand);
    for (const LoopStep& s : p.epilogue)
      if (s.kind == LoopStep::Kind::load) touch(s.operand);
    for (const LoopStore& s : p.epilogue_stores) touch(s.operand);
  }
};

double seconds(Clock::time_point since) {
  return std::chrono::duration<double>(Clock::now() - since).count();
}
/// a = b + 3 c as in STREAM: doubles, static partition, without counting the read before a write. Returns
/// bytes / s.
double triad() {
  constexpr int64_t n = 8 << 20;
  static std::vector<double> a(n, 1), b(n, 2), c(n, 3);
  const auto start = Clock::now();
#ifdef _OPENMP
#pragma omp parallel for schedule(static)
#endif
  for (int64_t i = 0; i < n; ++i)
    a[static_cast<size_t>(i)] = b[static_cast<size_t>(i)] + 3.0 * c[static_cast<size_t>(i)];
  benchmark::DoNotOptimize(a.data());
  return 3 * 8 * static_cast<double>(n) / seconds(start);
}

void run(benchmark::State& state, const Program& program) {
  const LoopKernel kernel(program.p);
  Buffers buffers(program.p);
  const int threads = thread_count();
  const bool in_memory = buffers.bytes > 48e6;
  if (in_memory) {
    double stream = 0, best = 0;
    for (auto _ : state) {
      stream = std::max(stream, triad());
      const auto start = Clock::now();
      kernel.run(buffers.addresses, threads);
      const double time = seconds(start);
      best = std::max(best, buffers.bytes / time);
      state.SetIterationTime(time);
    }
    state.counters["of_stream"] = best / stream;
    state.counters["stream_GB/s"] = stream / 1e9;
    state.counters["GB/s"] = best / 1e9;
  } else {
    for (int k = 0; k < 10; ++k) kernel.run(buffers.addresses, threads);
    for (auto _ : state) {
      const auto start = Clock::now();
      constexpr int repeats = 20;
      for (int k = 0; k < repeats; ++k) kernel.run(buffers.addresses, threads);
      state.SetIterationTime(seconds(start) / repeats);
    }
    state.counters["GB/s"] =
        benchmark::Counter(buffers.bytes / 1e9, benchmark::Counter::kIsIterationInvariantRate);
  }
  state.SetLabel(kernel.description());
}

Program add(int64_t n) {
  Program b({n});
  b.store(b.op(Prim::add, b.load({1}), b.load({1})), {1});
  return b;
}
Program axpy(int64_t n) {
  Program b({n});
  const int a = b.load({0}), x = b.load({1}), y = b.load({1});
  b.store(b.op(Prim::add, b.op(Prim::mul, a, x), y), {1});
  return b;
}
Program bias_relu(int64_t rows, int64_t columns) {
  Program b({rows, columns});
  const int x = b.load({columns, 1}), bias = b.load({0, 1});
  b.store(b.op(Prim::max, b.op(Prim::add, x, bias), b.constant(0)), {columns, 1});
  return b;
}
Program relu_gradient(int64_t n) {
  Program b({n});
  const int y = b.load({1}), g = b.load({1}), zero = b.constant(0);
  b.store(b.op(Prim::where, b.op(Prim::less, zero, y), g, zero), {1});
  return b;
}
/// v = mu v + g + wd p; p = p - lr v: in place.
Program sgd_update(int64_t n) {
  Program b({n});
  const int p = b.load({1}), v = b.load({1}), g = b.load({1}), lr = b.load({0});
  const int decayed = b.op(Prim::add, g, b.op(Prim::mul, b.constant(1e-4), p));
  const int next = b.op(Prim::add, b.op(Prim::mul, b.constant(0.9), v), decayed);
  b.store_over(b.op(Prim::sub, p, b.op(Prim::mul, lr, next)), 0);
  b.store_over(next, 1);
  return b;
}
Program adam_update(int64_t n) {
  Program b({n});
  const int p = b.load({1}), m = b.load({1}), v = b.load({1}), g = b.load({1}), lr = b.load({0});
  const auto blend = [&](int old, double keep, int fresh) {
    return b.op(Prim::add, b.op(Prim::mul, b.constant(keep), old),
                b.op(Prim::mul, b.constant(1 - keep), fresh));
  };
  const int m2 = blend(m, 0.9, g), v2 = blend(v, 0.999, b.op(Prim::mul, g, g));
  const int step = b.op(Prim::div, m2, b.op(Prim::add, b.op(Prim::sqrt, v2), b.constant(1e-8)));
  b.store_over(b.op(Prim::sub, p, b.op(Prim::mul, lr, step)), 0);
  b.store_over(m2, 1);
  b.store_over(v2, 2);
  return b;
}
Program gelu(int64_t n) {
  Program b({n});
  const int x = b.load({1});
  const int e = b.op(Prim::erf, b.op(Prim::mul, x, b.constant(0.70710678)));
  b.store(b.op(Prim::mul, b.op(Prim::mul, x, b.constant(0.5)), b.op(Prim::add, e, b.constant(1))), {1});
  return b;
}
/// GPT-2's, with tanh instead of erf; its gradient uses the tanh.
Program gelu_tanh(int64_t n) {
  Program b({n});
  const int x = b.load({1});
  const int cube = b.op(Prim::mul, b.op(Prim::mul, x, x), x);
  const int inner = b.op(Prim::add, x, b.op(Prim::mul, cube, b.constant(0.044715)));
  const int t = b.op(Prim::tanh, b.op(Prim::mul, inner, b.constant(0.79788456)));
  b.store(t, {1});
  b.store(b.op(Prim::mul, b.op(Prim::mul, x, b.constant(0.5)), b.op(Prim::add, t, b.constant(1))), {1});
  return b;
}
Program tanh(int64_t n) {
  Program b({n});
  b.store(b.op(Prim::tanh, b.load({1})), {1});
  return b;
}
/// (x - mean) * scale + shift for [N, C/16, HW, 16].
Program normalise_blocked(int64_t n, int64_t c, int64_t hw) {
  Program b({n, c / 16, hw, 16});
  const Ints dense{c * hw, hw * 16, 16, 1}, channel{0, 16, 0, 1};
  const int x = b.load(dense), mean = b.load(channel), scale = b.load(channel), shift = b.load(channel);
  b.store(b.op(Prim::add, b.op(Prim::mul, b.op(Prim::sub, x, mean), scale), shift), dense);
  return b;
}
Program transpose(int64_t rows, int64_t columns) {
  Program b({rows, columns});
  b.store(b.load({1, rows}), {columns, 1});
  return b;
}
Program row_sums(int64_t rows, int64_t columns) {
  Program b({rows, columns}, {false, true});
  b.store(b.sum(b.load({columns, 1})), {1, 0});
  return b;
}
Program column_sums(int64_t rows, int64_t columns) {
  Program b({rows, columns}, {true, false});
  b.store(b.sum(b.load({columns, 1})), {0, 1});
  return b;
}
/// Sum and sum of squares over N and HW of [N, C, HW] or [N, C/16, HW, 16].
Program statistics(int64_t n, int64_t c, int64_t hw, bool blocked) {
  Program b = blocked ? Program({n, c / 16, hw, 16}, {true, false, true, false})
                      : Program({n, c, hw}, {true, false, true});
  const Ints kept = blocked ? Ints{0, 16, 0, 1} : Ints{0, 1, 0};
  const int x = b.load(blocked ? Ints{c * hw, hw * 16, 16, 1} : Ints{c * hw, hw, 1});
  const int x2 = b.op(Prim::mul, x, x);
  const int s = b.sum(x), s2 = b.sum(x2);
  b.store(s, kept);
  b.store(s2, kept);
  return b;
}

void of(const std::string& name, const Program& program) {
  benchmark::RegisterBenchmark(name.c_str(), [program](benchmark::State& s) { run(s, program); })
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond)
      ->MinTime(0.3);
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  for (int64_t n : {1280, 65536, 1 << 20, 16 << 20}) {
    of(fmt::format("add/{}", n), add(n));
    of(fmt::format("axpy/{}", n), axpy(n));
    of(fmt::format("bias_relu/{}", n), bias_relu(n / 512, 512));
    of(fmt::format("relu_gradient/{}", n), relu_gradient(n));
    of(fmt::format("sgd_update/{}", n), sgd_update(n));
    of(fmt::format("adam_update/{}", n), adam_update(n));
    of(fmt::format("gelu/{}", n), gelu(n));
    of(fmt::format("gelu_tanh/{}", n), gelu_tanh(n));
    of(fmt::format("tanh/{}", n), tanh(n));
    of(fmt::format("row_sums/{}", n), row_sums(n / 512, 512));
    of(fmt::format("column_sums/{}", n), column_sums(n / 512, 512));
  }
  of("bias_relu/128x10", bias_relu(128, 10));
  of("row_sums/128x10", row_sums(128, 10));
  of("column_sums/128x10", column_sums(128, 10));
  of("full_sum/16M", row_sums(1, 16 << 20));
  for (bool blocked : {false, true})
    for (int64_t hw : {1024, 64, 16})
      of(fmt::format("statistics{}/64x256x{}", blocked ? "_blocked" : "", hw),
         statistics(64, 256, hw, blocked));
  of("statistics_blocked/64x64x1024", statistics(64, 64, 1024, true));
  of("normalise_blocked/64x64x1024", normalise_blocked(64, 64, 1024));
  of("normalise_blocked/64x512x16", normalise_blocked(64, 512, 16));
  of("transpose/512x784", transpose(512, 784));
  of("transpose/4096x4096", transpose(4096, 4096));
  benchmark::RunSpecifiedBenchmarks();
}
