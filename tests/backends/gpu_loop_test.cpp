// Generated loops on GPU devices against a plain interpreter, in shapes for a CPU and in shapes for
// GPUs.
#include <algorithm>
#include <limits>

#include "tests/backends/gpu_loops.h"
#include "tests/support/gpu_devices.h"

namespace athanor::testing {
namespace {

void check_on(gpu::GpuDevice& device, const LoopProgram& program, const Memory& start, double tolerance) {
  Memory want = start;
  reference::Interpreter(program, want.addresses()).run();
  GpuTraits gpu = device.facts().traits;
  gpu.grain = other_grain(gpu.grain);
  gpu.max_group_size = std::min<int64_t>(48, gpu.max_group_size);  // some have 384: not a power of two
  gpu.compute_units = 4;
  for (const GpuTraits& traits : {device.facts().traits, gpu})
    for (const GpuCandidate& candidate : gpu_loop_candidates(program, traits)) {
      std::string description = candidate.name;
      for (const auto& [name, value] : candidate.parameters)
        description += " " + name + "=" + std::to_string(value);
      expect_close(program, run_on(device, candidate, start), want, tolerance, description);
      if (::testing::Test::HasFatalFailure()) return;
    }
}

/// `width`: the elements that an item moves together; 1 if it cannot move several. `items`: of a group, at
/// most.
void check_vectors(const LoopProgram& program, int64_t width, double tolerance = 2e-4, double low = -2,
                   double high = 2, int64_t items = 256) {
  std::mt19937 rng(11);
  const Memory start = memory_for(program, rng, low, high);
  Memory want = start;
  reference::Interpreter(program, want.addresses()).run();
  for (const DeviceInfo& info : gpu_devices()) {
    gpu::GpuDevice& device = gpu::gpu_device(info.device);
    GpuTraits traits = with_vectors(device.facts().traits);
    traits.max_group_size = std::min(items, traits.max_group_size);
    const GpuCandidate candidate = gpu_loop_candidates(program, traits).front();
    const std::string& source = candidate.launches.front().source;
    const std::string loop = "UNROLL for (int e = 0; e < ";
    EXPECT_EQ(source.find(width > 1 ? loop + std::to_string(width) + ";" : loop) != std::string::npos,
              width > 1)
        << source;
    for (const LoopStore& store : program.stores) {
      const LoopOperand& to = program.operands[static_cast<size_t>(store.operand)];
      if (width > 1 && to.strides.back() == 1 && (to.dtype == DType::f16 || to.dtype == DType::bf16)) {
        EXPECT_NE(source.find("PACKED("), std::string::npos) << "it rounds one by one: " << source;
      }
    }
    expect_close(program, run_on(device, candidate, start), want, tolerance, source);
  }
}

void check_everywhere(const LoopProgram& program, double tolerance = 2e-4, double low = -2, double high = 2) {
  std::mt19937 rng(7);
  const Memory start = memory_for(program, rng, low, high);
  for (const DeviceInfo& info : gpu_devices()) {
    check_on(gpu::gpu_device(info.device), program, start, tolerance);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(GpuLoops, RandomProgramsMeanTheSame) {
  ATHANOR_NEEDS_GPU();
  std::mt19937 rng(2024);
  for (int k = 0; k < 30; ++k) {
    SCOPED_TRACE(k);
    check_everywhere(random_program(rng));
    if (HasFatalFailure()) return;
  }
}

TEST(GpuLoops, RandomProgramsOfVectorsMeanTheSame) {
  ATHANOR_NEEDS_GPU();
  std::mt19937 rng(2025);
  int vectors = 0;
  for (int k = 0; k < 60; ++k) {
    SCOPED_TRACE(k);
    const LoopProgram program = random_program(rng);
    Memory start = memory_for(program, rng, -2, 2), want = start;
    reference::Interpreter(program, want.addresses()).run();
    for (const DeviceInfo& info : gpu_devices()) {
      gpu::GpuDevice& device = gpu::gpu_device(info.device);
      const auto made = gpu_loop_candidates(program, with_vectors(device.facts().traits)).front();
      const std::string& source = made.launches.front().source;
      if (source.find("READ_ALIGNED(") == std::string::npos) continue;
      ++vectors;
      expect_close(program, run_on(device, made, start), want, 2e-4, source);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(vectors, 5);
}

TEST(GpuLoops, VectorsOfEveryDtype) {
  ATHANOR_NEEDS_GPU();
  struct Case {
    DType from, to;
    int64_t width;
  };
  const Case cases[] = {
      {DType::f32, DType::f32, 4},        {DType::f32, DType::bf16, 4}, {DType::bf16, DType::bf16, 8},
      {DType::f16, DType::f16, 8},        {DType::f16, DType::f32, 4},  {DType::f8e4m3, DType::bf16, 8},
      {DType::f8e5m2, DType::f8e4m3, 16}, {DType::i64, DType::i64, 2},  {DType::i32, DType::i32, 4},
      {DType::i8, DType::i8, 16},         {DType::u8, DType::u8, 16},   {DType::b8, DType::b8, 16}};
  for (const Case& one : cases) {
    SCOPED_TRACE(std::string(to_string(one.from)) + " to " + std::string(to_string(one.to)));
    Builder b({1003});  // the last vector is incomplete
    b.store(b.load(0, one.from, {1}), 1, one.to, {1});
    check_vectors(b.p, one.width, 0, is_float(one.from) ? -2 : 0, is_float(one.from) ? 2 : 100);
    if (HasFailure()) return;
  }
}

TEST(GpuLoops, VectorsOfDifferentDtypesAndBroadcasts) {
  ATHANOR_NEEDS_GPU();
  Builder b({3, 5, 64});
  const int x = b.load(0, DType::bf16, {320, 64, 1}), bias = b.load(1, DType::f32, {0, 0, 1}, 4);
  const int row = b.load(2, DType::f32, {0, 1, 0}, 1), one = b.load(3, DType::f32, {0, 0, 0});
  const int sum = b.op(Prim::add, DType::f32, x, b.op(Prim::mul, DType::f32, row, bias));
  const int flag = b.op(Prim::less, DType::b8, sum, one);
  const int number = b.op(Prim::cast, DType::f32, b.index({0, 0, 3}, 7));
  b.store_in_body(flag, 4, DType::b8, {320, 64, 1});
  b.store_in_body(b.op(Prim::where, DType::f32, flag, sum, number), 5, DType::bf16, {320, 64, 1});
  check_vectors(b.p, 4);
}

// A classifier's rows are odd: each starts elsewhere in a vector, and its last vector ends in the next row.
TEST(GpuLoops, VectorsOfOddRows) {
  ATHANOR_NEEDS_GPU();
  for (const int64_t offset : {0, 3}) {
    Builder b({9, 1029});
    const int x = b.load(0, DType::bf16, {1029, 1}, offset), row = b.load(1, DType::f32, {1, 0});
    b.store(b.op(Prim::sub, DType::f32, x, row), 2, DType::bf16, {1029, 1}, offset);
    check_vectors(b.p, 8);
  }
  Builder backwards({9, 1029});  // rows from the last to the first
  const int x = backwards.load(0, DType::bf16, {-1029, 1}, 8 * 1029);
  backwards.store(x, 1, DType::bf16, {-1029, 1}, 8 * 1029 + 16);
  check_vectors(backwards.p, 8);
  Builder few({50, 49});  // too much of each row would be cut off
  few.store(few.op(Prim::add, DType::f32, few.load(0, DType::f32, {49, 1}), few.load(1, DType::f32, {1, 0})),
            2, DType::f32, {49, 1});
  check_vectors(few.p, 1);
}

TEST(GpuLoops, VectorsWhereOperandsBeginElsewhere) {
  ATHANOR_NEEDS_GPU();
  struct Case {
    int64_t x, y, width;
  };
  for (const Case& one : {Case{3, 3, 8}, Case{8, 16, 8}, Case{2, 6, 4}, Case{1, 3, 2}, Case{1, 2, 1}}) {
    Builder b({2001});
    b.store(b.load(0, DType::bf16, {1}, one.x), 1, DType::bf16, {1}, one.y);
    check_vectors(b.p, one.width);
  }
  Builder padded({6, 128});  // rows of 132: each leaves half a vector of 8
  padded.store(padded.load(0, DType::bf16, {132, 1}), 1, DType::bf16, {128, 1});
  check_vectors(padded.p, 4);
}

TEST(GpuLoops, VectorsBesideOtherStrides) {
  ATHANOR_NEEDS_GPU();
  Builder b({1000});
  const int x = b.load(0, DType::f32, {1}), turned = b.load(1, DType::bf16, {-1}, 999);
  const int every = b.load(2, DType::f32, {3}, 1), sum = b.op(Prim::add, DType::f32, x, turned);
  b.store_in_body(sum, 3, DType::f32, {2});
  b.store_in_body(b.op(Prim::mul, DType::f32, sum, every), 4, DType::f32, {1});
  check_vectors(b.p, 4);
  Builder far({64, 64});  // transposed: each element is in another cache line
  far.store(far.load(0, DType::f32, {1, 64}), 1, DType::f32, {64, 1});
  check_vectors(far.p, 1);
}

TEST(GpuLoops, VectorsOfReducedRows) {
  ATHANOR_NEEDS_GPU();
  struct Case {
    Ints space;
    std::vector<bool> reduced;
    int64_t offset, width;
  };
  // Odd rows, whole rows, one row in parts, several reduced dimensions, rows that are too short.
  const Case cases[] = {{{9, 1029}, {false, true}, 3, 8},
                        {{64, 96}, {false, true}, 8, 8},
                        {{200003}, {true}, 1, 8},
                        {{6, 5, 64}, {true, false, true}, 4, 4},
                        {{50, 49}, {false, true}, 0, 1}};
  for (const Case& one : cases)
    for (const Prim prim : {Prim::sum, Prim::argmax}) {
      SCOPED_TRACE(one.space.front());
      Builder b(one.space, one.reduced);
      const int x = b.load(0, DType::bf16, dense(one.space), one.offset);
      if (prim == Prim::sum && one.offset % one.width == 0)  // otherwise both would start elsewhere
        b.store_in_body(b.op(Prim::abs, DType::f32, x), 2, DType::bf16, dense(one.space));
      const DType type = prim == Prim::sum ? DType::f32 : DType::i64;
      b.store(b.reduce(prim, x, type), 1, type, dense_kept(b.p));
      check_vectors(b.p, one.width, 2e-3);
      if (HasFailure()) return;
    }
}

TEST(GpuLoops, VectorsOfColumns) {
  ATHANOR_NEEDS_GPU();
  struct Case {
    Ints space;
    std::vector<bool> reduced;
    DType type;
    int64_t offset, width;
  };
  const DType bf16 = DType::bf16, f32 = DType::f32;
  // Columns that items and parts share, a few rows of many columns, columns between and beside reduced
  // dimensions; of other sizes; vectors that would be cut off.
  const Case cases[] = {{{3001, 64}, {true, false}, bf16, 8, 8},
                        {{7, 1000}, {true, false}, bf16, 0, 8},
                        {{5, 90, 16}, {false, true, false}, bf16, 0, 8},
                        {{6, 70, 3, 24}, {true, false, true, false}, bf16, 0, 8},
                        {{500, 20}, {true, false}, bf16, 4, 4},
                        {{500, 20}, {true, false}, f32, 0, 4},
                        {{500, 6}, {true, false}, f32, 2, 2},
                        {{300, 65}, {true, false}, bf16, 0, 1},
                        {{300, 64}, {true, false}, bf16, 3, 1}};
  for (const Case& one : cases)
    for (const Prim prim : {Prim::sum, Prim::argmax}) {
      if (prim == Prim::argmax && &one > &cases[2]) continue;  // each is a kernel to compile
      SCOPED_TRACE(::testing::PrintToString(one.space));
      Builder b(one.space, one.reduced);
      const int x = b.load(0, one.type, dense(one.space), one.offset);
      const DType type = prim == Prim::sum ? DType::f32 : DType::i64;
      b.store(b.reduce(prim, x, type), 1, type, dense_kept(b.p));
      check_vectors(b.p, one.width, 2e-3, -2, 2, 128);  // local memory has room for their lanes
      if (HasFailure()) return;
    }
}

// As in the gradients of a norm: numbers of columns that are held in f32, numbers of rows, a store of every
// element, and results that begin where no vector does.
TEST(GpuLoops, VectorsOfColumnsBesideTheirNumbers) {
  ATHANOR_NEEDS_GPU();
  const DType bf16 = DType::bf16, f32 = DType::f32;
  Builder b({2000, 96}, {true, false});
  const int x = b.load(0, bf16, {96, 1}), mean = b.load(1, f32, {0, 1}, 8), scale = b.load(2, f32, {0, 1}),
            of_row = b.load(3, f32, {1, 0}), every = b.load(4, f32, {0, 0});
  const int normal = b.op(Prim::mul, f32, b.op(Prim::sub, f32, x, mean), scale);
  const int y = b.op(Prim::add, f32, b.op(Prim::mul, f32, normal, of_row), every);
  b.store_in_body(y, 5, bf16, {96, 1});
  b.p.reductions = {{Prim::sum, y, f32}, {Prim::reduce_max, normal, f32}, {Prim::argmax, y, DType::i64}};
  b.in_epilogue = true;
  const int first = static_cast<int>(b.p.body.size());
  const int shifted = b.op(Prim::add, f32, first, b.load(6, f32, {0, 1}, 3));
  b.store(shifted, 7, f32, {0, 1}, 1);
  b.store(first + 1, 8, f32, {0, 1});
  b.store(first + 2, 9, DType::i64, {0, 1});
  check_vectors(b.p, 8, 2e-3, -2, 2, 64);
}

// Two numbers of a byte are no register: then there are no vectors of two.
TEST(GpuLoops, VectorsOfColumnsBesideBytes) {
  ATHANOR_NEEDS_GPU();
  for (const auto& [columns, width] : {std::pair<int64_t, int64_t>{6, 1}, {20, 4}}) {
    Builder b({500, columns}, {true, false});
    const int mask = b.load(1, DType::b8, {0, 1}), x = b.load(0, DType::f32, {columns, 1});
    const int kept = b.op(Prim::where, DType::f32, mask, x, b.constant(DType::f32, 0));
    b.store(b.reduce(Prim::sum, kept, DType::f32), 2, DType::f32, {0, 1});
    check_vectors(b.p, width, 2e-3, -2, 2, 64);
  }
}

TEST(GpuLoops, VectorsInPlace) {
  ATHANOR_NEEDS_GPU();
  Builder b({1001});
  const int x = b.load(0, DType::f32, {1}), g = b.load(1, DType::bf16, {1}),
            rate = b.load(2, DType::f32, {0});
  b.store(b.op(Prim::sub, DType::f32, x, b.op(Prim::mul, DType::f32, rate, g)), 0, DType::f32, {1});
  check_vectors(b.p, 4);
}

// Converts all codes to f32, and to the nearest code f32 values of all magnitudes and near all codes.
template <class F8>
void check_floats_of_eight_bits() {
  constexpr DType type = dtype_of<F8>;
  std::vector<float> floats;
  for (uint32_t bits = 0; bits < 0xfff00000; bits += 104729) floats.push_back(std::bit_cast<float>(bits));
  std::vector<F8> codes(256);
  for (int code = 0; code < 256; ++code) {
    codes[static_cast<size_t>(code)].bits = static_cast<uint8_t>(code);
    const auto value = static_cast<float>(codes[static_cast<size_t>(code)]);
    if (!std::isfinite(value)) continue;
    // The tie with the next code, if there is one, and the numbers around it.
    const auto next = static_cast<double>(std::nextafterf(std::abs(value), 1e9F)) - std::abs(value);
    for (const double step : {next, 0x1p-17, 0x1p-10})
      for (const float near : {value, std::nextafterf(value, 0.0F), std::nextafterf(value, 1e9F)})
        floats.push_back(near + static_cast<float>(std::copysign(step, value)));
    floats.push_back(value * 1.0625F), floats.push_back(value * 1.125F);
  }
  for (const float v : {0.0F, -0.0F, INFINITY, -INFINITY, NAN, 464.0F, -464.1F, 480.0F, 61439.9F, 61440.0F})
    floats.push_back(v);
  const auto bytes_of = [](const auto& values) {
    const auto* first = reinterpret_cast<const std::byte*>(values.data());
    return std::vector<std::byte>(first, first + values.size() * sizeof(values[0]));
  };
  Builder from({256}), to({std::ssize(floats)});
  from.store(from.load(0, type, {1}), 1, DType::f32, {1});
  to.store(to.load(0, DType::f32, {1}), 1, type, {1});
  for (const DeviceInfo& info : gpu_devices()) {
    gpu::GpuDevice& device = gpu::gpu_device(info.device);
    const auto run = [&](const LoopProgram& program, const Memory& start) {
      return run_on(device, gpu_loop_candidates(program, device.facts().traits).front(), start);
    };
    const Memory wide = run(from.p, {{bytes_of(codes), std::vector<std::byte>(256 * 4)}});
    const Memory narrow = run(to.p, {{bytes_of(floats), std::vector<std::byte>(floats.size())}});
    for (size_t code = 0; code < 256; ++code) {
      float got = 0;
      std::memcpy(&got, wide.data[1].data() + 4 * code, 4);
      const auto want = static_cast<float>(codes[code]);
      if (std::isnan(want))
        EXPECT_TRUE(std::isnan(got)) << code;
      else
        EXPECT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(want)) << code;
    }
    for (size_t i = 0; i < floats.size(); ++i) {
      const int got = std::to_integer<int>(narrow.data[1][i]), want = F8(floats[i]).bits;
      if (std::isnan(floats[i]))
        ASSERT_EQ(got & 0x7f, 0x7f);
      else
        ASSERT_EQ(got, want) << to_string(type) << " of " << floats[i];
    }
  }
}

TEST(GpuLoops, FloatsOfEightBitsConvertAsTheScalarTypes) {
  ATHANOR_NEEDS_GPU();
  check_floats_of_eight_bits<f8e4m3>();
  check_floats_of_eight_bits<f8e5m2>();
}

TEST(GpuLoops, ReductionsOfEveryKindShapeAndSplit) {
  ATHANOR_NEEDS_GPU();
  struct Case {
    Ints space;
    std::vector<bool> reduced;
  };
  // Reduced rows, columns, both among others, everything at once (split into parts), one element, nothing.
  const Case cases[] = {{{37, 129}, {false, true}},        {{129, 37}, {true, false}},
                        {{3, 50, 7}, {true, false, true}}, {{70001}, {true}},
                        {{20000, 3}, {true, false}},       {{1, 5}, {false, true}},
                        {{4, 0}, {false, true}},           {{2, 300, 65}, {false, true, false}}};
  for (const Case& one : cases)
    for (const Prim prim : {Prim::sum, Prim::prod, Prim::reduce_max, Prim::reduce_min})
      for (const DType type : {DType::f32, DType::i32}) {
        // Every kind in two shapes, and sums in every shape, because each is a kernel to compile.
        if (&one > &cases[1] && (prim != Prim::sum || type != DType::f32)) continue;
        Builder b(one.space, one.reduced);
        const int x = b.load(0, type, dense(one.space));
        const int r = b.reduce(prim, x, type);
        b.store(r, 1, type, dense_kept(b.p));
        check_everywhere(b.p, 1e-3, type == DType::i32 ? -100 : 0.9, type == DType::i32 ? 100 : 1.1);
        if (HasFatalFailure()) return;
      }
}

// Too few columns for a GPU, in groups; in the last group, some items have no column. The body may store
// where it has loaded, so each element must be computed once.
TEST(GpuLoops, ItemsShareColumns) {
  ATHANOR_NEEDS_GPU();
  struct Case {
    Ints space;
    std::vector<bool> reduced;
  };
  const Case cases[] = {{{300, 65}, {true, false}},
                        {{4, 70, 33}, {true, true, false}},
                        {{3, 130, 7}, {false, true, false}},
                        {{9000, 5}, {true, false}}};
  for (const Case& one : cases)
    for (const Prim prim : {Prim::sum, Prim::argmax}) {
      Builder b(one.space, one.reduced);
      const int x = b.load(0, DType::f32, dense(one.space));
      const int y = b.op(Prim::floor, DType::f32, b.op(Prim::add, DType::f32, x, x));  // many equal values
      b.store_in_body(y, 0, DType::f32, dense(one.space));
      const DType type = prim == Prim::sum ? DType::f32 : DType::i64;
      b.store(b.reduce(prim, y, type), 1, type, dense_kept(b.p));
      std::mt19937 rng(5);
      const Memory start = memory_for(b.p, rng, -2, 2);
      Memory want = start;
      reference::Interpreter(b.p, want.addresses()).run();
      for (const DeviceInfo& info : gpu_devices()) {
        gpu::GpuDevice& device = gpu::gpu_device(info.device);
        GpuTraits traits = device.facts().traits;
        traits.grain = &fine_grain;
        traits.max_group_size = std::min<int64_t>(256, traits.max_group_size);
        traits.compute_units = 132;
        const GpuCandidate candidate = gpu_loop_candidates(b.p, traits).front();
        int64_t items = 0;
        for (const auto& [name, value] : candidate.parameters)
          if (name == "items") items = value;
        EXPECT_GT(items, 1);
        expect_close(b.p, run_on(device, candidate, start), want, 1e-3, candidate.launches.front().source);
        if (HasFatalFailure()) return;
      }
    }
}

TEST(GpuLoops, ArgmaxTakesTheFirstOfEqualsAndNan) {
  ATHANOR_NEEDS_GPU();
  for (const Ints& space : {Ints{5, 300}, Ints{300, 5}, Ints{1, 50000}}) {
    const bool rows = space[1] > space[0];
    Builder b(space, {!rows, rows});
    const int x = b.load(0, DType::f32, dense(space));
    const int r = b.reduce(Prim::argmax, x, DType::i64);
    b.store(r, 1, DType::i64, dense_kept(b.p));
    std::mt19937 rng(3);
    Memory start = memory_for(b.p, rng);
    auto* values = reinterpret_cast<float*>(start.data[0].data());
    const auto n = static_cast<size_t>(space[0] * space[1]);
    for (size_t i = 0; i < n; ++i) values[i] = std::floor(values[i]);  // many equal values
    values[n / 2] = std::nanf("");
    for (const DeviceInfo& info : gpu_devices()) {
      check_on(gpu::gpu_device(info.device), b.p, start, 0);
      if (HasFatalFailure()) return;
    }
  }
}

// What an accumulator begins with is no element, though it has the same value.
template <class T>
void check_argmax_of_lowest(T lowest, const std::vector<Ints>& spaces) {
  for (const Ints& space : spaces) {
    const bool rows = space[1] > space[0];
    Builder b(space, {!rows, rows});
    const int x = b.load(0, dtype_of<T>, dense(space));
    b.store(b.reduce(Prim::argmax, x, DType::i64), 1, DType::i64, dense_kept(b.p));
    std::mt19937 rng(3);
    Memory start = memory_for(b.p, rng);
    std::fill_n(reinterpret_cast<T*>(start.data[0].data()), space[0] * space[1], lowest);
    for (const DeviceInfo& info : gpu_devices()) check_on(gpu::gpu_device(info.device), b.p, start, 0);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(GpuLoops, ArgmaxOfLowestValuesIsTheFirst) {
  ATHANOR_NEEDS_GPU();
  check_argmax_of_lowest(-std::numeric_limits<float>::infinity(), {{5, 300}, {300, 5}, {1, 50000}});
  check_argmax_of_lowest(std::numeric_limits<int64_t>::min(), {{3, 17}});
  check_argmax_of_lowest(uint8_t{0}, {{3, 17}});
}

TEST(GpuLoops, RandomNumbersAreTheHosts) {
  ATHANOR_NEEDS_GPU();
  Builder b({4099});
  const int key = b.load(0, DType::i64, {0}), counter = b.index({1}, (int64_t{1} << 40) - 5);
  b.store(b.op(Prim::random_uniform, DType::f32, key, counter), 1, DType::f32, {1});
  check_everywhere(b.p, 0, -1e9, 1e9);
}

// Neighbours share a block of four numbers, unless their counters or keys belong to others.
TEST(GpuLoops, RandomNumbersOfVectorsAreTheHosts) {
  ATHANOR_NEEDS_GPU();
  for (const int64_t first : {0, 4, 1, 7})
    for (const int64_t apart : {1, 3})
      for (const bool many_keys : {false, true}) {
        Builder b({4096});
        const int key = b.load(0, DType::i64, {many_keys ? 1 : 0}), counter = b.index({apart}, first);
        b.store(b.op(Prim::random_uniform, DType::f32, key, counter), 1, DType::f32, {1});
        check_vectors(b.p, many_keys ? 2 : 4, 0, -1e9, 1e9);
      }
}

}  // namespace
}  // namespace athanor::testing
