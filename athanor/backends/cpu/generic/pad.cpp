// pad: adds elements of one value around each axis, or cuts elements off if the amount is negative.
#include <algorithm>
#include <cstring>

#include "athanor/backends/cpu/generic/strided.h"
#include "athanor/backends/cpu/kernels.h"
#include "athanor/backends/cpu/parallel.h"
#include "athanor/graph/whole_number.h"
#include "athanor/kernels/memory_order.h"

namespace athanor::cpu {
namespace {

// Axes are in the order of the result's memory.
struct Pad {
  OperandDesc input, output;
  Ints low;

  explicit Pad(const KernelRequest& request)
      : input(request.inputs[0]), output(request.output()), low(request.attrs.ints("low")) {
    const Ints axes = memory_order(output.strides);
    for (OperandDesc* operand : {&input, &output}) {
      operand->shape = Shape(ordered(operand->shape.to_ints(), axes));
      operand->strides = ordered(operand->strides, axes);
    }
    low = ordered(low, axes);
  }

 private:
  static Ints ordered(const Ints& values, const Ints& axes) {
    Ints result;
    for (const int64_t axis : axes) result.push_back(values[static_cast<size_t>(axis)]);
    return result;
  }
};

template <class T>
void run_pad(const Pad& pad, const T* from, T* to, T value) {
  const int last = pad.output.shape.rank() - 1;
  if (last < 0) {
    *to = *from;
    return;
  }
  const auto at = [](const Ints& values, int axis) { return values[static_cast<size_t>(axis)]; };
  const int64_t width = pad.output.shape[last], stride = at(pad.input.strides, last), low = at(pad.low, last);
  // Columns [begin, end) of a row come from the input; the others get the value.
  const int64_t begin = std::clamp<int64_t>(low, 0, width);
  const int64_t end = std::clamp<int64_t>(pad.input.shape[last] + low, begin, width);
  const int64_t rows = product(pad.output.shape, 0, last);
  parallel_for(rows, rows * width, [&](int64_t first, int64_t beyond, int) {
    for (int64_t row = first; row < beyond; ++row) {
      int64_t rest = row, offset = -low * stride;
      bool inside = true;
      for (int axis = last; axis-- > 0;) {
        const int64_t index = rest % pad.output.shape[axis] - at(pad.low, axis);
        rest /= pad.output.shape[axis];
        inside = inside && index >= 0 && index < pad.input.shape[axis];
        offset += index * at(pad.input.strides, axis);
      }
      T* out = to + row * width;
      std::fill(out, out + (inside ? begin : width), value);
      if (!inside) continue;
      if (stride == 1)
        std::copy(from + (offset + begin), from + (offset + end), out + begin);
      else
        for (int64_t i = begin; i < end; ++i) out[i] = from[offset + i * stride];
      std::fill(out + end, out + width, value);
    }
  });
}

}  // namespace

static Candidate pad_kernel(const KernelRequest& request) {
  const Pad pad(request);
  const double value = request.attrs.number("value");
  return visit_dtype(request.output().dtype, [&]<class T>(T) {
    T filler;
    if constexpr (is_narrow_float(dtype_of<T>))
      filler = T(static_cast<float>(value));
    else if constexpr (std::is_same_v<T, bool>)
      filler = value != 0;
    else if constexpr (std::is_integral_v<T>)
      filler = static_cast<T>(whole_number(value));
    else
      filler = static_cast<T>(value);
    return function_candidate("generic pad", 0, [pad, filler](Buffers buffers) {
      run_pad(pad, static_cast<const T*>(buffers[0]), static_cast<T*>(buffers[1]), filler);
    });
  });
}

namespace {

[[maybe_unused]] const bool pad_registered =
    register_kernels({.ops = {"pad"}, .candidates = only<pad_kernel>, .serves = serves_all});

}  // namespace

}  // namespace athanor::cpu
