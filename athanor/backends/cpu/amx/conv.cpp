// Convolutions of f32 and bf16 with AMX, between activations with channels in blocks of 16.
#include <algorithm>
#include <type_traits>

#include "athanor/backends/cpu/amx/conv_products.h"
#include "athanor/backends/cpu/function_kernel.h"
#include "athanor/backends/cpu/generic/gemm.h"
#include "athanor/backends/cpu/generic/strided.h"
#include "athanor/backends/cpu/kernels.h"
#include "athanor/backends/cpu/parallel.h"
#include "athanor/kernels/epilogue.h"
#include "athanor/ops/conv_kind.h"
#include "athanor/ops/conv_problem.h"

#if ATHANOR_HAS_AMX
namespace athanor::cpu {
namespace {

// Copies between weights [results, channels, height, width] with these strides and [tap][result][channel].
struct Weights {
  int64_t results, channels, height, width;
  Ints strides;

  int64_t taps() const { return height * width; }
  int64_t size() const { return results * channels * taps(); }

  template <class T>
  void to_taps(const T* from, T* to) const {
    parallel_for(results, size(), [&](int64_t begin, int64_t end, int) {
      for (int64_t o = begin; o < end; ++o)
        each_tap([&](int64_t tap, int64_t offset) {
          const T* row = from + o * strides[0] + offset;
          T* out = to + (tap * results + o) * channels;
          for (int64_t c = 0; c < channels; ++c) out[c] = row[c * strides[1]];
        });
    });
  }
  // From [result][tap][channel].
  template <class T>
  void from_rows(const T* from, T* to) const {
    parallel_for(results, size(), [&](int64_t begin, int64_t end, int) {
      for (int64_t o = begin; o < end; ++o)
        each_tap([&](int64_t tap, int64_t offset) {
          const T* row = from + (o * taps() + tap) * channels;
          T* out = to + o * strides[0] + offset;
          for (int64_t c = 0; c < channels; ++c) out[c * strides[1]] = row[c];
        });
    });
  }

