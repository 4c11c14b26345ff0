// Matrix products by matrix units: every candidate, for many shapes, strides, batches and epilogues.
#include "athanor/kernels/gpu/templates/tile_gemm.h"
#include "gpu_kernels.h"

namespace athanor::testing {
namespace {

bool is_tiled(const GpuCandidate& candidate) { return candidate.parameters.contains("tile_m"); }

/// Whether a device has matrix units for the dtype, or lane units, which take their place.
bool has_units(DType dtype) {
  for (const DeviceInfo& info : gpu_devices()) {
    const GpuTraits& traits = traits_of(info.device);
    if (!traits.lane_units.empty() || std::ranges::count(traits.matrix_units, dtype, &MatrixUnit::input) > 0)
      return true;
  }
  return false;
}

/// The next multiple of 8: where the next row begins, in elements.
int64_t pitch_of(int64_t row) { return (row + 7) / 8 * 8; }

/// A view of which the axis of stride 1 has NaNs behind each of its rows, which kernels may read.
TestOperand with_gaps(DType dtype, const Shape& shape, unsigned seed, const Ints& strides) {
  TestOperand value = view(dtype, shape, seed, strides);
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (strides[static_cast<size_t>(axis)] == 1) value.desc.padding = pitch_of(shape[axis]) - shape[axis];
  const size_t size = size_of(dtype);
  std::vector<std::byte> memory(static_cast<size_t>(value.desc.reach()) * size, std::byte{0xff});
  for (int64_t i = 0; i < shape.size(); ++i) {
    const auto at = static_cast<size_t>(offset_of(value.desc, i)) * size;
    std::copy_n(static_cast<std::byte*>(value.address()) + at, size, memory.data() + at);
  }
  value.memory = std::move(memory);
  value.offset = 0;
  return value;
}

void space_rows(OperandDesc& result) {
  const int64_t pitch = pitch_of(result.shape[2]);
  result.padding = pitch - result.shape[2];
  result.strides = {result.shape[1] * pitch, pitch, 1};
}

/// `groups`: the device's number of compute units for this test; if it is large, K is split.
void check_tiles(const std::vector<TestOperand>& inputs, const Epilogue& epilogue = {}, int groups = 1,
                 bool gaps = false) {
  const DType dtype = inputs[0].desc.dtype;
  if (!has_units(dtype)) return;
  const Shape shape{inputs[0].desc.shape[0], inputs[0].desc.shape[1], inputs[1].desc.shape[2]};
  KernelRequest request = request_of(find_op("batch_matmul"), {}, inputs, dtype, shape, {}, epilogue);
  if (gaps) space_rows(request.outputs[0]);
  const std::vector<double> want = reference_of(request, inputs);
  for (const DeviceInfo& info : gpu_devices()) {
    gpu::GpuDevice& device = gpu::gpu_device(info.device);
    GpuTraits traits = traits_of(device);
    traits.compute_units = groups;
    auto candidates = candidates_for(request, traits);
    EXPECT_LE(candidates.size(), 8U) << "each is compiled and timed: " << request.key();
    std::erase_if(candidates, [](const GpuCandidate& one) { return !is_tiled(one); });
    std::vector<Run> runs;
    for (const GpuCandidate& candidate : reduced(std::move(candidates)))
      runs.push_back({candidate.name, run_on(device, candidate, inputs, request.output())});
    EXPECT_FALSE(runs.empty()) << request.key();
    expect_all_near(runs, want, tolerance_of(dtype), request.key());
  }
}

/// Checks every point of units that read local memory, or only of those that copy boxes, and returns their
/// number. `groups`: the device's number of compute units for this test.
int check_local(const std::vector<TestOperand>& inputs, bool boxes_only = false, int groups = 1,
                bool gaps = false, const Epilogue& epilogue = {}) {
  const DType dtype = inputs[0].desc.dtype;
  const bool bytes = size_of(dtype) == 1;
  const DType output = !bytes ? dtype : dtype == DType::i8 ? DType::i32 : DType::f32;
  const Shape shape{inputs[0].desc.shape[0], inputs[0].desc.shape[1], inputs[1].desc.shape[2]};
  KernelRequest request{&find_op(bytes ? "wide_batch_matmul" : "batch_matmul"),
                        {},
                        {},
                        {{output, shape, {}, contiguous_strides(shape)}},
                        {}};
  for (const TestOperand& input : inputs) request.inputs.push_back(input.desc);
  if (gaps) space_rows(request.outputs[0]);
  request.epilogue = program_of(epilogue, request);
  const bool along_k = inputs[0].desc.strides[2] == 1 && inputs[1].desc.strides[1] == 1;
  std::vector<double> want;
  int tried = 0;
  for (const DeviceInfo& info : gpu_devices()) {
    gpu::GpuDevice& device = gpu::gpu_device(info.device);
    GpuTraits traits = traits_of(device);
    traits.compute_units = groups;
    std::vector<Run> runs;
    for (const MatrixUnit& unit : traits_of(device).matrix_units) {
      if (!unit.reads_local() || unit.input != dtype) continue;
      traits.matrix_units = {&unit, 1};
      request.compute = unit.tf32 ? ComputeType::tf32 : ComputeType::by_dtypes;
      auto candidates = candidates_for(request, traits);
      std::erase_if(candidates, [](const GpuCandidate& one) { return !is_tiled(one); });
      if (boxes_only)
        std::erase_if(candidates, [](const GpuCandidate& one) { return !one.parameters.contains("boxes"); });
      const bool boxes = traits.box_copies && (unit.turns_local() || along_k);
      const bool may_lie_so = !bytes || along_k;
      EXPECT_TRUE(!candidates.empty() || (boxes_only && !boxes) || !may_lie_so)
          << unit.name << ": " << request.key();
      for (const GpuCandidate& candidate : reduced(std::move(candidates)))
        runs.push_back({candidate.name, run_on(device, candidate, inputs, request.output())});
    }
    if (runs.empty()) continue;
    if (want.empty()) want = reference_of(request, inputs);
    expect_all_near(runs, want,
                    request.compute == ComputeType::tf32 ? request.rounding()
                    : bytes && !request.has_epilogue()   ? 0
                                                         : tolerance_of(output),
                    request.key());
    tried += static_cast<int>(runs.size());
  }
  return tried;
}

class GpuTiles : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    ATHANOR_NEEDS_GPU();
    if (!has_units(GetParam()))
      GTEST_SKIP() << "no device here has matrix units for " << to_string(GetParam());
  }
};

