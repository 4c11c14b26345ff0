// Random programs of layers: ops on images (random_images.h), norms, products of odd shapes and batches, and
// what lies between them.
#pragma once
#include "tests/compile/random_images.h"

namespace athanor::testing {

class LayerMaker : protected ImageBuilder {
 public:
  LayerMaker(uint64_t seed, Numbers numbers) : ImageBuilder(seed, numbers) {}
  virtual ~LayerMaker() = default;

  /// A program of 2 to `most_ops` ops, if their values allow it.
  RandomProgram make(int64_t most_ops) {
    images_ = chance(0.65);
    leaf(images_ ? image_shape() : shape(static_cast<int>(between(2, 4))));
    const int64_t wanted = between(2, most_ops);
    std::vector<size_t> begins;
    for (int64_t made = 0, tries = 0; made < wanted && tries < 100; ++tries) try {
        const size_t begin = tensors_.size();
        if (op()) ++made, begins.push_back(begin);
      } catch (const Error& error) {  // shapes that do not fit
        if (error.code() != ErrorCode::shape && error.code() != ErrorCode::value) throw;
      }
    if (!begins.empty()) {
      const auto first = static_cast<size_t>(between(0, std::ssize(begins) - 1));
      program_.again = {begins[first], tensors_.size()};
      if (chance(0.7))
        program_.again.second =
            begins[static_cast<size_t>(between(static_cast<int64_t>(first), std::ssize(begins) - 1))];
      if (program_.again.second <= program_.again.first) program_.again.second = tensors_.size();
    }
    program_.has_loss = chance(0.85);
    if (program_.has_loss && program_.whole)
      for (const int end : unused())  // so that the gradients of elements differ
        add("mul", {end, leaf(shape_of(end))}, [](In t) { return t[0] * t[1]; });
    program_.outputs = unused();
    if (program_.has_loss && chance(0.4)) program_.steps = static_cast<int>(between(1, 3));
    program_.twice = program_.has_loss && program_.steps == 0 && chance(0.15);
    if (program_.has_loss && !program_.twice && chance(0.3)) program_.parts = 2, program_.apart = chance(0.5);
    return std::move(program_);
  }

 protected:
  virtual bool op() {
    const int64_t kind = between(0, 19);
    if (images_ && kind < 6) return convolution();
    if (images_ && kind < 8) return pool();
    if (images_ && kind < 10) return of_channels();
    if (!images_ && kind < 7) return product();
    if (numbers_ != Numbers::whole && chance(0.3)) return chance(0.8) ? statistics() : attention();
    if (kind < 13) return elementwise();
    if (kind < 16) return of_several();
    if (kind < 17) return reduction();
    if (kind < 18) return chance(0.5) ? product() : taken(pick(1, 4));
    return movement();
  }

