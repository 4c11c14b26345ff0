// Connectionist temporal classification: Graves, Fernández, Gomez, Schmidhuber (2006).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "athanor/ops/creation.h"
#include "athanor/ops/define.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/indexing.h"
#include "athanor/ops/loss.h"
#include "athanor/ops/movement.h"
#include "athanor/ops/reduction.h"

namespace athanor {
namespace {

// The log-probability of impossible paths. It is finite, so that the difference of two is 0, not NaN.
constexpr double impossible = -1e30;

TensorType ctc_type(std::span<const TensorType> in, const Attrs& attrs) {
  const Shape &x = in[0].shape, &targets = in[1].shape;
  check_dtype(in[0], Accept::floats);
  if (x.rank() != 3 || x[0] < 1 || targets.rank() != 2 || targets[0] != x[1])
    throw Error(
        ErrorCode::shape,
        fmt::format("log-probabilities {} and targets {} do not fit", to_string(x), to_string(targets)), {},
        "They are [T, N, C] and [N, S]");
  const char* const names[] = {"targets", "input lengths", "target lengths"};
  for (size_t i = 1; i < 4; ++i) {
    if (in[i].dtype != DType::i64)
      throw Error(ErrorCode::dtype,
                  fmt::format("takes {} of i64, not {}", names[i - 1], to_string(in[i].dtype)));
    if (i > 1 && in[i].shape != Shape{x[1]})
      throw Error(ErrorCode::shape,
                  fmt::format("the {} are {}, not [{}]", names[i - 1], to_string(in[i].shape), x[1]));
  }
  if (attrs.integer("blank") < 0 || attrs.integer("blank") >= x[2])
    throw Error(ErrorCode::value, fmt::format("class {} as the blank, of {}", attrs.integer("blank"), x[2]),
                {}, fmt::format("It is in [0, {})", x[2]));
  return {in[0].dtype, {x[1]}, {}};
}

// log(exp(a) + exp(b))
Tensor log_add(const Tensor& a, const Tensor& b) {
  const Tensor high = maximum(a, b);
  return high + log(exp(a - high) + exp(b - high));
}

// x [N, L] shifted right by `by` elements.
Tensor moved(const Tensor& x, int64_t by) {
  return slice(pad(x, {0, by}, {0, 0}, impossible), 1, 0, x.size(1));
}

Tensor ctc_decompose(const std::vector<Tensor>& in, const Attrs& attrs) {
  const Tensor x = widened(in[0]);
  const Tensor &targets = in[1], &times = in[2], &labels = in[3];
  const int64_t t = x.size(0), n = x.size(1), s = targets.size(1), length = 2 * s + 1;
  const Device device = x.device();
  // The labels with blanks between them and at both ends: [N, 2 S + 1].
  const Tensor blank = full({n, s + 1}, static_cast<double>(attrs.integer("blank")), DType::i64, device);
  const Tensor pairs = reshape(stack({slice(blank, 1, 0, s), targets}, 2), {n, 2 * s});
  const Tensor path = concat({pairs, slice(blank, 1, s, s + 1)}, 1);
  const Tensor place = iota({1, length}, 1, device);
  // A label may follow another one without a blank between them, unless both are the same.
  const Tensor before = s > 0 ? slice(pad(path, {0, 2}, {0, 0}, -1), 1, 0, length) : path;
  const Tensor skips = equal(mod(place, 2), 1) & not_equal(path, before);
  const Tensor emitted = gather(x, unsqueeze(path, 0), 2);  // [T, N, L]

  Tensor alpha = where(less(place, 2), slice(emitted, {0}), impossible);
  for (int64_t time = 1; time < t; ++time) {
    const Tensor near = log_add(alpha, moved(alpha, 1));
    const Tensor all = log_add(near, where(skips, moved(alpha, 2), impossible));
    const Tensor next = maximum(all + slice(emitted, {time}), impossible);
    alpha = where(less(time, reshape(times, {n, 1})), next, alpha);
  }
  const Tensor end = reshape(2 * labels, {n, 1});
  const Tensor last = gather(alpha, end, 1);
  const Tensor other = where(less(0, end), gather(alpha, maximum(end - 1, 0), 1), impossible);
  const Tensor loss = -squeeze(log_add(last, other), {1});
  return cast(where(loss < -impossible / 2, loss, infinity), in[0].dtype());
}

// ---- Reference ----

/// Enumerates all ways to emit the labels of one example.
class Ways {
 public:
  Ways(std::span<const RefArray> in, const Attrs& attrs, int64_t n)
      : x_(in[0]), n_(n), times_(static_cast<int64_t>(in[2][n])), path_{attrs.integer("blank")} {
    for (int64_t i = 0; i < static_cast<int64_t>(in[3][n]); ++i) {
      path_.push_back(static_cast<int64_t>(in[1][n * in[1].shape[1] + i]));
      path_.push_back(attrs.integer("blank"));
    }
  }