TEST_P(GpuTiles, WholeTiles) {
  check_tiles({view(GetParam(), {1, 128, 64}, 1), view(GetParam(), {1, 64, 128}, 2)});
}

TEST_P(GpuTiles, OddShapes) {
  for (const auto& [b, m, k, n] : std::vector<std::array<int64_t, 4>>{{1, 8, 8, 8},
                                                                      {2, 13, 9, 31},
                                                                      {1, 65, 33, 129},
                                                                      {3, 20, 40, 24},
                                                                      {1, 131, 67, 137},
                                                                      {1, 40, 100, 36}})
    check_tiles({view(GetParam(), {b, m, k}, 1), view(GetParam(), {b, k, n}, 2)});
}

TEST_P(GpuTiles, FewRowsOrColumns) {
  for (const DeviceInfo& info : gpu_devices())
    if (!gpu::tiles_lead(GetParam(), traits_of(info.device)))
      GTEST_SKIP() << "tiles are no good guesses for " << to_string(info.device);
  for (const auto& [b, m, k, n] :
       std::vector<std::array<int64_t, 4>>{{1, 5, 40, 70}, {2, 70, 33, 7}, {1, 6, 130, 5}})
    check_tiles({view(GetParam(), {b, m, k}, 1), view(GetParam(), {b, k, n}, 2)});
}

TEST_P(GpuTiles, Strides) {
  const int64_t b = 2, m = 40, k = 48, n = 56;
  const Ints a_strides[] = {{m * k, k, 1}, {m * k, 1, m}, {k, b * k, 1}, {0, k, 1}, {2 * m * k, 2 * k, 2}};
  const Ints b_strides[] = {{k * n, n, 1}, {k * n, 1, k}, {n, b * n, 1}, {0, 1, k}, {k * n * 3, n * 3, 3}};
  for (size_t i = 0; i < std::size(a_strides); ++i)
    for (size_t j = 0; j < 2; ++j)
      check_tiles({view(GetParam(), {b, m, k}, 1, a_strides[i]),
                   view(GetParam(), {b, k, n}, 2, b_strides[(i + 2 * j) % std::size(b_strides)])});
}

