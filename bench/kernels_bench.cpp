// The CPU's kernels: every candidate of matrix multiplications and convolutions, beside oneDNN's sgemm called
// directly.
//
//   build/release/bench/bench_kernels --benchmark_filter=2048
//   build/release/bench/bench_kernels --benchmark_filter=innermost   # what the processor allows
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstring>
#include <map>

#include "athanor/backends/cpu/amx/products.h"
#include "athanor/backends/cpu/cpu_backend.h"
#include "athanor/backends/cpu/generic/gemm_products.h"
#include "athanor/backends/cpu/parallel.h"

#if ATHANOR_ONEDNN
#include <dnnl.h>
#endif

namespace athanor {
namespace {

const Op& op_of(const std::string& name, Prim prim = Prim::none) {
  static std::map<std::string, Op> ops;
  Op& op = ops[name];
  op.name = name, op.prim = prim;
  return op;
}

std::shared_ptr<Storage> buffer(size_t bytes) {
  auto storage = allocate(parse_device("cpu"), bytes);
  auto* words = static_cast<float*>(storage->address());
  for (size_t i = 0; i < bytes / sizeof(float); ++i) words[i] = static_cast<float>(i % 13) * 0.1F - 0.6F;
  return storage;
}

OperandDesc dense(const Shape& shape, Layout layout = {}) {
  return {DType::f32, shape, layout, contiguous_strides(shape)};
}

void run_kernel(benchmark::State& state, const Candidate& candidate, const KernelRequest& request,
                double flops) {
  std::vector<std::shared_ptr<Storage>> owners;
  std::vector<Binding> buffers;
  const auto add = [&](size_t bytes) {
    owners.push_back(buffer(bytes));
    buffers.push_back({owners.back().get(), 0});
  };
  for (const auto& input : request.inputs)
    add(static_cast<size_t>(input.shape.size()) * size_of(input.dtype));
  add(static_cast<size_t>(request.output().shape.size()) * size_of(request.output().dtype));
  if (candidate.scratch_bytes > 0) add(candidate.scratch_bytes);
  Queue& queue = queue_of(parse_device("cpu"));
  candidate.kernel->enqueue(queue, buffers);
  for (auto _ : state) candidate.kernel->enqueue(queue, buffers);
  if (flops > 0) {
    state.counters["FLOP/s"] = benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate);
  } else {
    state.SetBytesProcessed(state.iterations() * 2 * request.output().shape.size() *
                            static_cast<int64_t>(size_of(request.output().dtype)));
  }
}

void add_candidates(const std::string& name, const KernelRequest& request, double flops) {
  auto& cpu = dynamic_cast<CpuBackend&>(backend_of(parse_device("cpu")));
  for (const Candidate& candidate : cpu.candidates(0, request))
    benchmark::RegisterBenchmark((name + "/" + candidate.name).c_str(), [=](benchmark::State& state) {
      run_kernel(state, candidate, request, flops);
    })->UseRealTime();
}

/// C[m, n] = A B; `ta`, `tb`: A is [k, m] in memory, B is [n, k].
void add_matmul(const std::string& name, int64_t m, int64_t n, int64_t k, bool ta, bool tb) {
  KernelRequest request{&op_of("batch_matmul", Prim::batch_matmul),
                        {},
                        {dense({1, m, k}), dense({1, k, n})},
                        {dense({1, m, n})},
                        {}};
  if (ta) request.inputs[0].strides = {m * k, 1, m};
  if (tb) request.inputs[1].strides = {k * n, 1, k};
  const double flops = 2.0 * static_cast<double>(m * n * k);
  const std::string title = fmt::format("matmul {} {}x{}x{}", name, m, n, k);
  add_candidates(title, request, flops);
#if ATHANOR_ONEDNN
  benchmark::RegisterBenchmark((title + "/dnnl_sgemm called directly").c_str(), [=](benchmark::State& state) {
    const auto a = buffer(static_cast<size_t>(m * k) * 4), b = buffer(static_cast<size_t>(k * n) * 4),
               c = buffer(static_cast<size_t>(m * n) * 4);
    for (auto _ : state)
      dnnl_sgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', m, n, k, 1, static_cast<float*>(a->address()), ta ? m : k,
                 static_cast<float*>(b->address()), tb ? k : n, 0, static_cast<float*>(c->address()), n);
    state.counters["FLOP/s"] = benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate);
  })->UseRealTime();
#endif
}

