#include "athanor/backends/cpu/generic/recurrent_cells.h"

#include <cmath>

#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4)  // the baseline, AVX2 and AVX-512 are worth their compile time
#endif
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "athanor/backends/cpu/generic/recurrent_cells.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h includes this file once more for each target.
#include <hwy/highway.h>

#include "athanor/backends/cpu/loops/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace athanor::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
namespace math = athanor::loops::HWY_NAMESPACE;
// One lane at a time if fewer features are left than a vector has lanes.
using Whole = hn::ScalableTag<float>;
using Single = hn::CappedTag<float, 1>;

template <class D, class V = hn::Vec<D>>
HWY_INLINE V sigmoid(D d, V x) {
  const V one = hn::Set(d, 1.0F);
  return hn::Div(one, hn::Add(one, math::exp_of(d, hn::Neg(x))));
}
/// y (1 - y) and 1 - y^2: the derivatives of the activations, from their results.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V through_sigmoid(D, V y) {
  return hn::NegMulAdd(y, y, y);
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V through_tanh(D d, V y) {
  return hn::NegMulAdd(y, y, hn::Set(d, 1.0F));
}

/// Calls f(d, i) for features i of [begin, end): vectors first, then single lanes.
template <class F>
HWY_INLINE void each_feature(int64_t begin, int64_t end, F f) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(Whole()));
  int64_t i = begin;
  for (; i + lanes <= end; i += lanes) f(Whole(), i);
  for (; i < end; ++i) f(Single(), i);
}

void lstm(int64_t h, int64_t begin, int64_t end, const float* gates, const float* before, float* hidden,
          float* cell) {
  each_feature(begin, end, [=](auto d, int64_t i) HWY_ATTR {
    const auto in = sigmoid(d, hn::LoadU(d, gates + i)), forget = sigmoid(d, hn::LoadU(d, gates + h + i)),
               next = math::tanh_of(d, hn::LoadU(d, gates + 2 * h + i)),
               out = sigmoid(d, hn::LoadU(d, gates + 3 * h + i));
    const auto state = hn::MulAdd(forget, hn::LoadU(d, before + i), hn::Mul(in, next));
    hn::StoreU(state, d, cell + i);
    hn::StoreU(hn::Mul(out, math::tanh_of(d, state)), d, hidden + i);
  });
}

void lstm_grad(int64_t h, int64_t begin, int64_t end, const float* gates, const float* before,
               const float* cell, const float* dy, const float* later_hidden, const float* later_cell,
               float* row) {
  each_feature(begin, end, [=](auto d, int64_t i) HWY_ATTR {
    const auto in = sigmoid(d, hn::LoadU(d, gates + i)), forget = sigmoid(d, hn::LoadU(d, gates + h + i)),
               next = math::tanh_of(d, hn::LoadU(d, gates + 2 * h + i)),
               out = sigmoid(d, hn::LoadU(d, gates + 3 * h + i)),
               squashed = math::tanh_of(d, hn::LoadU(d, cell + i));
    const auto hidden = hn::Add(hn::LoadU(d, dy + i), hn::LoadU(d, later_hidden + i));
    const auto state = hn::MulAdd(hn::Mul(hidden, out), through_tanh(d, squashed),
                                  hn::Add(hn::LoadU(d, dy + h + i), hn::LoadU(d, later_cell + i)));
    hn::StoreU(hn::Mul(hn::Mul(state, next), through_sigmoid(d, in)), d, row + i);
    hn::StoreU(hn::Mul(hn::Mul(state, hn::LoadU(d, before + i)), through_sigmoid(d, forget)), d, row + h + i);
    hn::StoreU(hn::Mul(hn::Mul(state, in), through_tanh(d, next)), d, row + 2 * h + i);
    hn::StoreU(hn::Mul(hn::Mul(hidden, squashed), through_sigmoid(d, out)), d, row + 3 * h + i);
    hn::StoreU(hn::Mul(state, forget), d, row + 4 * h + i);
  });
}

void gru(int64_t h, int64_t begin, int64_t end, const float* given, const float* own, const float* before,
         float* hidden) {
  each_feature(begin, end, [=](auto d, int64_t i) HWY_ATTR {
    const auto reset = sigmoid(d, hn::Add(hn::LoadU(d, given + i), hn::LoadU(d, own + i))),
               update = sigmoid(d, hn::Add(hn::LoadU(d, given + h + i), hn::LoadU(d, own + h + i)));
    const auto next =
        math::tanh_of(d, hn::MulAdd(reset, hn::LoadU(d, own + 2 * h + i), hn::LoadU(d, given + 2 * h + i)));
    hn::StoreU(hn::MulAdd(update, hn::Sub(hn::LoadU(d, before + i), next), next), d, hidden + i);
  });
}