// Rows at addresses that are not multiples of vectors of 16, 8 or 4 bytes.
TEST_P(GpuTiles, Alignment) {
  for (const int64_t first : {0, 1, 2, 4}) {
    std::vector<TestOperand> inputs = {view(GetParam(), {1, 40, 48}, 1), view(GetParam(), {1, 48, 56}, 2)};
    for (TestOperand& input : inputs) {
      const auto bytes = static_cast<size_t>(first) * size_of(GetParam());
      input.memory.insert(input.memory.begin(), bytes, std::byte{0xff});
      input.offset += bytes;
      if (first > 0) input.desc.alignment = static_cast<int64_t>(bytes);
    }
    check_tiles(inputs);
  }
}

// Rows of odd length that begin at multiples of 16 bytes. What is behind a row is read, but changes nothing.
TEST_P(GpuTiles, RowsWithGaps) {
  for (const auto& [b, m, k, n, groups] : std::vector<std::array<int64_t, 5>>{
           {1, 67, 131, 77, 1}, {2, 41, 67, 51, 1}, {1, 130, 33, 15, 1}, {1, 13, 259, 139, 4}}) {
    const int64_t row_of_a = pitch_of(k), column_of_a = pitch_of(m), row_of_b = pitch_of(n),
                  column_of_b = pitch_of(k);
    const Ints a_strides[] = {{m * row_of_a, row_of_a, 1}, {k * column_of_a, 1, column_of_a}};
    const Ints b_strides[] = {{k * row_of_b, row_of_b, 1}, {n * column_of_b, 1, column_of_b}};
    for (const Ints& a : a_strides)
      for (const Ints& of_b : b_strides) {
        const std::vector<TestOperand> inputs = {with_gaps(GetParam(), {b, m, k}, 1, a),
                                                 with_gaps(GetParam(), {b, k, n}, 2, of_b)};
        check_tiles(inputs, {}, static_cast<int>(groups), true);
        if (size_of(GetParam()) == 2) check_local(inputs, false, static_cast<int>(groups), true);
      }
  }
}

TEST_P(GpuTiles, Epilogues) {
  for (const std::string activation : {"", "relu", "tanh", "sigmoid"})
    check_tiles(
        {view(GetParam(), {2, 20, 40}, 1), view(GetParam(), {2, 40, 36}, 2), view(GetParam(), {36}, 3)},
        {.bias = true, .activation = activation});
  check_tiles({view(GetParam(), {1, 20, 40}, 1), view(GetParam(), {1, 40, 37}, 2)}, {.activation = "relu"});
  for (const Ints& strides : {Ints{800, 40, 1}, Ints{800, 1, 20}})
    for (const int groups : {1, 4})
      check_tiles({view(GetParam(), {2, 20, 40}, 1, strides), view(GetParam(), {2, 40, 37}, 2),
                   view(GetParam(), {37}, 3), view(DType::f32, {1}, 4), view(GetParam(), {2, 20, 37}, 5)},
                  {.chain = true}, groups);
}

// Rows of C of whole vectors, which lanes that share a row exchange: 16 or 8 bytes at a time, at the edges of
// C, with an unaligned operand of the epilogue, in parts of K, and by every unit.
TEST_P(GpuTiles, RowsOfWholeVectors) {
  const auto operands = [](int64_t b, int64_t m, int64_t k, int64_t n) {
    return std::vector<TestOperand>{view(GetParam(), {b, m, k}, 1), view(GetParam(), {b, k, n}, 2)};
  };
  for (const int64_t n : {136, 76}) {
    auto inputs = operands(2, 72, 40, n);
    check_tiles(inputs);
    check_tiles(inputs, {.activation = "relu"});
    inputs.push_back(view(GetParam(), {n}, 3));
    check_tiles(inputs, {.bias = true, .activation = "relu"});
    inputs.push_back(view(DType::f32, {1}, 4));
    inputs.push_back(view(GetParam(), {2, 72, n}, 5));
    check_tiles(inputs, {.chain = true});
    TestOperand& last = inputs.back();
    last.memory.insert(last.memory.begin(), size_of(GetParam()), std::byte{0xff});
    last.offset += size_of(GetParam());
    last.desc.alignment = static_cast<int64_t>(size_of(GetParam()));
    check_tiles(inputs, {.chain = true});
  }
  check_tiles(operands(1, 24, 1024, 72), {}, 8);
  check_local(operands(1, 200, 136, 264));
}

