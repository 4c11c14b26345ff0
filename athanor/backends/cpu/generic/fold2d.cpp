// fold2d: columns of windows, added up row by row.
#include <algorithm>

#include "athanor/backends/cpu/generic/strided.h"
#include "athanor/backends/cpu/generic/taps.h"
#include "athanor/backends/cpu/kernels.h"
#include "athanor/backends/cpu/parallel.h"

namespace athanor::cpu {
namespace {

struct FoldedAxis {
  int64_t size, kernel, stride, padding, dilation;

  FoldedAxis(const KernelRequest& request, int axis)
      : size(request.output().shape[2 + axis]),
        kernel(of(request, "kernel", axis)),
        stride(of(request, "stride", axis)),
        padding(of(request, "padding", axis)),
        dilation(of(request, "dilation", axis)) {}

  int64_t windows() const { return (size + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1; }
  /// The position of element k of window w; outside of [0, size) if it lies in the padding.
  int64_t place(int64_t w, int64_t k) const { return w * stride + k * dilation - padding; }

 private:
  static int64_t of(const KernelRequest& request, const char* name, int axis) {
    return request.attrs.ints(name)[static_cast<size_t>(axis)];
  }
};

template <class T>
void fold_plane(const FoldedAxis& rows, const FoldedAxis& columns, const T* from, T* to) {
  std::fill_n(to, rows.size * columns.size, T{0});
  const int64_t height = rows.windows(), width = columns.windows();
  for (int64_t k = 0; k < rows.kernel * columns.kernel; ++k) {
    const int64_t left = columns.place(0, k % columns.kernel);
    for (int64_t row = 0; row < height; ++row, from += width) {
      const int64_t place = rows.place(row, k / columns.kernel);
      if (place < 0 || place >= rows.size) continue;
      T* line = to + place * columns.size;
      if (columns.stride == 1) {
        const int64_t first = std::max<int64_t>(0, -left), end = std::min(width, columns.size - left);
        if (first < end) tap_kernels<T>().add(T{1}, from + first, end - first, line + left + first);
        continue;
      }
      for (int64_t column = 0; column < width; ++column) {
        const int64_t at = left + column * columns.stride;
        if (at >= 0 && at < columns.size) line[at] += from[column];
      }
    }
  }
}

template <class T>
Candidate make_fold2d(const KernelRequest& request) {
  size_t copies = 0;
  const MergedInput input(request, 0, {}, copies);
  const FoldedAxis rows(request, 0), columns(request, 1);
  const Shape& y = request.output().shape;
  const int64_t planes = y[0] * y[1], plane = y[2] * y[3],
                columns_of_plane = input.extent(0) / std::max<int64_t>(1, planes);
  return function_candidate("generic fold2d", copies, [=](Buffers buffers) {
    const T* from = input.resolve<T>(buffers);
    T* to = static_cast<T*>(buffers[1]);
    parallel_for(planes, planes * (plane + columns_of_plane), [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i)
        fold_plane(rows, columns, from + i * columns_of_plane, to + i * plane);
    });
  });
}

bool serves_fold2d(std::span<const TensorType>, const TensorType& output) {
  return output.dtype == DType::f32 || output.dtype == DType::f64;
}

}  // namespace

static std::vector<Candidate> fold2d_kernels(const KernelRequest& request) {
  const DType dtype = request.output().dtype;
  if (dtype == DType::f32) return {make_fold2d<float>(request)};
  if (dtype == DType::f64) return {make_fold2d<double>(request)};
  return {};
}

namespace {

[[maybe_unused]] const bool fold2d_registered =
    register_kernels({.ops = {"fold2d"}, .candidates = fold2d_kernels, .serves = serves_fold2d});

}  // namespace

}  // namespace athanor::cpu
