// The units of each architecture, and which elements their lanes hold.
#include "athanor/kernels/gpu/matrix_unit.h"

#include <charconv>

#include "athanor/kernels/gpu/gpu_kernel.h"

namespace athanor {
namespace {

using Cell = LaneLayout::Cell;
using enum DType;
using Form = MatrixUnit::Form;

// ---- AMD: A and B alike. The first bits of a lane's number choose the row, an element's bits a run along k.

/// RDNA3: both halves of the wave hold the same 16 steps along k.
constexpr LaneLayout rdna3_in{
    16, {Cell{1, 0}, {2, 0}, {4, 0}, {8, 0}, {0, 0}}, {Cell{0, 1}, {0, 2}, {0, 4}, {0, 8}}};
constexpr LaneLayout rdna3_out{8, {Cell{0, 1}, {0, 2}, {0, 4}, {0, 8}, {1, 0}}, {Cell{2, 0}, {4, 0}, {8, 0}}};
/// RDNA4: each half holds 8.
constexpr LaneLayout rdna4_in{8, {Cell{1, 0}, {2, 0}, {4, 0}, {8, 0}, {0, 8}}, {Cell{0, 1}, {0, 2}, {0, 4}}};
constexpr LaneLayout rdna4_out{8, {Cell{0, 1}, {0, 2}, {0, 4}, {0, 8}, {8, 0}}, {Cell{1, 0}, {2, 0}, {4, 0}}};

/// CDNA, 16 x 16 and 32 x 32, with a run of `run` steps along k in a lane.
constexpr LaneLayout cdna_in(int rows, int run) {
  LaneLayout layout{.elements = run};
  int bit = 0, e = 0;
  for (int row = 1; row < rows; row *= 2) layout.lane[static_cast<size_t>(bit++)] = {row, 0};
  for (int k = run; bit < 6; k *= 2) layout.lane[static_cast<size_t>(bit++)] = {0, k};
  for (int k = 1; k < run; k *= 2) layout.element[static_cast<size_t>(e++)] = {0, k};
  return layout;
}
constexpr LaneLayout cdna16_out{
    4, {Cell{0, 1}, {0, 2}, {0, 4}, {0, 8}, {4, 0}, {8, 0}}, {Cell{1, 0}, {2, 0}}};
constexpr LaneLayout cdna32_out{
    16, {Cell{0, 1}, {0, 2}, {0, 4}, {0, 8}, {0, 16}, {4, 0}}, {Cell{1, 0}, {2, 0}, {8, 0}, {16, 0}}};

// ---- NVIDIA: four lanes share a row. `pair`: elements that lie together in a register.

constexpr LaneLayout mma_a(int pair, int k) {
  LaneLayout layout{.elements = pair * 2 * (k / (pair * 4))};
  layout.lane = {Cell{0, pair}, {0, 2 * pair}, {1, 0}, {2, 0}, {4, 0}};
  size_t e = 0;
  for (int step = 1; step < pair; step *= 2) layout.element[e++] = {0, step};
  layout.element[e++] = {8, 0};
  if (k > pair * 4) layout.element[e] = {0, pair * 4};
  return layout;
}
constexpr LaneLayout mma_b(int pair, int k) {
  LaneLayout layout{.elements = pair * (k / (pair * 4))};
  layout.lane = {Cell{0, pair}, {0, 2 * pair}, {1, 0}, {2, 0}, {4, 0}};
  size_t e = 0;
  for (int step = 1; step < pair; step *= 2) layout.element[e++] = {0, step};
  if (k > pair * 4) layout.element[e] = {0, pair * 4};
  return layout;
}
constexpr LaneLayout mma_out{4, {Cell{0, 2}, {0, 4}, {1, 0}, {2, 0}, {4, 0}}, {Cell{0, 1}, {8, 0}}};

/// Volta: two times four lanes, with numbers 16 apart, multiply 8 x 4 by 4 x 8 elements. Four such groups
/// make a wave. Two of them have the same rows of A, two the same columns of B. A lane holds all four steps
/// along k. Which rows and columns a group has is free: these let lanes read neighbours.
constexpr LaneLayout quads_a{4, {Cell{1, 0}, {2, 0}, {4, 0}, {0, 0}, {8, 0}}, {Cell{0, 1}, {0, 2}}};
constexpr LaneLayout quads_b{4, {Cell{1, 0}, {2, 0}, {0, 0}, {4, 0}, {8, 0}}, {Cell{0, 1}, {0, 2}}};
constexpr LaneLayout quads_out{8, {Cell{1, 0}, {0, 2}, {4, 0}, {0, 4}, {8, 0}}, {Cell{0, 1}, {2, 0}, {0, 8}}};

/// Four waves together: 64 rows and n columns.
constexpr LaneLayout wgmma_out(int n) {
  LaneLayout layout{.elements = n / 2};
  layout.lane = {Cell{0, 2}, {0, 4}, {1, 0}, {2, 0}, {4, 0}, {16, 0}, {32, 0}};
  size_t e = 0;
  layout.element[e++] = {0, 1};
  layout.element[e++] = {8, 0};
  for (int column = 8; column < n; column *= 2) layout.element[e++] = {0, column};
  return layout;
}

// ---- The units of each generation.

constexpr MatrixUnit rdna(std::string_view builtin, DType in, DType out, std::string_view operand,
                          const LaneLayout& inputs, const LaneLayout& sums) {
  const Form form = in == i8 ? Form::wmma_bytes : Form::wmma;
  return {"wmma 16x16x16", builtin, form, 16, 16, 16, 32, in, out, operand, inputs, inputs, sums};
}
constexpr MatrixUnit rdna3(std::string_view builtin, DType in, DType out, std::string_view operand) {
  return rdna(builtin, in, out, operand, rdna3_in, rdna3_out);
}
constexpr MatrixUnit rdna4(std::string_view builtin, DType in, DType out, std::string_view operand) {
  return rdna(builtin, in, out, operand, rdna4_in, rdna4_out);
}
constexpr MatrixUnit cdna(std::string_view name, std::string_view builtin, int rows, int k, DType in,
                          DType out, std::string_view operand, int flops_cycle) {
  const LaneLayout inputs = cdna_in(rows, k * rows / 64);
  return {name,
          builtin,
          Form::mfma,
          rows,
          rows,
          k,
          64,
          in,
          out,
          operand,
          inputs,
          inputs,
          rows == 32 ? cdna32_out : cdna16_out,
          flops_cycle};
}
/// The same, with factors that are rounded to tf32.
constexpr MatrixUnit tf32(MatrixUnit unit) {
  unit.tf32 = true;
  return unit;
}
constexpr MatrixUnit mma(std::string_view name, std::string_view instruction, int k, int pair, DType in,
                         DType out) {
  return {name, instruction, Form::mma, 16, 8, k, 32, in, out, "", mma_a(pair, k), mma_b(pair, k), mma_out};
}

constexpr MatrixUnit wgmma(std::string_view name, std::string_view instruction, int n, DType in,
                           DType out = f32) {
  const LaneLayout none{.elements = 0};
  const int k = 32 / static_cast<int>(size_of(in));
  return {name, instruction, Form::wgmma, 64, n, k, 128, in, out, "", none, none, wgmma_out(n)};
}

constexpr MatrixUnit gfx11[] = {rdna3("__builtin_amdgcn_wmma_f32_16x16x16_f16_w32", f16, f32, "_Float16"),
                                rdna3("__builtin_amdgcn_wmma_f32_16x16x16_bf16_w32", bf16, f32, "short"),
                                rdna3("__builtin_amdgcn_wmma_i32_16x16x16_iu8_w32", i8, i32, "int")};
constexpr MatrixUnit gfx12[] = {
    rdna4("__builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12", f16, f32, "_Float16"),
    rdna4("__builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12", bf16, f32, "short"),
    rdna4("__builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12", i8, i32, "int"),
    rdna4("__builtin_amdgcn_wmma_f32_16x16x16_fp8_fp8_w32_gfx12", f8e4m3, f32, "int"),
    rdna4("__builtin_amdgcn_wmma_f32_16x16x16_bf8_bf8_w32_gfx12", f8e5m2, f32, "int")};
/// Several lists as one.
template <size_t... Counts>
constexpr auto joined(const std::array<MatrixUnit, Counts>&... lists) {
  std::array<MatrixUnit, (Counts + ...)> all{};
  size_t at = 0;
  const auto add = [&](const auto& list) {
    for (const MatrixUnit& unit : list) all[at++] = unit;
  };
  (add(lists), ...);
  return all;
}

constexpr std::array cdna_floats = {
    cdna("mfma 32x32x8", "__builtin_amdgcn_mfma_f32_32x32x8f16", 32, 8, f16, f32, "_Float16", 1024),
    cdna("mfma 16x16x16", "__builtin_amdgcn_mfma_f32_16x16x16f16", 16, 16, f16, f32, "_Float16", 1024),
    cdna("mfma 32x32x2", "__builtin_amdgcn_mfma_f32_32x32x2f32", 32, 2, f32, f32, "float", 256),
    cdna("mfma 16x16x4", "__builtin_amdgcn_mfma_f32_16x16x4f32", 16, 4, f32, f32, "float", 256)};
constexpr std::array cdna1_bf16 = {
    cdna("mfma 32x32x4", "__builtin_amdgcn_mfma_f32_32x32x4bf16", 32, 4, bf16, f32, "short", 512),
    cdna("mfma 16x16x8", "__builtin_amdgcn_mfma_f32_16x16x8bf16", 16, 8, bf16, f32, "short", 512)};
constexpr std::array cdna2_bf16 = {
    cdna("mfma 32x32x8", "__builtin_amdgcn_mfma_f32_32x32x8bf16_1k", 32, 8, bf16, f32, "short", 1024),
    cdna("mfma 16x16x16", "__builtin_amdgcn_mfma_f32_16x16x16bf16_1k", 16, 16, bf16, f32, "short", 1024)};
constexpr std::array cdna1_bytes = {
    cdna("mfma 32x32x8", "__builtin_amdgcn_mfma_i32_32x32x8i8", 32, 8, i8, i32, "int", 1024),
    cdna("mfma 16x16x16", "__builtin_amdgcn_mfma_i32_16x16x16i8", 16, 16, i8, i32, "int", 1024)};
constexpr std::array cdna3_bytes = {
    cdna("mfma 32x32x16", "__builtin_amdgcn_mfma_i32_32x32x16_i8", 32, 16, i8, i32, "long", 4096),
    cdna("mfma 16x16x32", "__builtin_amdgcn_mfma_i32_16x16x32_i8", 16, 32, i8, i32, "long", 4096)};
constexpr std::array cdna3_tf32 = {
    tf32(cdna("tf32 mfma 32x32x4", "__builtin_amdgcn_mfma_f32_32x32x4_xf32", 32, 4, f32, f32, "float", 1024)),
    tf32(
        cdna("tf32 mfma 16x16x8", "__builtin_amdgcn_mfma_f32_16x16x8_xf32", 16, 8, f32, f32, "float", 1024))};
/// The units for e5m2 are left out: that type has no infinities in fnuz.
constexpr MatrixUnit fnuz(MatrixUnit unit) {
  unit.fnuz = true;
  return unit;
}
constexpr std::array cdna3_f8 = {fnuz(cdna("mfma 32x32x16", "__builtin_amdgcn_mfma_f32_32x32x16_fp8_fp8", 32,
                                           16, f8e4m3, f32, "long", 4096)),
                                 fnuz(cdna("mfma 16x16x32", "__builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8", 16,
                                           32, f8e4m3, f32, "long", 4096))};
/// CDNA4 multiplies twice as many steps along k at a time. Its floats of 8 bits are OCP's.
constexpr std::array cdna4_halves = {
    cdna("mfma 32x32x16", "__builtin_amdgcn_mfma_f32_32x32x16_f16", 32, 16, f16, f32, "_Float16", 4096),
    cdna("mfma 16x16x32", "__builtin_amdgcn_mfma_f32_16x16x32_f16", 16, 32, f16, f32, "_Float16", 4096),
    cdna("mfma 32x32x16", "__builtin_amdgcn_mfma_f32_32x32x16_bf16", 32, 16, bf16, f32, "__bf16", 4096),
    cdna("mfma 16x16x32", "__builtin_amdgcn_mfma_f32_16x16x32_bf16", 16, 32, bf16, f32, "__bf16", 4096)};
constexpr std::array cdna4_bytes = {
    cdna("mfma 32x32x32", "__builtin_amdgcn_mfma_i32_32x32x32_i8", 32, 32, i8, i32, "int", 8192),
    cdna("mfma 16x16x64", "__builtin_amdgcn_mfma_i32_16x16x64_i8", 16, 64, i8, i32, "int", 8192)};
constexpr std::array cdna4_f8 = {
    cdna("mfma 32x32x16", "__builtin_amdgcn_mfma_f32_32x32x16_fp8_fp8", 32, 16, f8e4m3, f32, "long", 4096),
    cdna("mfma 16x16x32", "__builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8", 16, 32, f8e4m3, f32, "long", 4096),
    cdna("mfma 32x32x16", "__builtin_amdgcn_mfma_f32_32x32x16_bf8_bf8", 32, 16, f8e5m2, f32, "long", 4096),
    cdna("mfma 16x16x32", "__builtin_amdgcn_mfma_f32_16x16x32_bf8_bf8", 16, 32, f8e5m2, f32, "long", 4096)};
/// CDNA2's units take subnormal f16 and bf16 for 0 (ROCm's and PyTorch's notes on numerical accuracy).
template <size_t Count>
constexpr std::array<MatrixUnit, Count> of_cdna2(std::array<MatrixUnit, Count> units) {
  for (MatrixUnit& unit : units) unit.flushes = unit.input == f16 || unit.input == bf16;
  return units;
}
/// CDNA3 multiplies f16 and bf16 twice as fast as CDNA2.
template <size_t Count>
constexpr std::array<MatrixUnit, Count> of_cdna3(std::array<MatrixUnit, Count> units) {
  for (MatrixUnit& unit : units) unit.flops_cycle *= unit.input == f32 ? 1 : 2;
  return units;
}
constexpr auto gfx908 = joined(cdna_floats, cdna1_bf16, cdna1_bytes);
constexpr auto gfx90a = of_cdna2(joined(cdna_floats, cdna2_bf16, cdna1_bytes));
constexpr auto cdna3_floats = of_cdna3(joined(cdna_floats, cdna2_bf16));
constexpr auto gfx942 = joined(cdna3_floats, cdna3_bytes, cdna3_tf32, cdna3_f8);
constexpr auto gfx950 = joined(cdna4_halves, cdna3_floats, cdna4_bytes, cdna4_f8);

/// Later chips have this instruction, too, but compute it slowly.
constexpr MatrixUnit sm_70[] = {{"mma 16x16x4", "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32",
                                 Form::quads, 16, 16, 4, 32, f16, f32, "", quads_a, quads_b, quads_out}};
/// Turing multiplies bytes by 8 rows; two such instructions make one unit, see multiply_add.cpp.
constexpr MatrixUnit sm_75[] = {
    mma("mma 16x8x8", "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", 8, 2, f16, f32),
    mma("mma 16x8x16", "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32", 16, 4, i8, i32)};
constexpr std::array sm_86 = {
    mma("mma 16x8x16", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 16, 2, f16, f32),
    mma("mma 16x8x16", "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", 16, 2, bf16, f32),
    mma("mma 16x8x32", "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", 32, 4, i8, i32),
    tf32(mma("tf32 mma 16x8x8", "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 8, 1, f32, f32))};

/// Units from sm_89 on, behind the others: NVRTC knows them since CUDA 12.4, see CompilerApi::known_units.
constexpr std::array f8_units = {
    mma("mma 16x8x32", "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32", 32, 4, f8e4m3, f32),
    mma("mma 16x8x32", "mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e5m2.f32", 32, 4, f8e5m2, f32)};
constexpr auto sm_89 = joined(sm_86, f8_units);

/// They keep about 14 bits of a sum (DeepSeek-V3, arXiv:2412.19437, section 3.3.2, which promotes as often).
constexpr MatrixUnit promoted(MatrixUnit unit) {
  unit.promotes_after = 128;
  return unit;
}

/// Units that only sm_90 has. Compilers know them under the name sm_90a.
constexpr std::array sm_90_wgmma = {
    wgmma("wgmma 64x256x16", "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16", 256, f16),
    wgmma("wgmma 64x256x16", "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16", 256, bf16),
    wgmma("wgmma 64x128x16", "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16", 128, f16),
    wgmma("wgmma 64x128x16", "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16", 128, bf16),
    wgmma("wgmma 64x64x16", "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16", 64, f16),
    wgmma("wgmma 64x64x16", "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16", 64, bf16),
    tf32(wgmma("tf32 wgmma 64x256x8", "wgmma.mma_async.sync.aligned.m64n256k8.f32.tf32.tf32", 256, f32)),
    tf32(wgmma("tf32 wgmma 64x128x8", "wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32", 128, f32)),
    tf32(wgmma("tf32 wgmma 64x64x8", "wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32", 64, f32)),
    wgmma("wgmma 64x256x32", "wgmma.mma_async.sync.aligned.m64n256k32.s32.s8.s8", 256, i8, i32),
    wgmma("wgmma 64x128x32", "wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8", 128, i8, i32),
    wgmma("wgmma 64x64x32", "wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8", 64, i8, i32),
    promoted(wgmma("wgmma 64x128x32", "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3", 128, f8e4m3)),
    promoted(wgmma("wgmma 64x128x32", "wgmma.mma_async.sync.aligned.m64n128k32.f32.e5m2.e5m2", 128, f8e5m2)),
    promoted(wgmma("wgmma 64x64x32", "wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3", 64, f8e4m3)),
    promoted(wgmma("wgmma 64x64x32", "wgmma.mma_async.sync.aligned.m64n64k32.f32.e5m2.e5m2", 64, f8e5m2))};
/// Up to sm_119, mma.sync has no floats of 8 bits: compilers multiply them as f16.
template <size_t Count>
constexpr std::array<MatrixUnit, Count> widened(std::array<MatrixUnit, Count> units) {
  for (MatrixUnit& unit : units) unit.as_f16 = true;
  return units;
}
/// An A100's units (its white paper), and what mma.sync reaches of an H100's, within a quarter.
template <size_t Count>
constexpr std::array<MatrixUnit, Count> of_a100(std::array<MatrixUnit, Count> units) {
  for (MatrixUnit& unit : units)
    unit.flops_cycle = unit.as_f16 ? 2048 : 4096 / static_cast<int>(size_of(unit.input));
  return units;
}
constexpr auto sm_80 = of_a100(sm_86);
constexpr auto sm_90 = of_a100(joined(sm_86, widened(f8_units)));
constexpr auto sm_90a = joined(sm_90_wgmma, sm_90);

/// The sum of two products of f16, or four of i8. A lane's rows and columns lie apart, so that lanes read
/// neighbours from local memory.
constexpr MatrixUnit dot(std::string_view name, std::string_view instruction, DType in, DType out,
                         std::string_view operand) {
  const int chunk = 16 / static_cast<int>(size_of(in));  // steps along k in 16 bytes
  LaneLayout a{.elements = 4 * chunk}, b = a;
  a.lane = {Cell{0, 0}, {0, 0}, {0, 0}, {1, 0}, {2, 0}};
  b.lane = {Cell{1, 0}, {2, 0}, {4, 0}};
  size_t e = 0;
  for (int k = 1; k < chunk; k *= 2, ++e) a.element[e] = b.element[e] = {0, k};
  for (int row = 1; row < 4; row *= 2, ++e) a.element[e] = {4 * row, 0}, b.element[e] = {8 * row, 0};
  const LaneLayout c{16, {Cell{0, 1}, {0, 2}, {0, 4}, {1, 0}, {2, 0}}, {Cell{0, 8}, {0, 16}, {4, 0}, {8, 0}}};
  return {name, instruction, Form::dot, 16, 32, chunk, 32, in, out, operand, a, b, c};
}

/// f32 by FMA.
constexpr std::array lanes = {
    MatrixUnit{"fma 16x32",
               "",
               Form::fma,
               16,
               32,
               1,
               32,
               f32,
               f32,
               "",
               {4, {Cell{0, 0}, {0, 0}, {0, 0}, {4, 0}, {8, 0}}, {Cell{1, 0}, {2, 0}}},
               {4, {Cell{4, 0}, {8, 0}, {16, 0}}, {Cell{1, 0}, {2, 0}}},
               {16, {Cell{0, 4}, {0, 8}, {0, 16}, {4, 0}, {8, 0}}, {Cell{0, 1}, {0, 2}, {1, 0}, {2, 0}}}}};
constexpr std::array two_halves = {dot("dot2 16x32", "__builtin_amdgcn_fdot2", f16, f32, "_Float16")};
/// FMA of f16 in f32, one after the other: pairs take half the registers and the local memory of numbers.
constexpr std::array mixed_halves = {dot("mix 16x32", "", f16, f32, "_Float16")};
constexpr std::array four_bytes = {dot("dot4 16x32", "__builtin_amdgcn_sdot4", i8, i32, "int")};
constexpr std::array cuda_bytes = {dot("dp4a 16x32", "dp4a.s32.s32", i8, i32, "")};
constexpr auto hip_dots = joined(lanes, two_halves, four_bytes);
constexpr auto cuda_dots = joined(lanes, cuda_bytes);
/// Of compute units with 64 lanes. In the same time a lane sums one product of f32, two of f16, four of i8.
template <size_t Count>
constexpr std::array<MatrixUnit, Count> of_64_lanes(std::array<MatrixUnit, Count> units) {
  for (MatrixUnit& unit : units) unit.flops_cycle = 512 / static_cast<int>(size_of(unit.input));
  return units;
}
constexpr auto lanes_64 = of_64_lanes(lanes);
constexpr auto hip_dots_64 = of_64_lanes(hip_dots);
constexpr auto cuda_dots_64 = of_64_lanes(cuda_dots);
constexpr auto mixed_64 = [] {
  auto units = joined(lanes_64, mixed_halves);
  units.back().flops_cycle = units.front().flops_cycle;  // an FMA for each product
  return units;
}();

int capability(std::string_view architecture) {
  int number = 0;
  if (architecture.starts_with("sm_"))
    std::from_chars(architecture.data() + 3, architecture.data() + architecture.size(), number);
  return number;
}

}  // namespace

LaneLayout::Cell LaneLayout::at(int of_lane, int of_element) const {
  Cell cell;
  const auto add = [&](const auto& steps, int number) {
    for (size_t bit = 0; bit < steps.size(); ++bit)
      if ((number >> bit & 1) != 0) cell.row += steps[bit].row, cell.column += steps[bit].column;
  };
  add(lane, of_lane);
  add(element, of_element);
  return cell;
}

bool MatrixUnit::interleaves_halves() const {
  return exchanges_lanes() && c.elements == rdna3_out.elements && c.lane == rdna3_out.lane &&
         c.element == rdna3_out.element;
}

int MatrixUnit::a_registers() const { return a.elements * static_cast<int>(size_of(input)) / 4; }
int MatrixUnit::b_registers() const { return b.elements * static_cast<int>(size_of(input)) / 4; }

std::span<const MatrixUnit> matrix_units(GpuTarget target, std::string_view architecture) {
  architecture = architecture.substr(0, architecture.find(':'));  // without features: "gfx90a:sramecc+"
  if (target == GpuTarget::hip) {
    if (architecture == "gfx908") return gfx908;
    if (architecture == "gfx90a") return gfx90a;
    if (architecture == "gfx940" || architecture == "gfx941" || architecture == "gfx942") return gfx942;
    if (architecture == "gfx950") return gfx950;
    if (architecture.starts_with("gfx11")) return gfx11;
    if (architecture.starts_with("gfx120")) return gfx12;
  }
  if (target == GpuTarget::cuda) {
    if (architecture == "sm_90a") return sm_90a;
    if (capability(architecture) >= 90 && capability(architecture) < 120) return sm_90;
    if (capability(architecture) >= 89) return sm_89;
    if (capability(architecture) > 80) return sm_86;
    if (capability(architecture) == 80) return sm_80;
    if (capability(architecture) >= 75) return sm_75;
    if (capability(architecture) >= 70) return sm_70;
  }
  return {};
}

std::span<const MatrixUnit> lane_units(GpuTarget target, std::string_view architecture) {
  if (target == GpuTarget::cuda) {
    const int known = capability(architecture);
    const bool few = known == 60 || (known >= 70 && known <= 80);
    if (known >= 61) return few ? cuda_dots_64 : cuda_dots;
    return few ? lanes_64 : lanes;
  }
  if (target != GpuTarget::hip) return lanes;
  // From gfx11 on, an instruction is two FMA of each of 64 lanes.
  if (architecture.starts_with("gfx11") || architecture.starts_with("gfx12")) return lanes;
  if (architecture.starts_with("gfx1010")) return mixed_64;
  const bool has_dots = architecture.starts_with("gfx906") || architecture.starts_with("gfx103") ||
                        architecture.starts_with("gfx1011") || architecture.starts_with("gfx1012");
  return has_dots ? std::span<const MatrixUnit>(hip_dots_64) : std::span<const MatrixUnit>(lanes_64);
}

bool has_async_copies(GpuTarget target, std::string_view architecture) {
  return target == GpuTarget::cuda && capability(architecture) >= 80;
}

bool has_box_copies(GpuTarget target, std::string_view architecture) {
  return target == GpuTarget::cuda && capability(architecture) >= 90;
}

}  // namespace athanor