TEST_P(GpuTiles, SplitsALongK) {
  check_tiles(
      {view(GetParam(), {1, 24, 1030}, 1), view(GetParam(), {1, 1030, 20}, 2), view(GetParam(), {20}, 3)},
      {.bias = true, .activation = "relu"}, 4);
  check_tiles({view(GetParam(), {2, 24, 1024}, 1), view(GetParam(), {2, 1024, 32}, 2)}, {}, 8);
}

// Units that read A and B in local memory, contiguous along k or along rows and columns.
TEST_P(GpuTiles, MatricesInLocalMemory) {
  int tried = 0;
  for (const auto& [b, m, k, n] :
       std::vector<std::array<int64_t, 4>>{{1, 200, 136, 264}, {2, 72, 328, 136}, {1, 100, 64, 60}}) {
    for (int turned = 0; turned < 4; ++turned) {
      const Ints a_strides = turned % 2 == 0 ? Ints{m * k, k, 1} : Ints{m * k, 1, m};
      const Ints b_strides = turned / 2 == 0 ? Ints{k * n, n, 1} : Ints{k * n, 1, k};
      tried +=
          check_local({view(GetParam(), {b, m, k}, 1, a_strides), view(GetParam(), {b, k, n}, 2, b_strides)});
    }
  }
  if (tried == 0) GTEST_SKIP() << "no unit here reads local memory";
}

// Tiles at the edges of matrices, boxes of several panels, matrices that all products share, parts of K,
// stages that are filled many times, and matrices inside larger ones.
TEST_P(GpuTiles, CopiesOfBoxes) {
  const auto operands = [](const Shape& a, const Ints& a_strides, const Shape& b, const Ints& b_strides) {
    return std::vector<TestOperand>{view(GetParam(), a, 1, a_strides), view(GetParam(), b, 2, b_strides)};
  };
  const auto check = [](const std::vector<TestOperand>& inputs, int groups = 1) {
    return check_local(inputs, true, groups);
  };
  int tried = check(operands({3, 72, 40}, {0, 40, 1}, {3, 40, 72}, {2880, 72, 1}));
  tried += check(operands({2, 65, 80}, {5200, 80, 1}, {2, 80, 56}, {0, 1, 80}));
  tried += check(operands({1, 40, 90}, {3840, 96, 1}, {1, 90, 36}, {3600, 40, 1}));
  tried += check(operands({2, 128, 200}, {25600, 1, 128}, {2, 200, 192}, {38400, 192, 1}));
  tried += check(operands({2, 24, 1024}, {24576, 1, 24}, {2, 1024, 32}, {32768, 32, 1}), 8);
  tried += check(operands({1, 40, 1000}, {40000, 1000, 1}, {1, 1000, 48}, {48000, 48, 1}));
  tried += check(operands({1, 200, 136}, {27200, 136, 1}, {1, 136, 264}, {35904, 1, 136}));
  tried += check(operands({2, 24, 1032}, {24768, 1032, 1}, {2, 1032, 32}, {0, 1, 1032}), 8);
  std::vector<TestOperand> inputs = operands({1, 40, 48}, {1920, 48, 1}, {1, 48, 56}, {2688, 56, 1});
  for (TestOperand& input : inputs) {
    input.memory.insert(input.memory.begin(), 48, std::byte{0xff});
    input.offset += 48;
  }
  tried += check(inputs);
  if (tried == 0) GTEST_SKIP() << "no device here copies boxes";
}

// Compares units that read local memory, for each way to fill it, with those that read registers.
TEST(GpuTf32Tiles, UnitsRoundFactorsAlike) {
  ATHANOR_NEEDS_GPU();
  const int64_t m = 72, k = 136, n = 72;
  int tried = 0;
  for (const Ints& b_strides : {Ints{k * n, n, 1}, Ints{k * n, 1, k}}) {
    const std::vector<TestOperand> inputs = {
        view(DType::f32, {1, m, k}, 1), view(DType::f32, {1, k, n}, 2, b_strides), view(DType::f32, {n}, 3),
        view(DType::f32, {1}, 4), view(DType::f32, {1, m, n}, 5)};
    KernelRequest request =
        request_of(find_op("batch_matmul"), {}, inputs, DType::f32, {1, m, n}, {}, {.chain = true});
    request.compute = ComputeType::tf32;
    const std::vector<double> want = reference_of(request, inputs);
    for (const DeviceInfo& info : gpu_devices()) {
      gpu::GpuDevice& device = gpu::gpu_device(info.device);
      GpuTraits traits = traits_of(device);
      traits.compute_units = 1;
      std::vector<testing::Run> runs;
      for (const MatrixUnit& unit : traits_of(device).matrix_units) {
        if (!unit.tf32) continue;
        traits.matrix_units = {&unit, 1};
        const GpuCandidate candidate = candidates_for(request, traits).front();
        runs.push_back({candidate.name, run_on(device, candidate, inputs, request.output())});
      }
      if (runs.empty()) continue;
      expect_all_near(runs, want, request.rounding(), request.key());
      expect_all_near(runs, runs.front().values, tolerance_of(DType::f32), request.key());
      tried += static_cast<int>(runs.size());
    }
  }
  if (tried == 0) GTEST_SKIP() << "no device here multiplies in tf32";
}

