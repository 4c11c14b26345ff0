// Compares random programs in many ways: of whole numbers by their bits, others within what rounding
// explains.
#pragma once
#include <functional>

#include "tests/compile/random_checks.h"
#include "tests/compile/random_images.h"
#include "tests/compile/random_seeds.h"

namespace athanor::testing {

/// Makes the program of a seed.
using Maker = std::function<RandomProgram(unsigned seed, Numbers numbers)>;

/// Whether a program runs in way `w`. On GPUs compiling takes long, so each runs in one of the ways only.
inline bool takes(const std::vector<Way>& ways, size_t w, unsigned seed) {
  return ways[w].device == Device{} || w == seed % ways.size();
}

/// run(), with the program's listing if it fails.
inline Results attempt(const RandomProgram& program, const Way& way) {
  try {
    return run(program, way);
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
    return {};
  }
}

inline void expect_same(const Results& got, const Results& exact) {
  ASSERT_EQ(got.size(), exact.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].size(), exact[i].size());
    for (size_t k = 0; k < exact[i].size(); ++k)
      ASSERT_EQ(got[i][k], exact[i][k]) << "result " << i << " element " << k;
  }
}

/// Whether no number has many bits. An average has, or the gradient of several elements that are the largest.
inline bool is_exact(const Results& results) {
  for (const std::vector<double>& result : results)
    for (const double x : result)
      if (!(std::abs(x) <= 1024 && std::floor(x * 1024) == x * 1024)) return false;
  return true;
}

/// Programs whose values, down to the last gradient, are exact in this way without passes.
/// Returns how many there were for each way.
inline std::vector<int> for_each_exact(Seeds usual, const Maker& make, const std::vector<Way>& ways) {
  std::vector<int> checked(ways.size());
  for_each_seed(usual, [&](unsigned seed) {
    const RandomProgram program = make(seed, Numbers::whole);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + program.listing());
    const Results exact = run(program, {.without = all_passes});
    if (!is_exact(exact)) return false;
    bool any = false;
    for (size_t w = 0; w < ways.size(); ++w) {
      const Way& way = ways[w];
      if (!takes(ways, w, seed)) continue;
      SCOPED_TRACE(std::string(to_string(way.precision)) + " " + std::string(to_string(way.dtype)));
      Way plain = way;
      plain.without = all_passes, plain.device = {}, plain.checkpoint = plain.squeezed = false;
      if (way.precision != Precision::f32 || way.dtype != DType::f64)
        if (run(program, plain) != exact) continue;
      any = true;
      ++checked[w];
      expect_same(attempt(program, way), exact);
    }
    return any;
  });
  return checked;
}

/// Half a unit in the last place, relatively: how far rounding moves a value.
inline double rounding(Precision precision) { return precision == Precision::bf16 ? 0x1p-9 : 0x1p-12; }

/// Each value of a program is rounded when it is stored, and some within ops. How far such noise moves the
/// results in float64 says how exact they can be: twice as much, because ops round within, in three draws,
/// of which the worst case is several times. Where terms cancel within an op, the sizes of the others count.
inline void expect_rounded(const RandomProgram& program, const Results& exact, const Way& way) {
  const double u = rounding(way.precision), size = largest(exact);
  std::vector<Results> moved;
  for (const unsigned draw : {1, 2, 3})
    moved.push_back(run(program, {.without = all_passes, .noise = 2 * u, .draw = draw}));
  const Results got = attempt(program, way);
  ASSERT_EQ(got.size(), exact.size());
  for (size_t i = 0; i < got.size(); ++i) {
    double moves = 0;
    for (size_t k = 0; k < exact[i].size(); ++k)
      for (const Results& m : moved) moves = std::max(moves, std::abs(exact[i][k] - m[i][k]));
    const double tolerance = 4 * moves + 2 * u * size + 1e-5;
    for (size_t k = 0; k < exact[i].size(); ++k)
      ASSERT_NEAR(got[i][k], exact[i][k], tolerance) << "result " << i << " element " << k;
  }
}

/// The ways of for_each_smooth() and for_each_real() on the CPU, and on a GPU.
inline std::vector<Way> smooth_ways() {
  return {{.dtype = DType::f32, .without = all_passes, .precision = Precision::bf16},
          {.dtype = DType::f32, .precision = Precision::bf16},
          {.dtype = DType::f32, .precision = Precision::f16}};
}
inline std::vector<Way> smooth_ways(Device gpu) {
  return {{.dtype = DType::f32, .device = gpu, .precision = Precision::bf16},
          {.dtype = DType::f32, .device = gpu, .precision = Precision::f16}};
}
inline std::vector<Way> real_ways() {
  return {{.dtype = DType::f64, .checkpoint = true},
          {.dtype = DType::f64, .squeezed = true},
          {.dtype = DType::f32},
          {.dtype = DType::f32, .checkpoint = true, .squeezed = true}};
}
inline std::vector<Way> real_ways(Device gpu) {
  return {{.dtype = DType::f32, .device = gpu},
          {.dtype = DType::f32, .device = gpu, .checkpoint = true, .squeezed = true}};
}

inline void for_each_smooth(Seeds usual, const Maker& make, const std::vector<Way>& ways) {
  for_each_seed(usual, [&](unsigned seed) {
    const RandomProgram program = make(seed, Numbers::smooth);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + program.listing());
    const Results exact = run(program, {.without = all_passes});
    if (largest(exact) > 64) return false;
    for (size_t w = 0; w < ways.size(); ++w) {
      const Way& way = ways[w];
      if (!takes(ways, w, seed)) continue;
      SCOPED_TRACE(std::string(to_string(way.precision)) + " " + std::string(to_string(way.dtype)));
      expect_rounded(program, exact, way);
    }
    return true;
  });
}

inline void for_each_real(Seeds usual, const Maker& make, const std::vector<Way>& ways) {
  for_each_seed(usual, [&](unsigned seed) {
    const RandomProgram program = make(seed, Numbers::real);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + program.listing());
    const Results exact = run(program, {.without = all_passes}),
                  moved = run(program, {.without = all_passes, .moved = disturbance});
    if (largest(exact) >= 1e4) return false;
    for (size_t w = 0; w < ways.size(); ++w) {
      const Way& way = ways[w];
      if (!takes(ways, w, seed)) continue;
      SCOPED_TRACE(std::string(to_string(way.dtype)) + (way.squeezed ? " squeezed" : "") +
                   (way.checkpoint ? " checkpoint" : ""));
      expect_close(attempt(program, way), exact, moved, way.dtype == DType::f64 ? 2e-14 : 2.4e-7);
    }
    return true;
  });
}

}  // namespace athanor::testing