/// The three convolutions of a training step, in the layouts that the backend prefers.
void add_conv(const std::string& name, int64_t n, int64_t c, int64_t size, int64_t o, int64_t kernel,
              int64_t stride, int64_t padding) {
  auto& cpu = dynamic_cast<CpuBackend&>(backend_of(parse_device("cpu")));
  const int64_t out = (size + 2 * padding - kernel) / stride + 1;
  const Shape x{n, c, size, size}, w{o, c, kernel, kernel}, y{n, o, out, out};
  Attrs attrs = {{"stride", Ints{stride, stride}},
                 {"padding", Ints{padding, padding}},
                 {"dilation", Ints{1, 1}},
                 {"groups", int64_t{1}}};
  attrs.set("input_shape", x.to_ints());
  attrs.set("weight_shape", w.to_ints());
  const double flops = 2.0 * static_cast<double>(y.size() * c * kernel * kernel);
  const auto add = [&](const std::string& op, const Shape& first, const Shape& second, const Shape& result) {
    const std::vector<TensorType> inputs = {{DType::f32, first, {}}, {DType::f32, second, {}}};
    auto layouts = cpu.preferred_layouts(op_of(op), inputs, {DType::f32, result, {}}, attrs);
    layouts.resize(3);
    add_candidates(op + " " + name,
                   {&op_of(op),
                    attrs,
                    {dense(first, layouts[0]), dense(second, layouts[1])},
                    {dense(result, layouts[2])},
                    {}},
                   flops);
  };
  add("conv2d", x, w, y);
  add("conv2d_input_grad", y, w, x);
  add("conv2d_weight_grad", x, y, w);
}

void add_pools(const Shape& x) {
  const Attrs attrs = {{"kernel", Ints{2, 2}},
                       {"stride", Ints{2, 2}},
                       {"padding", Ints{0, 0}},
                       {"count_include_pad", true},
                       {"input_shape", x.to_ints()}};
  const Shape y{x[0], x[1], x[2] / 2, x[3] / 2};
  for (const int block : {0, 16}) {
    const std::string suffix = " " + to_string(x) + " " + to_string(Layout{block});
    add_candidates("max_pool2d" + suffix,
                   {&op_of("max_pool2d"), attrs, {dense(x, {block})}, {dense(y, {block})}, {}}, 0);
    add_candidates(
        "max_pool2d_grad" + suffix,
        {&op_of("max_pool2d_grad"), attrs, {dense(x, {block}), dense(y, {block})}, {dense(x, {block})}, {}},
        0);
    add_candidates("avg_pool2d_grad" + suffix,
                   {&op_of("avg_pool2d_grad"), attrs, {dense(y, {block})}, {dense(x, {block})}, {}}, 0);
  }
  add_candidates("reorder to nChw16c", {&op_of("reorder"), {}, {dense(x)}, {dense(x, {16})}, {}}, 0);
  add_candidates("reorder to row-major", {&op_of("reorder"), {}, {dense(x, {16})}, {dense(x)}, {}}, 0);
}

#ifdef __x86_64__
// Each instruction adds products to another of twelve registers, so that none waits for the one before.
#define ATHANOR_FMA_LOOP(name, target_name, vector)                                                   \
  __attribute__((target(target_name))) void name(int64_t rounds) {                                    \
    vector s0{}, s1{}, s2{}, s3{}, s4{}, s5{}, s6{}, s7{}, s8{}, s9{}, s10{}, s11{};                  \
    vector factor = vector{} + 0.5F;                                                                  \
    for (int64_t i = 0; i < rounds; ++i)                                                              \
      asm volatile(                                                                                   \
          "vfmadd231ps %12, %12, %0\nvfmadd231ps %12, %12, %1\nvfmadd231ps %12, %12, %2\n"            \
          "vfmadd231ps %12, %12, %3\nvfmadd231ps %12, %12, %4\nvfmadd231ps %12, %12, %5\n"            \
          "vfmadd231ps %12, %12, %6\nvfmadd231ps %12, %12, %7\nvfmadd231ps %12, %12, %8\n"            \
          "vfmadd231ps %12, %12, %9\nvfmadd231ps %12, %12, %10\nvfmadd231ps %12, %12, %11\n"          \
          : "+v"(s0), "+v"(s1), "+v"(s2), "+v"(s3), "+v"(s4), "+v"(s5), "+v"(s6), "+v"(s7), "+v"(s8), \
            "+v"(s9), "+v"(s10), "+v"(s11)                                                            \
          : "v"(factor));                                                                             \
  }
typedef float Floats8 __attribute__((vector_size(32)));
typedef float Floats16 __attribute__((vector_size(64)));
ATHANOR_FMA_LOOP(multiply_8, "avx2,fma", Floats8)
ATHANOR_FMA_LOOP(multiply_16, "avx512f", Floats16)

/// What the registers allow: multiplications and additions alone, in all threads.
void add_fma_loop(const std::string& name, void (*loop)(int64_t), int64_t lanes) {
  benchmark::RegisterBenchmark(("innermost loop/FMA of registers, " + name).c_str(), [=](benchmark::State&
                                                                                             state) {
    constexpr int64_t rounds = 1000000, registers = 12;
    const int64_t threads = cpu_threads();
    for (auto _ : state)
      cpu::parallel_for(threads, threads * rounds, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) loop(rounds);
      });
    state.counters["FLOP/s"] =
        benchmark::Counter(2.0 * static_cast<double>(threads * rounds * registers * lanes),
                           benchmark::Counter::kIsIterationInvariantRate);
  })->UseRealTime();
}
#endif