 private:
  template <class F>
  void each_tap(const F& f) const {
    for (int64_t tap = 0; tap < taps(); ++tap) f(tap, tap / width * strides[2] + tap % width * strides[3]);
  }
};

bool fits(const KernelRequest& r, const SimpleEpilogue& epilogue, const OperandDesc& from,
          const OperandDesc& to, const OperandDesc& w) {
  const DType dtype = w.dtype;
  const auto blocked = [&](const OperandDesc& o) {
    return o.dtype == dtype && o.layout.block == Windows::block && o.shape.size() < int64_t{1} << 31;
  };
  return (dtype == DType::f32 || dtype == DType::bf16) && blocked(from) && blocked(to) &&
         from.shape[1] % 32 == 0 && r.compute == ComputeType::by_dtypes && r.attrs.integer("groups") == 1 &&
         to.shape.size() > 0 &&
         (epilogue.activation == Activation::none || epilogue.activation == Activation::relu);
}

// A candidate that calls `run(buffers)`. For f32 numbers that have no bf16 parts that returns false; then the
// library's first candidate runs. (Without a library, f32 has no kernels here.)
template <class T, class Run>
std::vector<Candidate> candidate_of(const KernelRequest& request, size_t scratch_bytes, Run run) {
  if constexpr (AmxProducts<T>::parts == 1)
    return {function_candidate("AMX conv", scratch_bytes,
                               [run](Buffers buffers) { static_cast<void>(run(buffers)); })};
  else
    for (const OpKernels& kernels : kernels_of(*request.op)) {
      if (kernels.source != KernelSource::library || kernels.candidates == nullptr) continue;
      for (const Candidate& other : kernels.candidates(request)) {
        const auto kernel = std::dynamic_pointer_cast<const CpuKernel>(other.kernel);
        if (kernel == nullptr) continue;
        return {function_candidate("AMX conv, 3 bf16 parts", std::max(scratch_bytes, other.scratch_bytes),
                                   [run, kernel](Buffers buffers) {
                                     if (!run(buffers)) kernel->run(buffers);
                                   })};
      }
    }
  return {};
}

template <class T>
std::vector<Candidate> results_kernel(const KernelRequest& request, const Windows& windows, int64_t results,
                                      const Weights& weights, bool gradient, const SimpleEpilogue& epilogue) {
  const int64_t taps = weights.taps(), matrix = weights.results * weights.channels;
  // An image's gradient is a convolution of the results' gradient with weights turned by 180 degrees.
  const TapMatrices order = gradient ? TapMatrices{(taps - 1) * matrix, -matrix, 1, weights.channels}
                                     : TapMatrices{0, matrix, weights.channels, 1};
  const Gemm<T, AmxConvProducts<T>> gemm(
      GemmShape(windows.count(), results, taps * windows.channels(), epilogue), cpu_workers(),
      AmxConvProducts<T>(windows, results, order));
  const size_t weight_bytes = aligned(static_cast<size_t>(weights.size()) * sizeof(T));
  return candidate_of<T>(request, weight_bytes + gemm.scratch_bytes(),
                         [=, bias = epilogue.bias](Buffers buffers) {
                           const size_t next = bias ? 3 : 2;
                           auto* scratch = static_cast<std::byte*>(buffers[next + 1]);
                           auto* by_tap = reinterpret_cast<T*>(scratch);
                           weights.to_taps(static_cast<const T*>(buffers[1]), by_tap);
                           return gemm.run(static_cast<const T*>(buffers[0]), by_tap,
                                           bias ? static_cast<const T*>(buffers[2]) : nullptr,
                                           static_cast<T*>(buffers[next]), scratch + weight_bytes);
                         });
}

template <class T>
std::vector<Candidate> weights_kernel(const KernelRequest& request, const Windows& windows,
                                      const Weights& weights) {
  const Gemm<T, AmxConvWeightProducts<T>> gemm(
      GemmShape(weights.results, weights.taps() * weights.channels, windows.count(), SimpleEpilogue{}),
      cpu_workers(), AmxConvWeightProducts<T>(windows, weights.results));
  const size_t row_bytes = aligned(static_cast<size_t>(weights.size()) * sizeof(T));
  return candidate_of<T>(request, row_bytes + gemm.scratch_bytes(), [=](Buffers buffers) {
    auto* scratch = static_cast<std::byte*>(buffers[3]);
    auto* rows = reinterpret_cast<T*>(scratch);
    if (!gemm.run(static_cast<const T*>(buffers[1]), static_cast<const T*>(buffers[0]), nullptr, rows,
                  scratch + row_bytes))
      return false;
    weights.from_rows(rows, static_cast<T*>(buffers[2]));
    return true;
  });
}

}  // namespace

static std::vector<Candidate> amx_conv(const KernelRequest& r) {
  const ConvKind kind = conv_kind(*r.op);
  const bool by_weights = kind == ConvKind::weight_grad, gradient = kind == ConvKind::input_grad;
  const OperandDesc &from = r.inputs[0], &to = by_weights ? r.inputs[1] : r.output(),
                    &w = by_weights ? r.output() : r.inputs[1];
  const SimpleEpilogue epilogue = simple_epilogue(r).value();
  if (!has_amx() || !fits(r, epilogue, from, to, w)) return {};
  const Conv2dOptions options = conv_options(r.attrs);
  const Pair stride = options.stride, dilation = options.dilation;
  Pair padding = options.padding;
  const Weights weights{w.shape[0], w.shape[1], w.shape[2], w.shape[3],
                        by_weights ? contiguous_strides(w.shape) : w.strides};
  if (gradient) {
    if (stride.height != 1 || stride.width != 1) return {};
    padding = {dilation.height * (weights.height - 1) - padding.height,
               dilation.width * (weights.width - 1) - padding.width};
  }
  const Windows windows(from.shape, to.shape, {weights.height, weights.width}, stride, dilation, padding);
  const auto kernels = [&]<class T>(std::type_identity<T>) {
    return by_weights ? weights_kernel<T>(r, windows, weights)
                      : results_kernel<T>(r, windows, to.shape[1], weights, gradient, epilogue);
  };
  return w.dtype == DType::f32 ? kernels(std::type_identity<float>()) : kernels(std::type_identity<bf16>());
}

namespace {

[[maybe_unused]] const bool amx_conv_registered =
    register_kernels({KernelSource::matrix_unit, conv_ops(), amx_conv, serves_none});

}  // namespace

}  // namespace athanor::cpu
#endif