// Reading B takes all the time: few_rows_candidate() reads rows of it, tiles whatever lies otherwise.
TEST(FewRows, AreReadOnceByTheFirstGuess) {
  for (const auto& [target, architecture, tile] : {std::tuple{GpuTarget::cuda, "sm_86", "mma"},
                                                   {GpuTarget::cuda, "sm_90a", "mma"},
                                                   {GpuTarget::hip, "gfx1100", "wmma"},
                                                   {GpuTarget::hip, "gfx906", "dot2"}})
    for (const int64_t rows : {5, 7}) {
      constexpr int64_t side = 4096;
      const OperandDesc a{DType::f16, {1, rows, side}, {}, {rows * side, side, 1}},
          b{DType::f16, {1, side, side}, {}, {side * side, side, 1}};
      OperandDesc turned = b;
      turned.strides = {side * side, 1, side};
      GpuTraits traits;
      add_architecture(traits, target, architecture);
      set_driver_facts(traits, target, architecture);
      const auto names_of = [&](const KernelRequest& request) {
        std::vector<std::string> names;
        for (const GpuCandidate& one : candidates_for(request, traits)) names.push_back(one.name);
        EXPECT_LE(names.size(), 8U) << request.key();
        return names;
      };
      const auto has_tile = [&](const std::string& name) {
        return name.find(std::string(tile) + " ") != std::string::npos;
      };
      const auto by_rows = names_of({&find_op("batch_matmul"), {}, {a, b}, {a}, {}});
      EXPECT_TRUE(by_rows.front().starts_with(fmt::format("rows {}x", rows))) << by_rows.front();
      EXPECT_TRUE(has_tile(by_rows.at(1))) << architecture << ": " << by_rows.at(1);
      const auto by_tiles = names_of({&find_op("batch_matmul"), {}, {a, turned}, {a}, {}});
      EXPECT_TRUE(has_tile(by_tiles.front())) << architecture << ": " << by_tiles.front();
    }
}

/// The first guess of a product in tf32 on sm_90a.
GpuCandidate tf32_on_sm_90a(const Ints& a_strides, const Ints& b_strides) {
  const auto matrix = [](const Ints& strides) {
    return OperandDesc{DType::f32, {1, 4096, 4096}, {}, strides};
  };
  KernelRequest request{&find_op("batch_matmul"),
                        {},
                        {matrix(a_strides), matrix(b_strides)},
                        {matrix({4096 * 4096, 4096, 1})},
                        {}};
  request.compute = ComputeType::tf32;
  GpuTraits traits;
  add_architecture(traits, GpuTarget::cuda, "sm_90a");
  set_driver_facts(traits, GpuTarget::cuda, "sm_90a");
  return candidates_for(request, traits).front();
}

TEST(GpuTf32Tiles, HaveFewRowsToo) {
  const auto candidates = [](int64_t rows) {
    const OperandDesc a{DType::f32, {1, rows, 512}, {}, {rows * 512, 512, 1}},
        b{DType::f32, {1, 512, 512}, {}, {512 * 512, 512, 1}};
    KernelRequest request{&find_op("batch_matmul"), {}, {a, b}, {a}, {}};
    request.compute = ComputeType::tf32;
    GpuTraits traits;
    add_architecture(traits, GpuTarget::cuda, "sm_86");
    return candidates_for(request, traits);
  };
  EXPECT_FALSE(candidates(5).empty());
  EXPECT_TRUE(candidates(4).empty()) << "in f32: reading takes all the time";
}

