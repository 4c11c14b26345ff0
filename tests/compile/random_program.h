// Programs of tensors as data, and what it takes to make random ones (random_ops.h).
#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "athanor/ops/ops.h"

namespace athanor::testing {

/// A value of a program: a leaf, or an op on earlier values.
struct ProgramValue {
  using Compute = std::function<Tensor(const std::vector<Tensor>&)>;
  std::string text;
  std::vector<int> inputs;
  Compute compute;   // empty: a leaf
  HostArray number;  // f64
  bool parameter = false;
};

struct RandomProgram {
  std::vector<ProgramValue> values;
  std::vector<int> outputs;
  bool has_loss = false;  // the sum of the outputs' squares; its gradients by the parameters are results, too
  bool twice = false;     // the gradients of the gradients' squares instead
  int steps = 0;          // that update the parameters with momentum
  int parts = 1;          // whose gradients are added up; inputs have other signs in the second
  bool apart = false;     // parts are evaluated one by one
  bool whole = false;     // all numbers are whole; the loss is the outputs' sum
  std::pair<size_t, size_t> again = {};  // values from this one, up to that one: in a checkpoint
  std::string listing() const {
    std::string all;
    for (size_t i = 0; i < values.size(); ++i)
      all += fmt::format("%{} {} = {}{}({})\n", i, to_string(values[i].number.shape), values[i].text,
                         values[i].parameter ? " of a parameter" : "", fmt::join(values[i].inputs, ", "));
    return all + fmt::format("outputs {} loss {} twice {} steps {} parts {}{} checkpoint {}:{}\n",
                             fmt::join(outputs, ", "), has_loss, twice, steps, parts, apart ? " apart" : "",
                             again.first, again.second);
  }
};

/// Adds values to a program. Each is computed once, in f64, and left out if it is large.
class ProgramBuilder {
 public:
  explicit ProgramBuilder(uint64_t seed) : random_(seed) {}

 protected:
  using In = const std::vector<Tensor>&;

