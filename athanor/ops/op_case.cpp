#include "athanor/ops/op_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace athanor {
namespace {

/// An error that is always allowed: at least half the step between subnormal numbers.
double smallest(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return 0x1p-24;
    case DType::f8e4m3:
      return 0x1p-9;
    case DType::f8e5m2:
      return 0x1p-16;
    default:
      return 1e-37;
  }
}

class Allowance {
 public:
  Allowance(const FilledCase& c, const TensorType& type, const RefArray& expected) : type_(type) {
    for (const double value : expected.data)
      if (std::isfinite(value)) largest_ = std::max(largest_, std::abs(value));
    std::vector<TensorType> types;
    for (const HostArray& input : c.inputs) types.push_back({input.dtype, input.shape, {}});
    const auto elements = static_cast<double>(std::max<int64_t>(1, type.shape.size()));
    const double terms =
        c.op.flops ? std::max(1.0, static_cast<double>(c.op.flops(types, type, c.spec.attrs)) / elements) : 1;
    const bool plain = is_elementwise(c.op.prim) || is_movement(c.op.prim);
    if (c.op.prim == Prim::none)
      for (const HostArray& input : c.inputs)
        for (const double value : to_doubles(input))
          if (is_float(input.dtype)) largest_ = std::max(largest_, std::abs(value));
    floor_ = largest_ * (plain ? 1.0 / 64 : 1);
    factor_ = c.op.tolerance * (epsilon(type.dtype) +
                                4 * std::sqrt(terms) * std::min(epsilon(type.dtype), epsilon(DType::f32)));
  }
  double operator()(double expected) const {
    return factor_ * (std::abs(expected) + floor_) + smallest(type_.dtype);
  }

 private:
  TensorType type_;
  double largest_ = 0, floor_ = 0, factor_ = 0;
};

}  // namespace

std::vector<RefArray> FilledCase::exact() const {
  std::vector<RefArray> result;
  for (const HostArray& input : inputs) {
    result.emplace_back(input.shape);
    result.back().data = to_doubles(input);
  }
  return result;
}

FilledCase fill_case(const Op& op, const OpCase& spec, DType dtype, uint64_t seed) {
  std::seed_seq name(op.name.begin(), op.name.end());
  std::mt19937_64 random(name);
  random.discard(seed);
  FilledCase result{op, spec, {}, {}};
  for (const Sample& sample : spec.inputs) {
    const DType type = sample.dtype.value_or(dtype);
    std::uniform_real_distribution<double> distribution(sample.low, sample.high);
    std::vector<double> values(static_cast<size_t>(sample.shape.size()));
    for (double& value : values) {
      value = distribution(random);
      if (!is_float(type)) value = std::floor(value);
    }
    if (op.group_ends == result.inputs.size()) std::ranges::sort(values);
    result.inputs.push_back(from_doubles(type, sample.shape, values));
    result.free.push_back(!sample.dtype);
  }
  return result;
}

FilledCase fill_case(const Op& op, size_t number, DType dtype) {
  return fill_case(op, op.cases[number], dtype, number * 1000);
}

std::string describe(const FilledCase& c) {
  std::string text = c.op.name + "(";
  for (const HostArray& input : c.inputs)
    text += (text.back() == '(' ? "" : ", ") + to_string(TensorType{input.dtype, input.shape, {}});
  const std::string attrs = to_string(c.spec.attrs);
  return text + ")" + (attrs.empty() ? "" : " ") + attrs;
}

double epsilon(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return std::numeric_limits<double>::epsilon();
    case DType::f32:
      return std::numeric_limits<float>::epsilon();
    case DType::f16:
      return 0x1p-10;
    case DType::f8e4m3:
      return 0x1p-3;
    case DType::f8e5m2:
      return 0x1p-2;
    default:
      return 0x1p-7;
  }
}

std::string mismatch(const FilledCase& c, const HostArray& actual, double slack) {
  const RefArray reference = c.op.reference(c.exact(), c.spec.attrs);
  if (actual.shape != reference.shape)
    return fmt::format("it has the shape {}, not {}", to_string(actual.shape), to_string(reference.shape));
  const std::vector<double> got = to_doubles(actual);
  if (!is_float(actual.dtype)) {
    const auto expected = to_doubles(from_doubles(actual.dtype, reference.shape, reference.data));
    for (size_t i = 0; i < got.size(); ++i)
      if (got[i] != expected[i])
        return fmt::format("element {} of {} is {}, not {}", i, got.size(), got[i], expected[i]);
    return {};
  }
  const Allowance allowance(c, {actual.dtype, actual.shape, {}}, reference);
  const auto allowed = [&](double expected) { return slack * allowance(expected); };
  for (size_t i = 0; i < got.size(); ++i) {
    const double expected = reference.data[i], error = std::abs(got[i] - expected);
    const bool same = got[i] == expected || (std::isnan(got[i]) && std::isnan(expected));
    if (!same && !(error <= allowed(expected)))
      return fmt::format("element {} of {} is {:.6g}, not {:.6g} (off by {:.2g}, allowed {:.2g})", i,
                         got.size(), got[i], expected, error, allowed(expected));
  }
  return {};
}

}  // namespace athanor