/// What the processor allows: the innermost loop of our own products alone, in all threads, all of it in
/// first-level caches.
template <class T, class Products>
void add_innermost_loop(const std::string& name, int64_t depth) {
  benchmark::RegisterBenchmark(("innermost loop/" + name).c_str(), [=](benchmark::State& state) {
    const Products products;
    constexpr int64_t tiles = 1000;
    const int64_t rows = products.rows(), columns = products.columns(), threads = cpu_threads();
    const auto bytes = [](int64_t elements, size_t size) { return static_cast<size_t>(elements) * size; };
    using Packed = typename Products::Packed;
    struct Thread {
      std::shared_ptr<Storage> a, b, c;
    };
    std::vector<Thread> memory;
    for (int64_t i = 0; i < threads; ++i)
      memory.push_back({buffer(bytes(Products::packed_size(rows, depth), sizeof(Packed))),
                        buffer(bytes(Products::packed_size(columns, depth), sizeof(Packed))),
                        buffer(bytes(rows * columns, sizeof(T)))});
    const auto in_thread = [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const Thread& own = memory[static_cast<size_t>(i)];
        cpu::GemmTile<T> tile{};
        tile.rows = rows, tile.columns = columns, tile.stride = tile.result_stride = columns;
        tile.results = static_cast<T*>(own.c->address());
        if constexpr (Products::sums_in_c) tile.sums = tile.results;
        typename Products::Multiplier multiplier(products);
        for (int64_t t = 0; t < tiles; ++t)
          multiplier.run(tile, depth, static_cast<const Packed*>(own.a->address()),
                         static_cast<const Packed*>(own.b->address()));
        benchmark::DoNotOptimize(multiplier.finish());
      }
    };
    for (auto _ : state) cpu::parallel_for(threads, tiles * threads * 1024, in_thread);
    state.counters["FLOP/s"] =
        benchmark::Counter(2.0 * static_cast<double>(tiles * threads * rows * columns * depth),
                           benchmark::Counter::kIsIterationInvariantRate);
  })->UseRealTime();
}

[[maybe_unused]] const bool added = [] {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) add_fma_loop("AVX2", multiply_8, 8);
  if (__builtin_cpu_supports("avx512f")) add_fma_loop("AVX-512", multiply_16, 16);
#endif
  add_innermost_loop<float, cpu::VectorProducts<float>>("f32 by vectors", 128);
#if ATHANOR_HAS_AMX
  if (cpu::has_amx()) {
    add_innermost_loop<float, cpu::AmxProducts<float>>("f32 by AMX, 3 bf16 parts", 96);
    add_innermost_loop<bf16, cpu::AmxProducts<bf16>>("bf16 by AMX", 256);
  }
#endif
  add_matmul("square", 2048, 2048, 2048, false, false);
  add_matmul("MLP layer 1", 128, 512, 784, false, true);
  add_matmul("MLP layer 2", 128, 512, 512, false, true);
  add_matmul("MLP layer 3", 128, 10, 512, false, true);
  add_matmul("MLP weight gradient 1", 512, 784, 128, true, false);
  add_matmul("MLP weight gradient 2", 512, 512, 128, true, false);
  add_matmul("MLP weight gradient 3", 10, 512, 128, true, false);
  add_matmul("MLP input gradient 2", 128, 512, 512, false, false);
  add_matmul("MLP input gradient 3", 128, 512, 10, false, false);
  // A transformer's block: 16 texts of 128 tokens, 256 dimensions.
  add_matmul("transformer up", 2048, 1024, 256, false, true);
  add_matmul("transformer down", 2048, 256, 1024, false, true);
  add_matmul("transformer up, input gradient", 2048, 256, 1024, false, false);
  add_matmul("transformer up, weight gradient", 1024, 256, 2048, true, false);
  add_conv("CNN 1", 128, 1, 28, 32, 3, 1, 1);
  add_conv("CNN 2", 128, 32, 14, 64, 3, 1, 1);
  add_conv("ResNet stem", 64, 3, 32, 64, 3, 1, 1);
  add_conv("ResNet 64", 64, 64, 32, 64, 3, 1, 1);
  add_conv("ResNet 64-128", 64, 64, 32, 128, 3, 2, 1);
  add_conv("ResNet 128", 64, 128, 16, 128, 3, 1, 1);
  add_conv("ResNet 256", 64, 256, 8, 256, 3, 1, 1);
  add_conv("ResNet 512", 64, 512, 4, 512, 3, 1, 1);
  add_conv("ResNet 64-128 1x1", 64, 64, 32, 128, 1, 2, 0);
  add_pools({128, 32, 28, 28});
  return true;
}();

}  // namespace
}  // namespace athanor

BENCHMARK_MAIN();