  int64_t between(int64_t low, int64_t high) {
    if (high < low) throw Error(ErrorCode::value, "there is nothing to draw from");
    return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1));
  }
  bool chance(double probability) { return static_cast<double>(random_() >> 11) * 0x1p-53 < probability; }
  int64_t extent() {
    if (empties_ > 0 && chance(empties_)) return 0;
    constexpr int64_t large[] = {128, 130, 255, 257, 512, 64, 1000, 1025, 96, 2050, 4099};
    if (large_ > 0 && chance(large_)) return large[between(0, 10)];
    constexpr int64_t extents[] = {1, 2, 3, 5, 7, 8, 16, 4, 17, 31, 33, 65};
    return extents[between(0, chance(0.7) ? 6 : 11)];
  }
  Shape shape(int rank) {
    Ints extents;
    for (int i = 0; i < rank; ++i) extents.push_back(extent());
    while (Shape(extents).size() > most_elements_ / 4)
      extents[static_cast<size_t>(between(0, rank - 1))] = between(1, 5);
    return Shape(extents);
  }
  const Shape& shape_of(int value) { return tensors_[static_cast<size_t>(value)].shape(); }

  int keep(ProgramValue value) {
    tensors_.push_back(Tensor::from(value.number));
    program_.values.push_back(std::move(value));
    return static_cast<int>(tensors_.size()) - 1;
  }
  int leaf(const Shape& of, double size = 1.5) {
    std::vector<double> numbers(static_cast<size_t>(of.size()));
    for (double& x : numbers) x = number(size);
    return keep({"leaf", {}, {}, from_doubles(DType::f64, of, numbers), chance(0.8)});
  }
  /// A number up to `size`; if the program is of whole ones, up to 2, and mostly 0 if `size` is small.
  double number(double size) {
    const double x = static_cast<double>(random_() >> 11) * 0x1p-52 - 1;
    if (!program_.whole) return static_cast<float>(x * size);
    return std::abs(x) > 0.6 * size ? 0 : (x < 0 ? -1 : 1) * (size > 1 && std::abs(x) < 0.2 ? 2 : 1);
  }
  bool add(std::string text, const std::vector<int>& inputs, ProgramValue::Compute compute) {
    std::vector<Tensor> in;
    for (const int i : inputs) in.push_back(tensors_[static_cast<size_t>(i)]);
    const HostArray number = compute(in).to_host();
    if ((number.size() == 0 && empties_ == 0) || number.size() > most_elements_ || number.shape.rank() > 5)
      return false;
    if (!std::ranges::all_of(to_doubles(number), [this](double x) { return std::abs(x) <= largest_; }))
      return false;
    keep({std::move(text), inputs, std::move(compute), number, false});
    return true;
  }
  std::vector<int> unused() {
    std::vector<int> all;
    for (int i = 0; i < static_cast<int>(tensors_.size()); ++i)
      if (program_.values[static_cast<size_t>(i)].compute &&
          std::ranges::none_of(program_.values,
                               [&](const ProgramValue& v) { return std::ranges::count(v.inputs, i) > 0; }))
        all.push_back(i);
    return all;
  }
  /// A value with so many axes, mostly one that nothing has used; a new leaf if there is none.
  int pick(int fewest = 0, int most = 5) {
    for (int tries = 0; tries < 20; ++tries) {
      const std::vector<int> ends = unused();
      const int value = !ends.empty() && chance(0.65)
                            ? ends[static_cast<size_t>(between(0, std::ssize(ends) - 1))]
                            : static_cast<int>(between(0, std::ssize(tensors_) - 1));
      if (shape_of(value).rank() >= fewest && shape_of(value).rank() <= most) return value;
    }
    return leaf(shape(static_cast<int>(between(fewest, std::min(most, 4)))));
  }
  /// Another value, perhaps one that broadcasts with it, or a new leaf that does.
  int partner(int value) {
    if (chance(0.5)) return pick();
    Ints extents = shape_of(value).to_ints();
    extents.erase(extents.begin(), extents.begin() + (chance(0.5) ? 0 : between(0, std::ssize(extents))));
    const double ones = chance(0.5) ? 0 : 0.6;
    for (int64_t& e : extents)
      if (chance(ones)) e = 1;
    return leaf(Shape(extents));
  }
  Ints some_axes(int rank) {
    Ints axes;
    for (int axis = 0; axis < rank; ++axis)
      if (chance(0.45)) axes.push_back(axis);
    if (axes.empty()) axes.push_back(between(0, rank - 1));
    return axes;
  }
  /// Permutes, reshapes, flattens, slices or pads a value, mostly along an axis. `way`: 0 to 4.
  bool moved(int a, int axis, int64_t way) {
    Ints extents = shape_of(a).to_ints();
    const int64_t n = extents[static_cast<size_t>(axis)];
    switch (way) {
      case 0: {
        Ints axes;
        for (int i = 0; i < std::ssize(extents); ++i) axes.insert(axes.begin() + between(0, i), i);
        return add(fmt::format("permute {}", axes), {a}, [=](In t) { return permute(t[0], axes); });
      }
      case 1: {
        const int64_t factor = n % 2 == 0 ? 2 : n % 3 == 0 ? 3 : 1;
        extents[static_cast<size_t>(axis)] /= factor;
        extents.insert(extents.begin() + axis + between(0, 1), factor);
        return add(fmt::format("reshape {}", extents), {a}, [=](In t) { return reshape(t[0], extents); });
      }
      case 2:
        return add(fmt::format("flatten {}", axis), {a}, [=](In t) { return flatten(t[0], axis); });
      case 3: {
        const int64_t start = between(0, n - 1), stop = between(start + 1, n), step = between(1, 2);
        return add(fmt::format("slice axis {} {}:{}:{}", axis, start, stop, step), {a},
                   [=](In t) { return slice(t[0], axis, start, stop, step); });
      }
      default: {
        Ints low(extents.size(), 0), high = low;
        low[static_cast<size_t>(axis)] = between(0, 2), high[static_cast<size_t>(axis)] = between(0, 3);
        return add(fmt::format("pad {} {}", low, high), {a}, [=](In t) { return pad(t[0], low, high); });
      }
    }
  }
  /// Some of a value's rows along an axis, perhaps several times.
  bool taken(int a) {
    const int axis = axis_of(a);
    std::vector<int64_t> at;
    for (int64_t i = between(1, 9); i > 0; --i) at.push_back(between(0, shape_of(a)[axis] - 1));
    const Shape count{std::ssize(at)};
    return add(fmt::format("take {} of axis {}", at, axis), {a},
               [=](In t) { return take(t[0], Tensor::from(at, count, t[0].device()), axis); });
  }
  int axis_of(int value) { return static_cast<int>(between(0, shape_of(value).rank() - 1)); }

  int64_t most_elements_ = 8000;
  double largest_ = 40;
  double empties_ = 0, large_ = 0;  // how probable extents of 0, and large ones, are
  std::mt19937_64 random_;
  RandomProgram program_;
  std::vector<Tensor> tensors_;  // the values, computed
};

}  // namespace athanor::testing
