#include "athanor/kernels/gpu/templates/tile_cost.h"

#include <algorithm>
#include <cmath>

#include "athanor/base/ceil_div.h"
#include "athanor/device/data_sheet.h"
#include "athanor/kernels/gpu/templates/tile_stream.h"

namespace athanor::gpu {
namespace {

/// Instructions of a lane for each register that it writes to local memory, if the unit does not take
/// elements as they are.
double conversion(DType input, const MatrixUnit& unit) {
  if (unit.fnuz) return 6;
  if (unit.input == input) return 0;
  return input == DType::f8e4m3 ? 7 : unit.input == DType::f16 ? 1 : 4;
}

// The share of the peak of CDNA's units that the loop reaches if a compute unit has `groups` of them. A step
// of one group takes its multiplications' time and 450 cycles more, in which other groups multiply (two of
// them not always), until local memory moves its 128 bytes in each cycle. This is within a tenth of what
// tools/check-gpu-kernels --cost predicts for gfx942 and as many groups as a compute unit holds.
double share_of_peak(DType input, const TilePoint& point, int64_t groups, const GpuTraits& traits) {
  const int64_t size = static_cast<int64_t>(size_of(point.unit->input)),
                tile_bytes = (point.m + point.n) * point.k * size,
                wave_bytes = (point.m / point.waves_m + point.n / point.waves_n) * point.k * size;
  const auto held = static_cast<double>(std::clamp<int64_t>(
      traits.most_local_bytes() / (point.stages * tile_bytes), 1, std::max<int64_t>(groups, 1)));
  const double multiplying =
      static_cast<double>(2 * point.m * point.n * point.k) / static_cast<double>(point.unit->flops_cycle);
  // An instruction takes four cycles.
  const double converting = conversion(input, *point.unit) * 4 * static_cast<double>(tile_bytes) /
                            static_cast<double>(4 * point.items());
  const double moving = static_cast<double>(tile_bytes + point.waves_m * point.waves_n * wave_bytes) / 128;
  return std::min({held == 2 ? 0.88 : 1, held * multiplying / (multiplying + 450 + converting),
                   multiplying / std::max(moving, converting)});
}

/// How long the unit takes for what the chip's fastest unit for this type multiplies meanwhile.
double behind_fastest(const MatrixUnit& unit, const GpuTraits& traits) {
  int fastest = unit.flops_cycle;
  for (const MatrixUnit& other : traits.matrix_units)
    if (other.input == unit.input && other.tf32 == unit.tf32) fastest = std::max(fastest, other.flops_cycle);
  return static_cast<double>(fastest) / unit.flops_cycle;
}

/// What lanes do in f32, by the data sheet; without one, what is between those of most chips.
struct LaneRates {
  double flops_per_byte;  // of memory
  double flops_of_unit;   // of a compute unit, in a microsecond
  double f16_by_units;    // how many times as fast matrix units multiply f16
};
LaneRates lane_rates(const GpuTraits& traits) {
  LaneRates rates{traits.grain->flops_per_byte, 5e5, 5};
  const DataSheet* const sheet = traits.sheet;
  if (sheet == nullptr || !sheet->f32_tflops || !sheet->bandwidth_gb_s || sheet->compute_units == 0)
    return rates;
  rates.flops_per_byte = 1e3 * *sheet->f32_tflops / *sheet->bandwidth_gb_s;
  // Drivers count RDNA's work-group processors, which have two compute units each.
  const bool pairs = sheet->vendor == "AMD" && sheet->wave_width == "32";
  rates.flops_of_unit = 1e6 * *sheet->f32_tflops / sheet->compute_units * (pairs ? 2 : 1);
  if (sheet->f16_matrix_tflops.value_or(0) > 0)
    rates.f16_by_units = *sheet->f16_matrix_tflops / *sheet->f32_tflops;
  return rates;
}

/// How long local memory is busy with a tile, divided by the time of its multiplications: it takes the
/// elements once, and each wave reads those of its part. 0 if the unit's rate is not known.
double time_of_local_memory(const TilePoint& point) {
  const auto m = static_cast<double>(point.m), n = static_cast<double>(point.n),
             wave_m = m / static_cast<double>(point.waves_m), wave_n = n / static_cast<double>(point.waves_n);
  const double elements = 1 / m + 1 / n + 1 / wave_m + 1 / wave_n;  // for a product and its addition
  constexpr double bytes_cycle = 128;
  return elements * static_cast<double>(size_of(point.unit->input)) * point.unit->flops_cycle / 2 /
         bytes_cycle;
}

/// How many times as fast as f16 a matrix unit multiplies. Half as many bits take half as long.
double times_f16(const MatrixUnit& unit, const GpuTraits& traits) {
  const auto f16 = std::ranges::find(traits.matrix_units, DType::f16, &MatrixUnit::input);
  if (unit.flops_cycle > 0 && f16 != traits.matrix_units.end() && f16->flops_cycle > 0)
    return static_cast<double>(unit.flops_cycle) / f16->flops_cycle;
  return unit.as_f16 ? 1 : 2 / static_cast<double>(size_of(unit.input));
}

}  // namespace

double cost_of(const TileProblem& problem, const TilePoint& point, const GpuTraits& traits) {
  const TileProblem p = problem.with_equal_groups();
  const auto work = static_cast<double>(point.m * point.n);
  const double reuse = work / static_cast<double>(point.m + point.n);
  const int64_t groups = p.batch * ceil_div(p.m, point.m) * ceil_div(p.n, point.n) * point.splits;
  // A compute unit hides one group's waits behind another group's work; the last of an odd number runs alone.
  const int64_t rounds = ceil_div(groups, traits.compute_units);
  double full_rounds = static_cast<double>(rounds) + (rounds % 2 == 1 ? 0.1 : 0);
  if (point.streams > 0)
    full_rounds = static_cast<double>(groups) / traits.compute_units +
                  (point.streams / traits.compute_units % 2 == 1 ? 0.1 : 0);
  // A unit has four SIMDs (or a pair of units has), for waves of 32 lanes or of 64. Without a wave they are
  // idle.
  const double lanes = traits.sheet != nullptr && traits.sheet->wave_width == "64" ? 256 : 128;
  if (point.streams == 0) full_rounds = std::max(full_rounds, lanes / static_cast<double>(point.items()));
  // With two stages, a copy must arrive within one tile's multiplications.
  double waiting = point.async && point.stages == 2 ? 1.25 : 1;
  // Without asynchronous copies, all waves of a group that fills a multiprocessor wait at its barriers; of
  // two groups, one continues. On sm_75 in f16, tools/check-gpu-kernels --cost predicted 83 % of the peak for
  // tiles of 128 x 256 and 96 % for 128 x 128, before and after commit 31f9e7fb.
  const bool may_copy = point.unit->form == MatrixUnit::Form::mma || point.unit->reads_local();
  if (may_copy && !point.async && work > 128.0 * 128) waiting *= 1.2;
  // A lane with 4 x 4 sums reads twice as many bytes of local memory for a multiplication as one with 8 x 8.
  // Where 128 lanes share 128 bytes in a cycle (sm_86, gfx1100), it multiplies half as fast; where 64 do
  // (their rate is known), hardly slower. This and the numbers below are between what chips need, chosen with
  // tools/check-gpu-kernels --guesses.
  if (point.unit->of_lanes() && point.m * point.n < 64 * point.items())
    waiting *= point.unit->flops_cycle == 0 ? 1.5 : 1.1;
  // With 8 x 8 sums and longer steps than 8, an FMA kernel needs more than 128 registers, and a unit holds
  // half as many groups: gfx1030 29 % and gfx906 22 % more time, sm_86 6 %.
  if (point.unit->form == MatrixUnit::Form::fma && point.k > 8 && point.m * point.n >= 64 * point.items())
    waiting *= 1.15;
  // On an H100, the parts of a kernel before and after its loop took as long as 16 steps of 128 bytes, for a
  // group of 128 x 256 that has the multiprocessor to itself. Since then, half of the instructions after the
  // loop have been removed (docs/predicted-speed.md). If there are other groups, they continue meanwhile.
  double outside = 0;
  if (point.unit->reads_local()) {
    const int64_t bytes =
        point.stages * (point.m + point.n) * point.k * static_cast<int64_t>(size_of(point.unit->input));
    // (By machine code, an item takes so many registers; a multiprocessor has 65536.)
    const int64_t registers = point.loop_sums() + (point.boxes ? 32 : 56);
    const int64_t held = std::min(traits.most_local_bytes() / bytes, 65536 / (registers * point.items()));
    outside = static_cast<double>(point.k * (held > 1 ? 6 : 12));
  }
  const bool fast =
      !point.unit->of_lanes() && std::ranges::any_of(traits.matrix_units, &MatrixUnit::reads_local);
  // Units that read local memory reach the peak, the other units of their chips 63 % of it, and half as much
  // of that of 8-bit floats (docs/predicted-speed.md).
  constexpr double of_others = 0.63;
  const double rate = point.unit->reads_local() ? of_others : fast && point.unit->as_f16 ? 2 : 1;
  const double part_k = static_cast<double>(p.k) / static_cast<double>(point.splits) + outside;
  if (point.unit->form == MatrixUnit::Form::mfma)
    full_rounds =
        behind_fastest(*point.unit, traits) *
        (point.streams > 0 ? static_cast<double>(groups) / traits.compute_units /
                                 share_of_peak(p.input, point, point.streams / traits.compute_units, traits)
                           : static_cast<double>(rounds) / share_of_peak(p.input, point, rounds, traits));
  // By the rates of tools/gpu_cost, L2 delivers an element of A or B in the time of 10 to 60 multiplications,
  // and of 64 and more on chips with units that read local memory. That hides behind multiplications until it
  // takes as long. (A unit that multiplies f32 at an eighth of f16's rate needs half of it.)
  const auto bytes = static_cast<double>(size_of(point.unit->input));
  const double of_f16 = point.unit->of_lanes() ? 2 / bytes : times_f16(*point.unit, traits);
  double reading = std::hypot(1, (fast ? 48 : 24) * std::min(of_f16 * bytes, 1.0) / reuse);
  // Beside units as fast as an A100's, waves with small tiles wait for local memory: 32 x 64 by four waves
  // are predicted to reach 44 % of the peak, 64 x 64 67 %. Half of it counts: short loops wait for more.
  if (point.unit->form == MatrixUnit::Form::mma)
    reading = (reading + std::max(reading, time_of_local_memory(point))) / 2;
  double products = rate * waiting * full_rounds * work * reading * part_k;
  if (point.splits == 1 && point.streams == 0) return products;
  auto part_bytes = static_cast<double>(2 * 4 * point.splits * p.batch * p.m * p.n);
  if (point.streams > 0) {
    const TileStream stream(groups, ceil_div(p.k, point.k), point.streams);
    const int64_t parts = stream.groups + std::min(stream.groups, stream.divided);
    part_bytes = 2 * 4 * work * static_cast<double>(parts);
  }
  // A part, or a group's second tile, waits for its first reads, about two steps.
  products *= 1 + static_cast<double>(2 * point.k * point.splits) / static_cast<double>(p.k);
  const LaneRates rates = lane_rates(traits);
  // The time from one launch to the next, as in tools/gpu_cost/guesses.py.
  constexpr double microseconds = 2;
  const double added =
      part_bytes * rates.flops_per_byte / traits.compute_units + microseconds * rates.flops_of_unit;
  // Lanes multiply f16 twice as fast as f32, by sums of products.
  const double faster = of_f16 * (point.unit->of_lanes() ? 2 : rates.f16_by_units * (fast ? of_others : 1));
  return products + added / 2 * faster;
}

}  // namespace athanor::gpu