  struct Choice {
    const char* name;
    ProgramValue::Compute compute;
    bool whole, smooth;
  };
  /// One of those that the program's numbers allow.
  const Choice& choose(const std::vector<Choice>& all) {
    for (;;) {
      const Choice& one = all[static_cast<size_t>(between(0, std::ssize(all) - 1))];
      if (numbers_ == Numbers::whole ? one.whole : numbers_ != Numbers::smooth || one.smooth) return one;
    }
  }
  bool elementwise() {
    static const std::vector<Choice> all = {
        {"relu", [](In t) { return relu(t[0]); }, true, false},
        {"abs", [](In t) { return abs(t[0]); }, true, false},
        {"square", [](In t) { return square(t[0]); }, true, true},
        {"clamp", [](In t) { return clamp(t[0], -2, 3); }, true, false},
        {"line", [](In t) { return t[0] * 2 - 1; }, true, true},
        {"half", [](In t) { return t[0] * 0.5; }, true, true},
        {"leaky", [](In t) { return where(less(t[0], 0), t[0] * 0.25, t[0]); }, true, false},
        {"sign", [](In t) { return sign(t[0]) + t[0]; }, true, false},
        {"gelu", [](In t) { return gelu(t[0]); }, false, true},
        {"silu", [](In t) { return silu(t[0]); }, false, true},
        {"tanh", [](In t) { return tanh(t[0]); }, false, true},
        {"sigmoid", [](In t) { return sigmoid(t[0]); }, false, true},
        {"exp", [](In t) { return exp(t[0] * 0.5); }, false, true}};
    const Choice& one = choose(all);
    return add(one.name, {pick()}, one.compute);
  }
  bool of_several() {
    static const std::vector<Choice> all = {
        {"add", [](In t) { return t[0] + t[1]; }, true, true},
        {"mul", [](In t) { return t[0] * t[1]; }, true, true},
        {"sub", [](In t) { return t[1] - t[0]; }, true, true},
        {"maximum", [](In t) { return maximum(t[0], t[1]); }, true, false},
        {"where", [](In t) { return where(less(t[0], t[1]), t[1] - 1, t[0]); }, true, false},
        {"gate", [](In t) { return silu(t[0]) * t[1]; }, false, true}};
    const int a = pick();
    const Choice& one = choose(all);
    return add(one.name, {a, partner(a)}, one.compute);
  }
  bool reduction() {
    const int a = pick(1);
    const bool rows = shape_of(a).rank() == 4 && chance(0.6);
    const Ints axes = rows ? chance(0.5) ? Ints{0, 2, 3} : Ints{2, 3} : some_axes(shape_of(a).rank());
    const bool keeps = chance(0.7);
    const double part = numbers_ == Numbers::whole ? 1 : 0.3;
    // Several elements that are the largest share its gradient, and a third is not exact.
    const auto from = [whole = numbers_ == Numbers::whole](const Tensor& t) { return whole ? detach(t) : t; };
    const std::vector<Choice> all = {
        {"sum", [=](In t) { return sum(t[0], axes, keeps) * part; }, true, true},
        {"max", [=](In t) { return max(from(t[0]), axes, keeps); }, true, false},
        {"less the sum", [=](In t) { return t[0] - sum(t[0], axes, true) * part; }, true, true},
        {"less the max", [=](In t) { return t[0] - max(from(t[0]), axes, true); }, true, false},
        {"mean", [=](In t) { return mean(t[0], axes, keeps); }, false, true},
        {"var", [=](In t) { return var(t[0], axes, keeps, 0); }, false, true}};
    const Choice& one = choose(all);
    return add(fmt::format("{} of axes {}{}", one.name, axes, keeps ? " kept" : ""), {a}, one.compute);
  }
  bool statistics() {
    const int a = pick(2), axis = axis_of(a);
    const int64_t width = shape_of(a)[shape_of(a).rank() - 1], channels = shape_of(a)[1];
    const int64_t groups = channels % 2 == 0 ? 2 : channels % 3 == 0 ? 3 : 1;
    const bool scaled = chance(0.7);
    const int scale = leaf({width}), shift = leaf({width});
    const int scales = leaf({channels}), shifts = leaf({channels});
    const auto given = [=](const Tensor& t) { return scaled ? t : Tensor(); };
    switch (between(0, 5)) {
      case 0:
        return add("layer_norm", {a, scale, shift},
                   [=](In t) { return layer_norm(t[0], 1, given(t[1]), given(t[2]), 0.1); });
      case 1:
      case 2:
        return add("batch_norm", {a, scales, shifts},
                   [=](In t) { return batch_norm(t[0], given(t[1]), given(t[2]), 0.1); });
      case 3:
        return add("group_norm", {a, scales, shifts},
                   [=](In t) { return group_norm(t[0], groups, given(t[1]), given(t[2]), 0.1); });
      case 4:
        return add("rms_norm", {a, scale}, [=](In t) { return rms_norm(t[0], given(t[1]), 0.1); });
      default:
        return add(fmt::format("softmax axis {}", axis), {a}, [=](In t) { return softmax(t[0], axis); });
    }
  }
  bool attention() {
    const int a = pick(3, 4);
    Ints extents = shape_of(a).to_ints();
    if (chance(0.5)) extents[extents.size() - 2] = extent();
    const AttentionOptions options{.causal = extents == shape_of(a).to_ints() && chance(0.5)};
    const int keys = leaf(Shape(extents)), of_keys = leaf(Shape(extents));
    return add("attention", {a, keys, of_keys},
               [=](In t) { return scaled_dot_product_attention(t[0], t[1], t[2], {}, options); });
  }
  bool movement() {
    const int a = pick(1), axis = axis_of(a);
    const int64_t way = between(0, 6);
    switch (way) {
      case 5:
        return add(fmt::format("concat axis {}", axis), {a}, [=](In t) {
          return concat({t[0] * 2, t[0], flip(t[0], {axis})}, axis);
        });
      case 6: {
        const int rank = shape_of(a).rank(), b = pick(rank, rank);
        return add(fmt::format("concat axis {} of two", axis), {a, b}, [=](In t) {
          return concat({t[0], t[1]}, axis);
        });
      }
      default:
        return moved(a, axis, way);
    }
  }
  /// Products with few rows or columns, of batches that are alike, broadcast or only on one side.
  bool product() {
    const int a = pick(2, 4);
    const Shape& of = shape_of(a);
    const int64_t inner = of[of.rank() - 1], rows = of[of.rank() - 2], width = extent();
    const double size = 1.5 / std::sqrt(static_cast<double>(inner));
    const auto batched = [&](int64_t m, int64_t n) {
      Ints extents = of.to_ints();
      extents.resize(extents.size() - 2);
      for (int64_t& e : extents)
        if (chance(0.3)) e = 1;
      if (chance(0.4)) extents.clear();
      extents.push_back(m), extents.push_back(n);
      return leaf(Shape(extents), size);
    };
    switch (between(0, 6)) {
      case 0: {
        const int w = leaf({width, inner}, size), b = leaf({width});
        return add("linear", {a, w, b}, [](In t) { return athanor::linear(t[0], t[1], t[2]); });
      }
      case 1:
        return add("matmul", {a, batched(inner, width)}, [](In t) { return matmul(t[0], t[1]); });
      case 2:
        return add("matmul by the transposed", {a, batched(width, inner)},
                   [](In t) { return matmul(t[0], transpose(t[1])); });
      case 3:
        return add("matmul of the transposed", {a, batched(rows, width)},
                   [](In t) { return matmul(transpose(t[0]), t[1]); });
      case 4:
        return add("matmul of both transposed", {a, batched(width, rows)},
                   [](In t) { return matmul(transpose(t[0]), transpose(t[1])); });
      case 5:
        return add("transposed matmul", {batched(width, rows), a},
                   [](In t) { return transpose(matmul(t[0], t[1])); });
      default:
        return add("gram", {a}, [](In t) { return matmul(t[0], transpose(t[0])); });
    }
  }
  bool images_ = false;
};

}  // namespace athanor::testing
