// Runs a random program (random_program.h) on a device, in a precision, with some passes.
#pragma once
#include <limits>
#include <string>
#include <vector>

#include "athanor/compile/low_limit.h"
#include "athanor/compile/options.h"
#include "athanor/graph/precision.h"
#include "athanor/nn/checkpoint.h"
#include "athanor/runtime/evaluate.h"
#include "tests/compile/random_program.h"

namespace athanor::testing {

using Results = std::vector<std::vector<double>>;

inline const std::string all_passes = [] {
  std::string names;
  for (int pass = 0; pass < pass_count; ++pass)
    names += (pass == 0 ? "" : ",") + std::string(to_string(static_cast<Pass>(pass)));
  return names;
}();

struct Way {
  DType dtype = DType::f64;
  std::string without = "tune";
  Device device = {};
  Precision precision = Precision::f32;
  double moved = 0;         // how far the leaves are from their numbers
  double noise = 0;         // how far each value is from its number, relatively; gradients follow
  unsigned draw = 1;        // of such movements
  bool checkpoint = false;  // whether RandomProgram::again is recomputed
  bool squeezed = false;    // whether plans get the least memory that they can do with
};

/// The leaves as tensors; parameters collect gradients.
inline std::vector<Tensor> leaves_of(const RandomProgram& program, const Way& way) {
  std::mt19937_64 random(way.draw);
  std::vector<Tensor> leaves;
  for (const ProgramValue& value : program.values) {
    leaves.emplace_back();
    if (value.compute) continue;
    std::vector<double> numbers = to_doubles(value.number);
    if (way.moved > 0)
      for (double& x : numbers)
        x += way.moved * (std::abs(x) + 0.1) * (static_cast<double>(random() >> 11) * 0x1p-52 - 1);
    leaves.back() = Tensor::from(from_doubles(way.dtype, value.number.shape, numbers), way.device);
  }
  return leaves;
}

/// Evaluates with the least memory that the plan can do with.
inline void eval_squeezed(const std::vector<Tensor>& wanted) {
  const CompileOptions before = compile_options();
  compile_options().memory_limit = 1;
  try {
    eval(wanted);
  } catch (const LowMemoryLimit& error) {
    compile_options().memory_limit = error.least();
    eval(wanted);
  }
  compile_options() = before;
}

/// The values of a program, from its leaves.
inline std::vector<Tensor> values_of(const RandomProgram& program, const Way& way, std::vector<Tensor> all) {
  std::mt19937_64 random(way.draw);
  // The value, with as much noise as rounding it causes.
  const auto noisy = [&](const Tensor& x) {
    if (way.noise == 0) return x;
    std::vector<double> factors(static_cast<size_t>(x.size()));
    for (double& f : factors) f = 1 + way.noise * (static_cast<double>(random() >> 11) * 0x1p-52 - 1);
    return x * Tensor::from(from_doubles(way.dtype, x.shape(), factors), way.device);
  };
  if (way.noise != 0)
    for (Tensor& leaf : all)
      if (leaf.defined()) leaf = noisy(leaf);
  const auto compute = [&](size_t i) {
    if (!program.values[i].compute) return;
    std::vector<Tensor> in;
    for (const int input : program.values[i].inputs) in.push_back(all[static_cast<size_t>(input)]);
    all[i] = noisy(program.values[i].compute(in));
  };
  for (size_t i = 0; i < all.size(); ++i) {
    if (!way.checkpoint || i != program.again.first || program.again.second <= i) {
      compute(i);
      continue;
    }
    const size_t end = program.again.second;
    nn::checkpoint(
        [&](const Tensor&) {
          for (; i < end; ++i) compute(i);
          return all[--i];
        },
        {});
  }
  return all;
}

/// A number for each parameter, and the loss or the outputs in `wanted`.
inline std::vector<Tensor> gradients_of(const RandomProgram& program, const Way& way,
                                        const std::vector<Tensor>& leaves, const std::vector<Tensor>& at,
                                        std::vector<Tensor>& wanted) {
  const std::vector<Tensor> all = values_of(program, way, leaves);
  Tensor loss = zeros({}, way.dtype, way.device);
  const auto squares = [](const Tensor& x) {
    return sum(square(x)) * (1 / std::sqrt(std::max<double>(1, static_cast<double>(x.size()))));
  };
  for (const int output : program.outputs) {
    const Tensor& x = all[static_cast<size_t>(output)];
    if (program.has_loss)
      loss = loss + (program.whole ? sum(x) : squares(x));
    else
      wanted.push_back(x);
  }
  if (!program.has_loss) return {};
  wanted.push_back(detach(loss));  // of one that can be differentiated again, no input is updated in place
  std::vector<Tensor> gradients = grad({loss}, at);
  if (!program.twice) return gradients;
  Tensor total = zeros({}, way.dtype, way.device);
  for (const Tensor& g : gradients) total = total + (program.whole ? sum(square(g)) : squares(g));
  return grad({total}, at);
}

/// The gradients of a step, which may have two parts.
inline std::vector<Tensor> gradients_of_parts(const RandomProgram& program, const Way& way,
                                              const std::vector<Tensor>& leaves,
                                              const std::vector<Tensor>& at, std::vector<Tensor>& wanted) {
  const Autocast scope(way.precision);
  std::vector<Tensor> sums = gradients_of(program, way, leaves, at, wanted);
  if (program.parts == 1) return sums;
  const Autocast exact(Precision::f32);
  for (Tensor& g : sums) g = detach(g);
  if (program.apart) eval(sums);
  std::vector<Tensor> inputs = leaves;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].defined() && !program.values[i].parameter) inputs[i] = -inputs[i];
  std::vector<Tensor> more;
  {
    const Autocast again(way.precision);
    more = gradients_of(program, way, inputs, at, wanted);
  }
  for (size_t k = 0; k < sums.size(); ++k) sums[k] = sums[k] + detach(more[k]);
  return sums;
}

