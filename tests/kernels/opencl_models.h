// OpenCL's matrix units without a card that has them: their functions are written from the text of the
// extension, and kernels use these functions on a processor.
#pragma once
#include <fmt/format.h>

#include "athanor/kernels/gpu/opencl_units.h"
#include "gpu_kernels.h"

namespace athanor::testing {

inline std::vector<MatrixUnit> dpas_units(int lanes) {
  std::vector<MatrixUnit> units = opencl_units({.least_wave = lanes});
  std::erase_if(units, [](const MatrixUnit& unit) { return unit.form != MatrixUnit::Form::dpas; });
  return units;
}

/// The function of cl_intel_subgroup_matrix_multiply_accumulate, version 1.1.0: component r of `a` is row r,
/// of which a lane has as many adjacent steps along k as its size holds; component s of `b` is the s-th 32
/// bits of the lane's column; component r of `acc` is row r of its column. `lost`: the number of steps that a
/// wrong driver leaves out.
inline std::string dpas_model(const MatrixUnit& unit, int lost = 0) {
  const int lane_bytes = 32 / unit.wave, size = static_cast<int>(size_of(unit.input));
  const std::string element = unit.input == DType::i8 ? "(int)(char)({0} >> ({1}) * 8 & 255)"
                              : unit.input == DType::bf16
                                  ? "as_float(({0} >> ({1}) * 16 & 65535) << 16)"
                                  : "f32_of_f16((f16_bits)({0} >> ({1}) * 16 & 65535))";
  const auto at = [&](const std::string& word, const std::string& place) {
    return fmt::format(fmt::runtime(element), word, place);
  };
  std::string put, add;
  for (int r = 0; r < 8; ++r) {
    put += fmt::format("  mine[{0}] = ({1})a.s{0}, mine[8 + {0}] = b.s{0};\n", r,
                       lane_bytes == 4 ? "u32" : "ushort");
    add += fmt::format("  for (int k = 0; k < {}; ++k) acc.s{} += {} * {};\n", unit.k - lost, r,
                       at(fmt::format("all[(wave + k / {}) * 16 + {}]", lane_bytes / size, r),
                          fmt::format("k % {}", lane_bytes / size)),
                       at(fmt::format("mine[8 + k / {}]", 4 / size), fmt::format("k % {}", 4 / size)));
  }
  return fmt::format(
      "#undef UNROLL\n"
      "#define UNROLL\n"  // otherwise PoCL takes even longer to compile
      "DEVICE {0}8 dpas_model(LOCAL u32 *all, {1} a, uint8 b, {0}8 acc) {{\n"
      "  const int item = (int)get_local_id(0), wave = item / {2} * {2};\n"
      "  LOCAL u32 *const mine = all + item * 16;\n"
      "  barrier(CLK_LOCAL_MEM_FENCE);\n{3}"
      "  barrier(CLK_LOCAL_MEM_FENCE);\n{4}"
      "  return acc;\n}}\n"
      "#define {5}(a, b, acc) dpas_model(exchanged, a, as_uint8(b), acc)\n",
      unit.output == DType::i32 ? "int" : "float", unit.operand, unit.wave, put, add, unit.instruction);
}

/// Gives a kernel the memory for the model, and removes the attribute that PoCL does not know.
inline void add_model(const MatrixUnit& unit, GpuLaunch& launch, int lost = 0) {
  std::string& source = launch.source;
  constexpr std::string_view body = "BIND(";
  if (const size_t at = source.find(body); at != std::string::npos)
    source.insert(at, "LOCAL u32 exchanged[GROUP_EXTENT_0 * 16]; ");
  constexpr std::string_view attribute = "__attribute__((intel_reqd";
  if (const size_t at = source.find(attribute); at != std::string::npos)
    source.erase(at, source.find('\n', at) - at);
  // PoCL 3.1 optimises these loops of 16 lanes to wrong values, but not the same ones each time.
  launch.compile_options = "-cl-opt-disable";
  source = dpas_model(unit, lost) + source;
}

class OpenClModels : public ::testing::Test {
 protected:
  void SetUp() override {
    ATHANOR_NEEDS_GPU();
    if (gpu_backend() != "opencl") GTEST_SKIP() << "these are OpenCL's";
    device_ = &gpu::gpu_device(gpu_devices().front().device);
  }
  /// Less than the 32 KiB of local memory that every device has, because the model takes some.
  GpuTraits traits() const {
    GpuTraits all = device_->facts().traits;
    all.registers = true;
    all.unrolls_nests = true;  // longer texts take PoCL minutes
    all.local_bytes = 20 * 1024;
    return all;
  }
  gpu::GpuDevice* device_ = nullptr;
};

}  // namespace athanor::testing