// Matrices that are contiguous along k are copied as they are; others are transposed on the way.
TEST(GpuTf32Tiles, LocalMatricesLead) {
  const Ints rows{4096 * 4096, 4096, 1}, columns{4096 * 4096, 1, 4096};
  for (const auto& [a, b] : {std::pair{rows, rows}, {rows, columns}, {columns, rows}, {columns, columns}}) {
    const GpuCandidate candidate = tf32_on_sm_90a(a, b);
    EXPECT_TRUE(candidate.name.starts_with("tf32 wgmma")) << candidate.name;
    EXPECT_EQ(candidate.parameters.contains("boxes"), a == rows && b == columns) << candidate.name;
  }
}

/// Whole numbers, with sums that are exact in i32 and in f32.
TestOperand whole(DType dtype, const Shape& shape, unsigned seed, const Ints& strides = {}) {
  TestOperand value = view(DType::i8, shape, seed, strides);
  if (dtype == DType::i8) return value;
  // As floats, random bytes would have any magnitude; -7 to 7 are exact in both types.
  for (std::byte& byte : value.memory) {
    const auto number = static_cast<int8_t>(std::to_integer<int>(byte)) % 8;
    byte = from_doubles(dtype, {1}, std::vector<double>{static_cast<double>(number)}).bytes[0];
  }
  for (double& number : value.values) number = static_cast<double>(static_cast<int>(number) % 8);
  value.desc.dtype = dtype;
  return value;
}

// Lanes of RDNA3's units exchange elements between the halves of a wave, those of RDNA4's have neighbours.
// Rows of odd length without gaps are stored element by element, 16 lanes beside each other.
TEST(TileStores, OfRdnaAreOfSixteenBytes) {
  for (const char* architecture : {"gfx1100", "gfx1201"})
    for (const int64_t n : {1024, 1023}) {
      const auto desc = [](const Shape& shape) {
        return OperandDesc{DType::bf16, shape, {}, contiguous_strides(shape)};
      };
      KernelRequest request{
          &find_op("batch_matmul"), {}, {desc({1, 1024, 64}), desc({1, 64, n})}, {desc({1, 1024, n})}, {}};
      request.inputs.push_back(desc({n}));
      request.epilogue = program_of(Epilogue{.bias = true}, request);
      GpuTraits traits;
      add_architecture(traits, GpuTarget::hip, architecture);
      const GpuCandidate candidate = candidates_for(request, traits).front();
      EXPECT_TRUE(candidate.name.starts_with("wmma")) << candidate.name;
      const std::string& source = candidate.launches.front().source;
      const auto has = [&](const char* text) { return source.find(text) != std::string::npos; };
      const bool whole = n % 8 == 0;
      EXPECT_EQ(has("WRITE_GLOBAL(4, c"), whole) << architecture << " " << n;
      EXPECT_EQ(has("READ_ALIGNED(4, in1_"), whole) << architecture << " " << n;
      EXPECT_EQ(has("STORE(bf16, c"), !whole) << architecture << " " << n;
      EXPECT_EQ(has("EXCHANGE(halves["), whole && std::string(architecture) == "gfx1100");
    }
}

// The accesses of the first guess for a product of bf16 with an epilogue, on NVIDIA's generations.
TEST(TileStores, AreOfSixteenBytes) {
  const Shape matrix{1, 1024, 1024};
  const auto desc = [](const Shape& shape) {
    return OperandDesc{DType::bf16, shape, {}, contiguous_strides(shape)};
  };
  for (const char* architecture : {"sm_80", "sm_90a"})
    for (const bool chain : {false, true}) {
      KernelRequest request{&find_op("batch_matmul"), {}, {desc(matrix), desc(matrix)}, {desc(matrix)}, {}};
      if (chain) {
        request.inputs.push_back(desc({1024}));
        request.inputs.push_back({DType::f32, {1}, {}, {1}});
        request.inputs.push_back(desc(matrix));
        request.epilogue = program_of(Epilogue{.chain = true}, request);
      }
      GpuTraits traits;
      add_architecture(traits, GpuTarget::cuda, architecture);
      const std::string source = candidates_for(request, traits).front().launches.front().source;
      const auto has = [&](const char* text) { return source.find(text) != std::string::npos; };
      EXPECT_TRUE(has("WRITE_EXCHANGED(4, c")) << architecture;
      EXPECT_FALSE(has("WRITE_GLOBAL(1, c") || has("STORE(bf16, c")) << architecture;
      for (const char* read : {"READ_ALIGNED(4, in1_", "READ_ALIGNED(4, in3_"})  // the bias and the residual
        EXPECT_EQ(has(read), chain) << architecture;
    }
}