  /// Calls f(probability, offsets in x of the emitted symbols).
  void each(const std::function<void(double, const Ints&)>& f) {
    go(0, 1, f);
    if (path_.size() > 1) go(1, 1, f);
  }

 private:
  void go(size_t at, double probability, const std::function<void(double, const Ints&)>& f) {
    if (at >= path_.size()) return;
    const auto time = static_cast<int64_t>(emitted_.size());
    emitted_.push_back((time * x_.shape[1] + n_) * x_.shape[2] + path_[at]);
    probability *= std::exp(x_[emitted_.back()]);
    if (time + 1 == times_) {
      if (at + 2 >= path_.size()) f(probability, emitted_);
    } else {
      go(at, probability, f), go(at + 1, probability, f);
      if (at % 2 == 1 && at + 2 < path_.size() && path_[at] != path_[at + 2]) go(at + 2, probability, f);
    }
    emitted_.pop_back();
  }

  const RefArray& x_;
  int64_t n_, times_;
  std::vector<int64_t> path_;
  Ints emitted_;
};

double probability_of(Ways& ways) {
  double total = 0;
  ways.each([&](double probability, const Ints&) { total += probability; });
  return total;
}

RefArray reference_ctc(std::span<const RefArray> in, const Attrs& attrs) {
  RefArray y({in[0].shape[1]});
  for (int64_t n = 0; n < y.shape[0]; ++n) {
    Ways ways(in, attrs, n);
    y[n] = -std::log(probability_of(ways));
  }
  return y;
}

RefArray reference_ctc_grad(std::span<const RefArray> in, const Attrs& attrs) {
  RefArray dx(in[0].shape);
  for (int64_t n = 0; n < in[0].shape[1]; ++n) {
    Ways ways(in, attrs, n);
    const double total = probability_of(ways);
    ways.each([&](double probability, const Ints& emitted) {
      for (const int64_t offset : emitted) dx[offset] -= in[4][n] * probability / total;
    });
  }
  return dx;
}

Tensor lengths_of(const Tensor& given, const char* name, int64_t most) {
  if (!is_int(given.dtype()))
    throw Error(ErrorCode::dtype,
                fmt::format("takes {} lengths of integers, not {}", name, to_string(given.dtype())));
  if (const auto known = given.known_integers())
    for (size_t i = 0; i < known->size(); ++i)
      if ((*known)[i] < (name[0] == 'i' ? 1 : 0) || (*known)[i] > most)
        throw Error(ErrorCode::value,
                    fmt::format("{} length {} of example {} is out of range", name, (*known)[i], i), {},
                    fmt::format("It is at least {} and at most {}", name[0] == 'i' ? 1 : 0, most));
  return cast(given, DType::i64);
}

}  // namespace

ATHANOR_OPS(ctc) {
  const auto of = [](int64_t t, int64_t n, int64_t c, int64_t s, int64_t blank) {
    const auto d = [](int64_t value) { return static_cast<double>(value); };
    const double low = blank == 0 ? 1 : 0, high = blank == 0 ? d(c) : d(c - 1);
    return OpCase{{{{t, n, c}, -4, -0.1},
                   {{n, s}, low, high, DType::i64},
                   {{n}, d(t - 1), d(t + 1), DType::i64},
                   {{n}, 0, d(s + 1), DType::i64}},
                  {{"blank", blank}}};
  };
  define_op(
      {.name = "ctc_loss",
       .doc =
           "-log P(targets): log-probabilities [T, N, C], targets [N, S], lengths of both [N] (i64) -> [N]",
       .arity = 4,
       .infer = ctc_type,
       .grad =
           [](const GradArgs& a) {
             std::vector<Operand> inputs(a.inputs.begin(), a.inputs.end());
             inputs.emplace_back(a.grad);
             return std::vector{apply(find_op("ctc_loss_grad"), inputs, a.attrs), Tensor(), Tensor(),
                                Tensor()};
           },
       .decompose = ctc_decompose,
       .reference = reference_ctc,
       .cases = {of(2, 2, 3, 1, 0), of(4, 3, 4, 2, 0), of(4, 2, 3, 2, 2)},
       .flops = [](std::span<const TensorType> in, const auto&,
                   const auto&) { return 20 * in[0].shape[0] * in[1].shape.size(); },
       .tolerance = 8,
       .cast_policy = CastPolicy::deny});
  const auto with_gradient = [](OpCase one) {
    one.inputs.push_back({{one.inputs[0].shape[1]}});
    return one;
  };
  define_op(
      {.name = "ctc_loss_grad",
       .doc = "ctc_loss's inputs, dy [N] -> its gradient by the log-probabilities, [T, N, C]",
       .arity = 5,
       .infer =
           [](std::span<const TensorType> in, const Attrs& attrs) {
             const TensorType y = ctc_type(in.first(4), attrs);
             if (in[4].shape != y.shape || in[4].dtype != y.dtype)
               throw Error(ErrorCode::shape, fmt::format("dy is {}, not {}", to_string(in[4]), to_string(y)));
             return in[0];
           },
       .decompose =
           [](const std::vector<Tensor>& in, const Attrs& attrs) {
             return decomposed_gradient(find_op("ctc_loss"), {in.begin(), in.end() - 1}, attrs, 0, in[4]);
           },
       .reference = reference_ctc_grad,
       .cases = {with_gradient(of(2, 2, 3, 1, 2)), with_gradient(of(4, 2, 4, 2, 0))},
       .flops = [](std::span<const TensorType> in, const auto&,
                   const auto&) { return 40 * in[0].shape[0] * in[1].shape.size(); },
       .tolerance = 16,
       .cast_policy = CastPolicy::deny});
}

Tensor ctc_loss(Operand log_probabilities, Operand targets, const Tensor& input_lengths,
                const Tensor& target_lengths, const CtcOptions& options) {
  static const Op& op = find_op("ctc_loss");
  return in_call(
      "ctc_loss",
      [&] {
        const Tensor x = as_tensor(log_probabilities), wanted = as_tensor(targets);
        for (const Tensor* lengths : {&input_lengths, &target_lengths})
          if (!lengths->defined())
            throw Error(
                ErrorCode::value,
                fmt::format("the {} lengths are undefined", lengths == &input_lengths ? "input" : "target"),
                {}, "They are integers [N]");
        if (x.rank() != 3 || wanted.rank() != 2)
          throw Error(ErrorCode::shape,
                      fmt::format("log-probabilities {} and targets {} do not fit", to_string(x.shape()),
                                  to_string(wanted.shape())),
                      {}, "They are [T, N, C] and [N, S]");
        if (x.size(1) == 0)
          throw Error(ErrorCode::shape, "the batch is empty: the mean of no losses is not defined", {},
                      "Leave empty batches out");
        const Tensor labels = lengths_of(target_lengths, "target", wanted.size(1));
        Tensor each = apply(op,
                            {x, is_int(wanted.dtype()) ? cast(wanted, DType::i64) : wanted,
                             lengths_of(input_lengths, "input", x.size(0)), labels},
                            {{"blank", options.blank}});
        if (options.zero_infinity) each = where(is_finite(each), each, 0);
        return mean(each / cast(maximum(labels, 1), each.dtype()));
      },
      log_probabilities, targets);
}

}  // namespace athanor