/// One step: results are added to `results`, and `leaves` and their `momentum` are updated.
inline void step(const RandomProgram& program, const Way& way, std::vector<Tensor>& leaves,
                 std::vector<Tensor>& momentum, Results& results) {
  std::vector<Tensor> wanted, at;
  std::vector<size_t> parameters;
  for (size_t i = 0; i < leaves.size(); ++i)
    if (program.values[i].parameter) at.push_back(leaves[i].requires_grad()), parameters.push_back(i);
  {
    const std::vector<Tensor> gradients = gradients_of_parts(program, way, leaves, at, wanted);
    for (size_t k = 0; k < gradients.size(); ++k) {
      if (program.steps == 0) {
        wanted.push_back(gradients[k]);
        continue;
      }
      Tensor &value = leaves[parameters[k]], &mean = momentum[parameters[k]];
      const Tensor g = detach(gradients[k]);
      if (program.whole) {
        mean = clamp(mean.defined() ? g - mean : g, -1, 1);
        value = clamp(detach(value) - mean, -2, 2);
      } else {
        mean = mean.defined() ? mean * 0.9 + g * 0.1 : g;
        value = detach(value) - mean * 0.05;
      }
    }
  }
  at.clear();
  if (program.steps > 0)
    for (const size_t i : parameters) wanted.push_back(leaves[i]);
  if (way.squeezed)
    eval_squeezed(wanted);
  else
    eval(wanted);
  for (const Tensor& x : wanted) results.push_back(to_doubles(x.to_host()));
}

inline Results run(const RandomProgram& program, const Way& way) {
  const ScopedDisable off(way.without);
  std::vector<Tensor> leaves = leaves_of(program, way), momentum(leaves.size());
  Results results;
  for (int s = 0; s < std::max(1, program.steps); ++s) step(program, way, leaves, momentum, results);
  clear_plan_cache();
  return results;
}

inline double largest(const Results& results) {
  double size = 0;
  for (const std::vector<double>& result : results)
    for (const double x : result)
      if (!(std::abs(x) <= size))
        size = std::isnan(x) ? std::numeric_limits<double>::infinity() : std::abs(x);
  return size;
}

}  // namespace athanor::testing