/// The source of the first guess for a product of f16 on gfx1201. So many vectors are added to its rows.
std::string sum_with(int vectors) {
  const auto desc = [](DType type, const Shape& shape) {
    return OperandDesc{type, shape, {}, contiguous_strides(shape)};
  };
  const OperandDesc matrix = desc(DType::f16, {1, 2048, 2048});
  KernelRequest request{&find_op("batch_matmul"), {}, {matrix, matrix}, {matrix}, {}};
  Builder b({1, 2048, 2048});
  int x = b.load(0, DType::f16, dense({1, 2048, 2048}));
  for (int v = 1; v <= vectors; ++v) {
    request.inputs.push_back(desc(DType::f32, {2048}));
    x = b.op(Prim::add, DType::f32, x, b.load(v, DType::f32, {0, 0, 1}));
  }
  b.store(x, vectors + 1, DType::f16, dense({1, 2048, 2048}));
  request.epilogue = b.p;
  GpuTraits traits;
  add_architecture(traits, GpuTarget::hip, "gfx1201");
  set_driver_facts(traits, GpuTarget::hip, "gfx1201");
  const GpuCandidate candidate = candidates_for(request, traits).front();
  EXPECT_TRUE(candidate.name.starts_with("wmma")) << candidate.name;
  return candidate.launches.front().source;
}

// What an epilogue reads for two rounds must have room beside the sums, or a fence keeps the rounds apart.
TEST(TileStores, RoundsThatReadMuchAreFenced) {
  const auto fenced = [](const std::string& source) {
    return source.find("SCHEDULE_FENCE()", source.find("column_begin = ")) != std::string::npos;
  };
  EXPECT_FALSE(fenced(sum_with(1)));
  EXPECT_TRUE(fenced(sum_with(8)));
}

class GpuWideTiles : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    ATHANOR_NEEDS_GPU();
    for (const DeviceInfo& info : gpu_devices())
      for (const MatrixUnit& unit : traits_of(info.device).matrix_units)
        if (unit.input == GetParam() && virtual_gpu_lacks(unit))
          GTEST_SKIP() << "the virtual GPU does not execute " << unit.instruction;
  }

  /// Checks every candidate for exact results. There must be tiled ones if a unit multiplies the type.
  void check(const std::vector<TestOperand>& inputs, int groups = 1) {
    const DType output = GetParam() == DType::i8 ? DType::i32 : DType::f32;
    const Shape shape{inputs[0].desc.shape[0], inputs[0].desc.shape[1], inputs[1].desc.shape[2]};
    KernelRequest request{
        &find_op("wide_batch_matmul"), {}, {}, {{output, shape, {}, contiguous_strides(shape)}}, {}};
    for (const TestOperand& input : inputs) request.inputs.push_back(input.desc);
    const std::vector<double> want = reference_of(request, inputs);
    for (const DeviceInfo& info : gpu_devices()) {
      gpu::GpuDevice& device = gpu::gpu_device(info.device);
      GpuTraits traits = traits_of(device);
      traits.compute_units = groups;
      const auto some_take_it = [](std::span<const MatrixUnit> units) {
        return std::ranges::count(units, GetParam(), &MatrixUnit::input) > 0;
      };
      const bool by_unit = some_take_it(traits.matrix_units);
      const bool multiplies = by_unit || some_take_it(traits.lane_units);
      const auto candidates = candidates_for(request, traits);
      // Small groups of lanes leave out products with only one step along K, which would spill registers.
      const bool short_k = inputs[0].desc.shape[2] <= 64 && !by_unit;
      const bool tiled = std::ranges::any_of(candidates, is_tiled);
      EXPECT_TRUE(tiled == multiplies || (short_k && !tiled)) << request.key();
      for (const GpuCandidate& candidate : candidates)
        EXPECT_EQ(run_on(device, candidate, inputs, request.output()), want)
            << candidate.name << ": " << request.key();
    }
  }
};

TEST_P(GpuWideTiles, OddShapes) {
  for (const auto& [b, m, k, n] : std::vector<std::array<int64_t, 4>>{{1, 128, 128, 64},
                                                                      {1, 8, 8, 8},
                                                                      {2, 13, 9, 31},
                                                                      {1, 5, 40, 24},
                                                                      {1, 131, 67, 137},
                                                                      {1, 40, 100, 36}})
    check({whole(GetParam(), {b, m, k}, 1), whole(GetParam(), {b, k, n}, 2)});
}

