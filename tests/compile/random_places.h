// Adds ops by indices, and products of other forms, to a random program.
#pragma once
#include "tests/compile/random_values.h"

namespace athanor::testing {

class PlaceMaker : public ValueMaker {
 public:
  using ValueMaker::ValueMaker;

 protected:
  static Tensor index(const std::vector<int64_t>& at, const Shape& shape, DType dtype, Device device) {
    return cast(Tensor::from(at, shape, device), dtype);
  }
  std::vector<int64_t> places(int64_t count, int64_t extent) {
    std::vector<int64_t> at;
    for (; count > 0; --count) at.push_back(between(0, extent - 1));
    return at;
  }
  bool indexed() {
    const int a = pick(1, 4), axis = axis_of(a), rank = shape_of(a).rank();
    const int64_t n = shape_of(a)[axis];
    constexpr DType types[] = {DType::i64, DType::i32, DType::u8};
    const DType type = types[between(0, 2)];
    switch (between(0, 8)) {
      case 0: {
        const Shape of = shape(static_cast<int>(between(1, 2)));
        const std::vector<int64_t> at = places(of.size(), n);
        return add(fmt::format("take {} of {} axis {}", to_string(of), at, axis), {a},
                   [=](In t) { return take(t[0], index(at, of, type, t[0].device()), axis); });
      }
      case 1:
      case 2: {
        Ints extents = shape_of(a).to_ints();
        for (int i = 0; i < rank; ++i)
          if (i != axis && chance(0.15)) extents[static_cast<size_t>(i)] = 1;
        extents[static_cast<size_t>(axis)] = between(1, 9);
        const Shape of(extents);
        const std::vector<int64_t> at = places(of.size(), n);
        return add(fmt::format("gather {} axis {}", to_string(of), axis), {a},
                   [=](In t) { return athanor::gather(t[0], index(at, of, type, t[0].device()), axis); });
      }
      case 3:
      case 4: {
        const Shape of = shape_of(a);
        const int64_t made = between(1, 9);
        const std::vector<int64_t> at = places(of.size(), made);
        const double part = numbers_ == Numbers::whole ? 1 : 0.4;
        return add(fmt::format("scatter_add to {} axis {}", made, axis), {a}, [=](In t) {
          return scatter_add(index(at, of, type, t[0].device()), t[0] * part, axis, made);
        });
      }
      case 5: {
        const int64_t rows = between(1, 9), width = extent();
        const Shape of = shape(static_cast<int>(between(1, 2)));
        const std::vector<int64_t> at = places(of.size(), rows);
        return add(fmt::format("embedding of {}", at), {leaf({rows, width})},
                   [=](In t) { return embedding(t[0], index(at, of, type, t[0].device())); });
      }
      case 6: {  // indices that the device computes
        if (numbers_ != Numbers::whole) return false;
        const int64_t rows = between(1, 9), width = extent();
        return add("embedding of values", {a, leaf({rows, width})}, [=](In t) {
          return embedding(t[1], cast(clamp(abs(detach(t[0])), 0, static_cast<double>(rows - 1)), type));
        });
      }
      case 7: {
        const int64_t classes = between(1, 6);
        const Shape of = shape_of(a);
        const std::vector<int64_t> at = places(of.size(), classes + 1);
        return add(fmt::format("one_hot of {}", classes), {a}, [=](In t) {
          const Tensor hot = one_hot(index(at, of, DType::i64, t[0].device()), classes, t[0].dtype());
          return sum(hot * unsqueeze(t[0], -1), {-2});
        });
      }
      default: {
        const int place = axis_of(a);
        const double part = numbers_ == Numbers::whole ? 1 : 0.1;
        return add(fmt::format("plus iota of axis {}", place), {a}, [=](In t) {
          return t[0] + cast(iota(t[0].shape(), place, t[0].device()), t[0].dtype()) * part;
        });
      }
    }
  }
  bool rare_product() {
    const int a = pick(1, 4), rank = shape_of(a).rank();
    const Ints of = shape_of(a).to_ints();
    const int64_t inner = of.back(), width = extent();
    const double size = 1.5 / std::sqrt(static_cast<double>(inner));
    switch (between(0, 8)) {
      case 0:
        return add("times a vector", {a, leaf({inner}, size)}, [](In t) { return matmul(t[0], t[1]); });
      case 1:
        if (rank < 2) return false;
        return add("vector times", {leaf({of[of.size() - 2]}, size), a},
                   [](In t) { return matmul(t[0], t[1]); });
      case 2:
        return add("linear without bias", {a, leaf({width, inner}, size)},
                   [](In t) { return athanor::linear(t[0], t[1]); });
      case 3: {
        if (rank < 2) return false;
        const int axis = axis_of(a);
        const int64_t n = of[static_cast<size_t>(axis)];
        return add(fmt::format("dot_general over {}", axis),
                   {a, leaf({width, n, 2}, 1.5 / std::sqrt(static_cast<double>(n)))},
                   [=](In t) { return dot_general(t[0], t[1], {axis}, {1}); });
      }
      case 4: {
        if (rank != 3) return false;
        const std::pair<const char*, Ints> forms[] = {
            {"bij,bjk->bik", {of[0], of[2], width}}, {"bij,bkj->kib", {of[0], width, of[2]}},
            {"bij,ij->b", {of[1], of[2]}},           {"bij,bik->jk", {of[0], of[1], width}},
            {"bij,jk->kbi", {of[2], width}},         {"bij,b->ij", {of[0]}},
            {"bij,bj->bi", {of[0], of[2]}},          {"bij,bij->bi", of},
            {"bij,kj->ik", {width, of[2]}},          {"bij,k->bkij", {2}}};
        const auto& [form, extents] = forms[between(0, 9)];
        return add(fmt::format("einsum {}", form), {a, leaf(Shape(extents), size)},
                   [form = std::string(form)](In t) {
                     return einsum(form, {t[0], t[1]});
                   });
      }
      case 5: {
        if (rank != 2) return false;
        std::vector<int64_t> ends;
        int64_t end = 0;
        for (int64_t e = between(1, 4); e > 0; --e) ends.push_back(end = between(end, of[0]));
        const int64_t groups = std::ssize(ends);
        return add(fmt::format("grouped_matmul {}", ends), {a, leaf({groups, inner, width}, size)},
                   [=](In t) {
                     return grouped_matmul(t[0], t[1], Tensor::from(ends, Shape{groups}, t[0].device()));
                   });
      }
      case 6: {
        if (rank != 2) return false;
        std::vector<int64_t> starts{0}, columns;
        const int64_t rows = between(1, 6);
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t c = 0; c < of[0]; ++c)
            if (columns.size() < 30 && chance(0.3)) columns.push_back(c);
          starts.push_back(std::ssize(columns));
        }
        const int64_t stored = std::ssize(columns), total = of[0];
        if (stored == 0 && empties_ == 0) return false;
        return add(fmt::format("csr_matmul {} {}", starts, columns), {a, leaf({stored}, 0.7)}, [=](In t) {
          const Device d = t[0].device();
          const Tensor values = cast(t[1], t[0].dtype());
          return csr_matmul({Tensor::from(starts, Shape{rows + 1}, d),
                             Tensor::from(columns, Shape{stored}, d), values, total},
                            t[0]);
        });
      }
      case 7: {
        if (numbers_ != Numbers::whole || rank < 2) return false;
        return add("wide_matmul of i8", {a, leaf({inner, width}, size)}, [](In t) {
          return like(wide_matmul(cast(t[0], DType::i8), cast(t[1], DType::i8)), t[0]);
        });
      }
      default: {
        if (numbers_ != Numbers::whole || rank < 2) return false;
        return add("matmul of integers", {a, leaf({inner, width}, size)},
                   [](In t) { return like(matmul(whole(t[0]), whole(t[1])), t[0]); });
      }
    }
  }
};

}  // namespace athanor::testing
