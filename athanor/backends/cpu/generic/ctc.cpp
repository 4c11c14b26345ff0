// ctc_loss and its gradient: a thread walks through the times of an example, forward and then backward.
#include <algorithm>
#include <cmath>
#include <limits>

#include "athanor/backends/cpu/generic/index.h"
#include "athanor/backends/cpu/generic/numeric.h"
#include "athanor/backends/cpu/generic/strided.h"
#include "athanor/backends/cpu/kernels.h"
#include "athanor/backends/cpu/parallel.h"

namespace athanor::cpu {
namespace {

struct Alignment {
  int64_t times, batch, classes, labels, blank;

  Alignment(const Shape& x, const Shape& targets, const Attrs& attrs)
      : times(x[0]), batch(x[1]), classes(x[2]), labels(targets[1]), blank(attrs.integer("blank")) {}

  /// The number of places in a path: labels with blanks between and around them.
  int64_t places() const { return 2 * labels + 1; }
  int64_t work() const { return times * batch * places() * 32; }
};

/// The ways to emit one example's labels. alpha[t][s]: the logarithm of the probability of all ways to be at
/// place s at time t, including the emissions up to time t.
template <class T>
class Example {
 public:
  using A = Acc<T>;
  static constexpr A impossible = -std::numeric_limits<A>::infinity();

  Example(const Alignment& a, const T* x, const int64_t* targets, const int64_t* times, const int64_t* labels,
          int64_t n)
      : a_(a), x_(x + n * a.classes), times_(times[n]), places_(2 * labels[n] + 1) {
    checked_index(times_ - 1, a.times, "ctc_loss");
    checked_index(labels[n], a.labels + 1, "ctc_loss");
    path_.resize(static_cast<size_t>(places_), a.blank);
    for (int64_t i = 0; i < labels[n]; ++i)
      path_[static_cast<size_t>(2 * i + 1)] = checked_index(targets[n * a.labels + i], a.classes, "ctc_loss");
    alpha_.resize(static_cast<size_t>(times_ * places_), impossible);
  }

  A loss() {
    for (int64_t s = 0; s < std::min<int64_t>(2, places_); ++s)
      alpha_[static_cast<size_t>(s)] = emitted(0, s);
    for (int64_t t = 1; t < times_; ++t) {
      const A* before = alpha_.data() + (t - 1) * places_;
      A* now = alpha_.data() + t * places_;
      for (int64_t s = 0; s < places_; ++s)
        now[s] = emitted(t, s) + log_sum(before[s], s > 0 ? before[s - 1] : impossible,
                                         s > 1 && skips(s) ? before[s - 2] : impossible);
    }
    const A* last = alpha_.data() + (times_ - 1) * places_;
    return -log_sum(last[places_ - 1], places_ > 1 ? last[places_ - 2] : impossible, impossible);
  }

  /// Writes this example's rows of dx [T, N, C], which the caller has set to zeros. Call loss() first.
  void gradient(A loss, A dloss, T* dx, A* row) const {
    if (loss == -impossible) return;  // the labels cannot be emitted: the loss is constant
    std::vector<A> beta(static_cast<size_t>(places_), impossible), next(beta);
    for (int64_t t = times_; t-- > 0;) {
      for (int64_t s = 0; s < places_; ++s) {
        const A after =
            t + 1 == times_
                ? (s + 2 >= places_ ? A{0} : impossible)
                : log_sum(next[static_cast<size_t>(s)],
                          s + 1 < places_ ? next[static_cast<size_t>(s + 1)] : impossible,
                          s + 2 < places_ && skips(s + 2) ? next[static_cast<size_t>(s + 2)] : impossible);
        beta[static_cast<size_t>(s)] = after + emitted(t, s);
      }
      std::fill_n(row, a_.classes, A{0});
      for (int64_t s = 0; s < places_; ++s) {
        const A both = alpha_[static_cast<size_t>(t * places_ + s)] + beta[static_cast<size_t>(s)];
        if (both != impossible)
          row[path_[static_cast<size_t>(s)]] -= dloss * std::exp(both - emitted(t, s) + loss);
      }
      for (int64_t c = 0; c < a_.classes; ++c) dx[t * a_.batch * a_.classes + c] = store<T>(row[c]);
      std::swap(beta, next);
    }
  }

 private:
  static A log_sum(A a, A b, A c) {
    const A high = std::max({a, b, c});
    if (high == impossible) return impossible;
    return high + std::log(std::exp(a - high) + std::exp(b - high) + std::exp(c - high));
  }
  A emitted(int64_t t, int64_t s) const {
    return load(x_[t * a_.batch * a_.classes + path_[static_cast<size_t>(s)]]);
  }
  // Whether place s may follow place s - 2: it is a label that differs from the one there.
  bool skips(int64_t s) const {
    return s % 2 == 1 && path_[static_cast<size_t>(s)] != path_[static_cast<size_t>(s - 2)];
  }

  const Alignment& a_;
  const T* x_;
  int64_t times_, places_;
  std::vector<int64_t> path_;
  std::vector<A> alpha_;
};

template <class T>
Candidate make_alignment(const KernelRequest& request) {
  size_t copies = 0;
  const MergedInput x(request, 0, {}, copies), targets(request, 1, {}, copies), times(request, 2, {}, copies),
      labels(request, 3, {}, copies);
  const Alignment a(request.inputs[0].shape, request.inputs[1].shape, request.attrs);
  const auto example = [=](Buffers b, int64_t n) {
    return Example<T>(a, x.resolve<T>(b), targets.resolve<int64_t>(b), times.resolve<int64_t>(b),
                      labels.resolve<int64_t>(b), n);
  };
  if (request.op->name == "ctc_loss")
    return function_candidate("generic ctc", copies, [=](Buffers b) {
      parallel_for(a.batch, a.work(), [&](int64_t begin, int64_t end, int) {
        for (int64_t n = begin; n < end; ++n) static_cast<T*>(b[4])[n] = store<T>(example(b, n).loss());
      });
    });
  const MergedInput dloss(request, 4, {}, copies);
  return function_candidate("generic ctc", copies, [=](Buffers b) {
    const T* gradients = dloss.resolve<T>(b);
    T* dx = static_cast<T*>(b[5]);
    parallel_for(a.batch, 2 * a.work(), [&](int64_t begin, int64_t end, int) {
      std::vector<Acc<T>> row(static_cast<size_t>(a.classes));
      for (int64_t n = begin; n < end; ++n) {
        for (int64_t t = 0; t < a.times; ++t)
          std::fill_n(dx + (t * a.batch + n) * a.classes, a.classes, store<T>(Acc<T>{0}));
        auto one = example(b, n);
        const auto loss = one.loss();
        one.gradient(loss, load(gradients[n]), dx + n * a.classes, row.data());
      }
    });
  });
}

bool serves_alignment(std::span<const TensorType>, const TensorType& output) {
  return is_float(output.dtype);
}

}  // namespace

static std::vector<Candidate> alignment_kernels(const KernelRequest& request) {
  return visit_dtype(request.output().dtype, [&]<class T>(T) -> std::vector<Candidate> {
    if constexpr (is_float(dtype_of<T>))
      return {make_alignment<T>(request)};
    else
      throw Error(ErrorCode::internal, "ctc_loss of " + std::string(to_string(request.output().dtype)));
  });
}

namespace {

[[maybe_unused]] const bool alignment_registered = register_kernels(
    {.ops = {"ctc_loss", "ctc_loss_grad"}, .candidates = alignment_kernels, .serves = serves_alignment});

}  // namespace

}  // namespace athanor::cpu