// Contiguous along k, or along rows and columns, with gaps, and too unaligned for vectors of any size.
TEST_P(GpuWideTiles, Strides) {
  const int64_t b = 2, m = 48, k = 80, n = 64;
  const Ints a_strides[] = {{m * k, k, 1}, {m * k, 1, m}, {0, k, 1}, {2 * m * k, 2 * k, 2}, {m * 90, 90, 1}};
  const Ints b_strides[] = {{k * n, 1, k}, {k * n, n, 1}, {0, 1, k}, {k * n * 3, n * 3, 3}, {k * 90, 90, 1}};
  for (size_t i = 0; i < std::size(a_strides); ++i)
    check({whole(GetParam(), {b, m, k}, 1, a_strides[i]), whole(GetParam(), {b, k, n}, 2, b_strides[i])});
}

TEST_P(GpuWideTiles, SplitsAlongK) {
  check({whole(GetParam(), {1, 24, 1030}, 1), whole(GetParam(), {1, 1030, 20}, 2)}, 4);
  check({whole(GetParam(), {2, 24, 1024}, 1), whole(GetParam(), {2, 1024, 32}, 2, {32768, 1, 1024})}, 8);
}

// Units that read local memory take bytes along k only.
TEST_P(GpuWideTiles, MatricesInLocalMemory) {
  int tried = 0;
  for (const auto& [b, m, k, n] :
       std::vector<std::array<int64_t, 4>>{{1, 200, 272, 264}, {2, 72, 656, 136}, {1, 100, 128, 60}})
    for (const bool boxes_only : {false, true})
      tried += check_local({whole(GetParam(), {b, m, k}, 1), whole(GetParam(), {b, k, n}, 2, {k * n, 1, k})},
                           boxes_only);
  tried += check_local(
      {whole(GetParam(), {2, 24, 2064}, 1), whole(GetParam(), {2, 2064, 32}, 2, {0, 1, 2064})}, false, 8);
  if (GetParam() != DType::i8)
    for (const int groups : {1, 8})
      tried += check_local(
          {whole(GetParam(), {2, 72, 656}, 1), whole(GetParam(), {2, 656, 136}, 2, {656 * 136, 1, 656}),
           view(DType::f32, {136}, 3), view(DType::f32, {1}, 4), view(DType::f32, {2, 72, 136}, 5)},
          false, groups, false, {.chain = true});
  if (tried == 0) GTEST_SKIP() << "no unit here reads bytes in local memory";
}

// On sm_90a a unit's sums of 8-bit floats have few bits, so lanes add those of each 128 steps to their own.
TEST(GpuWideLocalTiles, LanesAddShortSums) {
  for (const DType dtype : {DType::f8e4m3, DType::f8e5m2}) {
    KernelRequest request{&find_op("wide_batch_matmul"),
                          {},
                          {{dtype, {1, 4096, 4096}, {}, {4096 * 4096, 4096, 1}},
                           {dtype, {1, 4096, 4096}, {}, {4096 * 4096, 1, 4096}}},
                          {{DType::f32, {1, 4096, 4096}, {}, {4096 * 4096, 4096, 1}}},
                          {}};
    GpuTraits traits;
    add_architecture(traits, GpuTarget::cuda, "sm_90a");
    set_driver_facts(traits, GpuTarget::cuda, "sm_90a");
    int tried = 0;
    for (const GpuCandidate& candidate : candidates_for(request, traits)) {
      if (!candidate.name.starts_with("wgmma")) continue;
      const std::string& source = candidate.launches.front().source;
      const auto has = [&](const char* text) { return source.find(text) != std::string::npos; };
      EXPECT_TRUE(has("MULTIPLY<0, 0>(part, a_matrix0, b_matrix)") && has("sums[0][0][e] += part[e]"));
      EXPECT_FALSE(has("MULTIPLY_ADD<0, 0>(sums"));
      ++tried;
    }
    EXPECT_GE(tried, 4);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, GpuWideTiles, ::testing::Values(DType::i8, DType::f8e4m3, DType::f8e5m2),
                         [](const auto& instance) { return std::string(to_string(instance.param)); });

INSTANTIATE_TEST_SUITE_P(Types, GpuTiles, ::testing::Values(DType::f16, DType::bf16, DType::f32),
                         [](const auto& instance) { return std::string(to_string(instance.param)); });

}  // namespace
}  // namespace athanor::testing
