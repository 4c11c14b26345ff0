// Random programs give the same results whatever the compiler makes of them. ATHANOR_TEST_SEEDS=1000:3000
// takes these seeds instead, and does not stop at the first failure: one or two minutes on the host, and a
// second or more for each on PoCL. About one program in 1000 differs, because two elements that max compares
// are equal but for rounding.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <limits>

#include "athanor/compile/options.h"
#include "athanor/runtime/evaluate.h"
#include "tests/compile/random_ops.h"
#include "tests/support/gpu_devices.h"

namespace athanor {
namespace {

using testing::ProgramMaker, testing::ProgramValue, testing::RandomProgram;
using Results = std::vector<std::vector<double>>;

const std::string all_passes = [] {
  std::string names;
  for (int pass = 0; pass < pass_count; ++pass)
    names += (pass == 0 ? "" : ",") + std::string(to_string(static_cast<Pass>(pass)));
  return names;
}();
constexpr double disturbance = 1e-6;

struct Way {
  DType dtype = DType::f64;
  std::string without = "tune";
  Device device = {};
  Precision precision = Precision::f32;
  double moved = 0;  // how far the leaves are from their numbers
};

/// The leaves as tensors; parameters collect gradients.
std::vector<Tensor> leaves_of(const RandomProgram& program, const Way& way) {
  std::mt19937_64 random(1);
  std::vector<Tensor> leaves;
  for (const ProgramValue& value : program.values) {
    leaves.emplace_back();
    if (value.compute) continue;
    std::vector<double> numbers = to_doubles(value.number);
    for (double& x : numbers)
      x += way.moved * (std::abs(x) + 0.1) * (static_cast<double>(random() >> 11) * 0x1p-52 - 1);
    leaves.back() = Tensor::from(from_doubles(way.dtype, value.number.shape, numbers), way.device);
  }
  return leaves;
}

/// One step: results are added to `results`, and `leaves` and their `momentum` are updated.
void step(const RandomProgram& program, const Way& way, std::vector<Tensor>& leaves,
          std::vector<Tensor>& momentum, Results& results) {
  std::vector<Tensor> wanted, at;
  std::vector<size_t> parameters;
  for (size_t i = 0; i < leaves.size(); ++i)
    if (program.values[i].parameter) at.push_back(leaves[i].requires_grad()), parameters.push_back(i);
  {
    const Autocast scope(way.precision);
    std::vector<Tensor> all = leaves, gradients;
    for (size_t i = 0; i < all.size(); ++i) {
      if (!program.values[i].compute) continue;
      std::vector<Tensor> in;
      for (const int input : program.values[i].inputs) in.push_back(all[static_cast<size_t>(input)]);
      all[i] = program.values[i].compute(in);
    }
    Tensor loss = zeros({}, way.dtype, way.device);
    const auto squares = [](const Tensor& x) {
      return sum(square(x)) * (1 / std::sqrt(static_cast<double>(x.size())));
    };
    for (const int output : program.outputs) {
      const Tensor& x = all[static_cast<size_t>(output)];
      if (program.has_loss)
        loss = loss + squares(x);
      else
        wanted.push_back(x);
    }
    if (program.has_loss) gradients = grad({loss}, at), wanted.push_back(loss);
    if (program.twice) {
      Tensor total = zeros({}, way.dtype, way.device);
      for (const Tensor& g : gradients) total = total + squares(g);
      gradients = grad({total}, at);
    }
    for (size_t k = 0; k < gradients.size(); ++k) {
      if (program.steps == 0) {
        wanted.push_back(gradients[k]);
        continue;
      }
      Tensor &value = leaves[parameters[k]], &mean = momentum[parameters[k]];
      mean = mean.defined() ? mean * 0.9 + detach(gradients[k]) * 0.1 : detach(gradients[k]);
      value = detach(value) - mean * 0.05;
    }
  }
  at.clear();
  if (program.steps > 0)
    for (const size_t i : parameters) wanted.push_back(leaves[i]);
  eval(wanted);
  for (const Tensor& x : wanted) results.push_back(to_doubles(x.to_host()));
}

Results run(const RandomProgram& program, const Way& way) {
  const ScopedDisable off(way.without);
  std::vector<Tensor> leaves = leaves_of(program, way), momentum(leaves.size());
  Results results;
  for (int s = 0; s < std::max(1, program.steps); ++s) step(program, way, leaves, momentum, results);
  clear_plan_cache();
  return results;
}

double largest(const Results& results) {
  double size = 0;
  for (const std::vector<double>& result : results)
    for (const double x : result)
      if (!(std::abs(x) <= size))
        size = std::isnan(x) ? std::numeric_limits<double>::infinity() : std::abs(x);
  return size;
}

/// Compares with the exact results. How far results move if the leaves do says how exact they can be; of a
/// gradient of 0, the sizes of the others.
void expect_close(const Results& got, const Results& exact, const Results& disturbed, double epsilon) {
  ASSERT_EQ(got.size(), exact.size());
  const double size = std::max(0.5, largest(exact));
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].size(), exact[i].size());
    double moves = 0;
    for (size_t k = 0; k < exact[i].size(); ++k)
      moves = std::max(moves, std::abs(exact[i][k] - disturbed[i][k]));
    const double tolerance = epsilon * (40 * size + 8 * moves / disturbance);
    for (size_t k = 0; k < exact[i].size(); ++k)
      ASSERT_NEAR(got[i][k], exact[i][k], tolerance) << "result " << i << " element " << k;
  }
}

