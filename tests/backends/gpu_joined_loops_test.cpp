// Many generated loops in one launch on GPU devices: they give what the loops give one by one.
#include <algorithm>

#include "tests/backends/gpu_loops.h"
#include "tests/support/gpu_devices.h"

namespace athanor::testing {
namespace {

// x' = x + k a, with the same k for all elements.
LoopProgram scaled_sum(int64_t extent, DType type) {
  const bool single = extent == 0;  // a loop without dimensions
  const Ints along = single ? Ints{} : Ints{1}, fixed = single ? Ints{} : Ints{0};
  Builder b(single ? Ints{} : Ints{extent});
  const int x = b.load(0, type, along), a = b.load(1, type, along), k = b.load(2, DType::f32, fixed, 3);
  const int ka = b.op(Prim::mul, DType::f32, k, a);
  b.store(b.op(Prim::add, DType::f32, x, ka), 3, type, along);
  return b.p;
}

// y = k sum(x a) + max(x), and the sum.
LoopProgram scaled_products(int64_t extent, DType type) {
  Builder b({extent}, {true});
  const DType in = Builder::register_type(type);
  const int x = b.load(0, type, {1}), xa = b.op(Prim::mul, in, x, b.load(1, type, {1}));
  const int sum = b.reduce(Prim::sum, xa, in), most = b.reduce(Prim::reduce_max, x, in);
  const int k = b.load(2, in, {0}, 3);
  b.store(b.op(Prim::add, in, b.op(Prim::mul, in, k, sum), most), 3, type, {0});
  b.store(sum, 4, in, {0}, 2);
  return b.p;
}

struct ManyLoops {
  std::vector<LoopProgram> programs;
  Memory start;
};

/// Loops of these extents (0: without dimensions). Buffers are numbered across all programs, and the third
/// one (k) is shared.
ManyLoops many_loops(DType type, const Ints& extents,
                     LoopProgram (*make)(int64_t extent, DType type) = scaled_sum) {
  std::mt19937 rng(5);
  ManyLoops all;
  for (const int64_t extent : extents) {
    LoopProgram p = make(extent, type);
    Memory own = memory_for(p, rng);
    std::vector<int> number;
    for (size_t b = 0; b < own.data.size(); ++b) {
      const bool shared = b == 2 && !all.programs.empty();
      number.push_back(shared ? 2 : static_cast<int>(all.start.data.size()));
      if (!shared) all.start.data.push_back(own.data[b]);
    }
    for (LoopOperand& o : p.operands) o.buffer = number[static_cast<size_t>(o.buffer)];
    all.programs.push_back(std::move(p));
  }
  for (LoopProgram& p : all.programs) p.buffers = static_cast<int>(all.start.data.size());
  return all;
}

/// The device's, those without tables of buffers, the other grain's, and the latter's with vectors.
std::vector<GpuTraits> grains_of(const gpu::GpuDevice& device) {
  GpuTraits apart = device.facts().traits, other = apart;
  apart.buffer_tables = false;
  other.grain = other_grain(other.grain);
  return {device.facts().traits, apart, other, with_vectors(other)};
}

/// Checks that one launch computes what the loops do one by one.
void check_joined(gpu::GpuDevice& device, const ManyLoops& all) {
  Memory want = all.start;
  for (const LoopProgram& p : all.programs)
    want = run_on(device, gpu_loop_candidates(p, device.facts().traits).front(), want);
  for (const GpuTraits& traits : grains_of(device)) {
    const Memory got = run_on(device, gpu_joined_loops(all.programs, traits), all.start);
    for (size_t b = 0; b < want.data.size(); ++b) EXPECT_EQ(got.data[b], want.data[b]) << "buffer " << b;
  }
}

std::string joined_source(const ManyLoops& all, const GpuTraits& traits) {
  return gpu_joined_loops(all.programs, traits).launches.front().source;
}

TEST(GpuLoops, ManyInOneLaunchAreThoseOneByOne) {
  ATHANOR_NEEDS_GPU();
  for (const DType type : {DType::f32, DType::bf16}) {
    const ManyLoops all = many_loops(type, {0, 70001, 1, 3, 17, 256, 1000, 4097, 129});
    for (const DeviceInfo& info : gpu_devices()) {
      gpu::GpuDevice& device = gpu::gpu_device(info.device);
      EXPECT_NE(joined_source(all, grains_of(device).back()).find("READ_ALIGNED("), std::string::npos);
      check_joined(device, all);
    }
  }
}

// Loop i updates the i-th buffer by two of four others. A table has these for each loop; 170 loops fill it.
TEST(GpuLoops, ManyLoopsFitATableOfBuffersOrNot) {
  ATHANOR_NEEDS_GPU();
  for (const int count : {170, 171}) {
    ManyLoops all = many_loops(DType::f32, Ints(static_cast<size_t>(count), 5));
    for (int i = 0; i < count; ++i)
      for (LoopOperand& o : all.programs[static_cast<size_t>(i)].operands) {
        const int first =
            i == 0 ? 0 : 1 + 3 * i;  // of this loop's own buffers; the third is the first loop's
        o.buffer = o.buffer == first + 1 ? count + i % 2 : o.buffer == 2 ? count + 2 + i / 2 % 2 : i;
      }
    all.start.data.resize(static_cast<size_t>(count) + 4);
    for (LoopProgram& p : all.programs) p.buffers = count + 4;
    Memory want = all.start;
    for (const LoopProgram& p : all.programs) reference::Interpreter(p, want.addresses()).run();
    for (const DeviceInfo& info : gpu_devices()) {
      gpu::GpuDevice& device = gpu::gpu_device(info.device);
      const GpuTraits& traits = device.facts().traits;
      if (traits.max_buffers < count + 4) continue;
      EXPECT_EQ(joined_source(all, traits).find("BUFFERS(") != std::string::npos,
                traits.buffer_tables && count == 170);
      const Memory got = run_on(device, gpu_joined_loops(all.programs, traits), all.start);
      for (const LoopProgram& p : all.programs) expect_close(p, got, want, 1e-6, std::to_string(count));
    }
  }
}

TEST(GpuLoops, ManyReductionsInOneLaunchAreThoseOneByOne) {
  ATHANOR_NEEDS_GPU();
  for (const DType type : {DType::f32, DType::bf16, DType::i32}) {
    const ManyLoops all = many_loops(type, {1, 4096, 3, 17, 256, 1000, 129}, scaled_products);
    Memory want = all.start;
    for (const LoopProgram& p : all.programs) reference::Interpreter(p, want.addresses()).run();
    for (const DeviceInfo& info : gpu_devices()) {
      gpu::GpuDevice& device = gpu::gpu_device(info.device);
      for (GpuTraits traits : grains_of(device)) {
        traits.max_group_size = std::min<int64_t>(48, traits.max_group_size);  // not a power of two
        const Memory got = run_on(device, gpu_joined_loops(all.programs, traits), all.start);
        for (const LoopProgram& p : all.programs)
          expect_close(p, got, want, 1e-4, std::to_string(p.iterations()) + " of " + to_string(type).data());
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Loops that fill their groups, as counters of a single number do, need no branch. Before a branch Clang
// keeps a comparison for every loop, and of many loops it spilled some.
TEST(GpuLoops, LoopsThatFillTheirGroupsHaveNoBranch) {
  ATHANOR_NEEDS_GPU();
  const ManyLoops filling = many_loops(DType::f32, {0, 1, 1, 0}), mixed = many_loops(DType::f32, {2, 1, 2});
  for (const DeviceInfo& info : gpu_devices()) {
    gpu::GpuDevice& device = gpu::gpu_device(info.device);
    check_joined(device, filling);
    check_joined(device, mixed);
    for (const GpuTraits& traits : grains_of(device)) {
      EXPECT_EQ(joined_source(filling, traits).find("size"), std::string::npos);
      EXPECT_NE(joined_source(mixed, traits).find("size"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace athanor::testing