void gru_grad(int64_t h, int64_t begin, int64_t end, const float* given, const float* own,
              const float* before, const float* dy, const float* later, float* row) {
  each_feature(begin, end, [=](auto d, int64_t i) HWY_ATTR {
    const auto reset = sigmoid(d, hn::Add(hn::LoadU(d, given + i), hn::LoadU(d, own + i))),
               update = sigmoid(d, hn::Add(hn::LoadU(d, given + h + i), hn::LoadU(d, own + h + i))),
               mine = hn::LoadU(d, own + 2 * h + i);
    const auto next = math::tanh_of(d, hn::MulAdd(reset, mine, hn::LoadU(d, given + 2 * h + i)));
    const auto state = hn::Add(hn::LoadU(d, dy + i), hn::LoadU(d, later + i));
    const auto to_next = hn::Mul(hn::NegMulAdd(state, update, state), through_tanh(d, next));
    hn::StoreU(to_next, d, row + i);
    hn::StoreU(hn::Mul(hn::Mul(to_next, mine), through_sigmoid(d, reset)), d, row + h + i);
    hn::StoreU(hn::Mul(hn::Mul(state, hn::Sub(hn::LoadU(d, before + i), next)), through_sigmoid(d, update)),
               d, row + 2 * h + i);
    hn::StoreU(hn::Mul(to_next, reset), d, row + 3 * h + i);
    hn::StoreU(hn::Mul(state, update), d, row + 4 * h + i);
  });
}

const CellKernels<float>& cells() {
  static const CellKernels<float> all{lstm, lstm_grad, gru, gru_grad};
  return all;
}

}  // namespace athanor::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace athanor::cpu {

HWY_EXPORT(cells);

template <>
const CellKernels<float>& cell_kernels() {
  return HWY_DYNAMIC_DISPATCH(cells)();
}

namespace {

double plain_sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

void plain_lstm(int64_t h, int64_t begin, int64_t end, const double* gates, const double* before,
                double* hidden, double* cell) {
  for (int64_t i = begin; i < end; ++i) {
    cell[i] = plain_sigmoid(gates[h + i]) * before[i] + plain_sigmoid(gates[i]) * std::tanh(gates[2 * h + i]);
    hidden[i] = plain_sigmoid(gates[3 * h + i]) * std::tanh(cell[i]);
  }
}

void plain_lstm_grad(int64_t h, int64_t begin, int64_t end, const double* gates, const double* before,
                     const double* cell, const double* dy, const double* later_hidden,
                     const double* later_cell, double* row) {
  for (int64_t i = begin; i < end; ++i) {
    const double in = plain_sigmoid(gates[i]), forget = plain_sigmoid(gates[h + i]),
                 next = std::tanh(gates[2 * h + i]), out = plain_sigmoid(gates[3 * h + i]),
                 squashed = std::tanh(cell[i]);
    const double hidden = dy[i] + later_hidden[i],
                 state = dy[h + i] + later_cell[i] + hidden * out * (1 - squashed * squashed);
    row[i] = state * next * in * (1 - in);
    row[h + i] = state * before[i] * forget * (1 - forget);
    row[2 * h + i] = state * in * (1 - next * next);
    row[3 * h + i] = hidden * squashed * out * (1 - out);
    row[4 * h + i] = state * forget;
  }
}

void plain_gru(int64_t h, int64_t begin, int64_t end, const double* given, const double* own,
               const double* before, double* hidden) {
  for (int64_t i = begin; i < end; ++i) {
    const double reset = plain_sigmoid(given[i] + own[i]), update = plain_sigmoid(given[h + i] + own[h + i]),
                 next = std::tanh(given[2 * h + i] + reset * own[2 * h + i]);
    hidden[i] = next + update * (before[i] - next);
  }
}

void plain_gru_grad(int64_t h, int64_t begin, int64_t end, const double* given, const double* own,
                    const double* before, const double* dy, const double* later, double* row) {
  for (int64_t i = begin; i < end; ++i) {
    const double reset = plain_sigmoid(given[i] + own[i]), update = plain_sigmoid(given[h + i] + own[h + i]),
                 mine = own[2 * h + i], next = std::tanh(given[2 * h + i] + reset * mine);
    const double state = dy[i] + later[i], to_next = state * (1 - update) * (1 - next * next);
    row[i] = to_next;
    row[h + i] = to_next * mine * reset * (1 - reset);
    row[2 * h + i] = state * (before[i] - next) * update * (1 - update);
    row[3 * h + i] = to_next * reset;
    row[4 * h + i] = state * update;
  }
}

}  // namespace

template <>
const CellKernels<double>& cell_kernels() {
  static const CellKernels<double> plain{plain_lstm, plain_lstm_grad, plain_gru, plain_gru_grad};
  return plain;
}

}  // namespace athanor::cpu
#endif  // HWY_ONCE