void expect_finite(const Results& got) {
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_TRUE(std::ranges::all_of(got[i], [](double x) { return std::isfinite(x); })) << "result " << i;
}

void expect_numbers(const Results& exact) {
  for (const std::vector<double>& result : exact)
    EXPECT_TRUE(std::ranges::none_of(result, [](double x) { return std::isnan(x); })) << "NaN without passes";
}

struct Seeds {
  unsigned first, last;
};
/// The seeds of a test, unless ATHANOR_TEST_SEEDS names others.
Seeds seeds(Seeds usual) {
  if (const char* text = std::getenv("ATHANOR_TEST_SEEDS")) {
    EXPECT_EQ(std::sscanf(text, "%u:%u", &usual.first, &usual.last), 2) << text;
  }
  return usual;
}

template <class Check>
void for_each_program(Seeds usual, int64_t ops, const Check& check) {
  const Seeds range = seeds(usual);
  const bool goes_on = range.first != usual.first || range.last != usual.last;
  unsigned checked = 0;
  for (unsigned seed = range.first; seed < range.last && (goes_on || !::testing::Test::HasFailure());
       ++seed) {
    const RandomProgram program = ProgramMaker(seed).make(ops);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + program.listing());
    const Results exact = run(program, {.without = all_passes}),
                  disturbed = run(program, {.without = all_passes, .moved = disturbance});
    expect_numbers(exact);
    if (largest(exact) >= 1e4) continue;  // the program diverges
    check(program, exact, disturbed);
    ++checked;
  }
  EXPECT_GT(2 * checked, range.last - range.first) << "most programs diverge";
}

TEST(RandomGraphs, MeanTheSameWithAllPasses) {
  for_each_program({0, 30}, 12,
                   [](const RandomProgram& program, const Results& exact, const Results& disturbed) {
                     expect_close(run(program, {}), exact, disturbed, 2e-14);
                     expect_close(run(program, {.dtype = DType::f32}), exact, disturbed, 2.4e-7);
                   });
}

TEST(RandomGraphs, AreFiniteInMixedPrecision) {
  for_each_program({40, 60}, 12, [](const RandomProgram& program, const Results&, const Results&) {
    expect_finite(run(program, {.dtype = DType::f32, .precision = Precision::bf16}));
  });
}

TEST(RandomGraphs, MeanTheSameOnAGpu) {
  ATHANOR_NEEDS_GPU();
  const Device gpu = testing::gpu_devices().front().device;
  for_each_program(
      {60, 62}, 3, [&](const RandomProgram& program, const Results& exact, const Results& disturbed) {
        expect_close(run(program, {.dtype = DType::f32, .device = gpu}), exact, disturbed, 2.4e-7);
      });
}

}  // namespace
}  // namespace athanor
