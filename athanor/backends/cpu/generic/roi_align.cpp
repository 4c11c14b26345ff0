// roi_align and its gradient. The elements that a box reads are found once for all channels.
#include <algorithm>
#include <cmath>

#include "athanor/backends/cpu/generic/index.h"
#include "athanor/backends/cpu/generic/strided.h"
#include "athanor/backends/cpu/generic/taps.h"
#include "athanor/backends/cpu/kernels.h"
#include "athanor/backends/cpu/parallel.h"

namespace athanor::cpu {
namespace {

struct Regions {
  int64_t pictures, channels, height, width, boxes, rows, columns, samples;
  double scale;
  bool aligned;

  Regions(const Shape& x, const Shape& all_boxes, const Attrs& attrs)
      : pictures(x[0]),
        channels(x[1]),
        height(x[2]),
        width(x[3]),
        boxes(all_boxes[0]),
        rows(attrs.ints("output")[0]),
        columns(attrs.ints("output")[1]),
        samples(attrs.integer("samples")),
        scale(attrs.number("scale")),
        aligned(attrs.flag("aligned")) {}

  int64_t plane() const { return height * width; }
  int64_t elements() const { return rows * columns; }
  int64_t taps() const { return 4 * samples * samples; }
};

/// The elements that each element of a box's result averages, and their weights: [taps, rows, columns].
template <class T>
class BoxTaps {
 public:
  explicit BoxTaps(const Regions& r)
      : r_(r), index(static_cast<size_t>(r.taps() * r.elements())), weight(index.size()) {}

  void set(const T* box) {
    along(box[1], box[3], r_.height, r_.rows, down_);
    along(box[0], box[2], r_.width, r_.columns, across_);
    const T share = T(1) / static_cast<T>(r_.samples * r_.samples);
    size_t at = 0;
    for (int64_t s = 0; s < r_.samples * r_.samples; ++s)
      for (int64_t k = 0; k < 4; ++k)
        for (int64_t i = 0; i < r_.rows; ++i)
          for (int64_t j = 0; j < r_.columns; ++j, ++at) {
            const Point& row = down_[static_cast<size_t>(i * r_.samples + s / r_.samples)];
            const Point& column = across_[static_cast<size_t>(j * r_.samples + s % r_.samples)];
            const auto a = static_cast<size_t>(k / 2), b = static_cast<size_t>(k % 2);
            index[at] = static_cast<int32_t>(row.at[a] * r_.width + column.at[b]);
            weight[at] = share * row.share[a] * column.share[b];
          }
  }

 private:
  struct Point {
    int64_t at[2];
    T share[2];
  };
  const Regions& r_;
  std::vector<Point> down_, across_;

  void along(T low, T high, int64_t extent, int64_t output, std::vector<Point>& points) const {
    const T offset = r_.aligned ? T(0.5) : T(0), scale = static_cast<T>(r_.scale);
    const T start = low * scale - offset;
    T length = high * scale - offset - start;
    if (!r_.aligned) length = std::max(length, T(1));
    const int64_t count = output * r_.samples;
    points.clear();
    for (int64_t i = 0; i < count; ++i) {
      const T p = start + length * ((static_cast<T>(i) + T(0.5)) / static_cast<T>(count));
      if (!(p >= -1 && p <= static_cast<T>(extent))) {  // NaN too
        points.push_back({{0, 0}, {0, 0}});
        continue;
      }
      const T at = std::clamp(p, T(0), static_cast<T>(extent - 1)), whole = std::floor(at), t = at - whole;
      const auto first = static_cast<int64_t>(whole);
      points.push_back({{first, std::min(first + 1, extent - 1)}, {1 - t, t}});
    }
  }

 public:
  std::vector<int32_t> index;
  std::vector<T> weight;
};

template <class T>
void align(const Regions& r, const T* x, const T* boxes, const int64_t* pictures, T* y) {
  parallel_for(r.boxes, r.boxes * r.channels * r.elements() * r.taps(), [&](int64_t begin, int64_t end, int) {
    BoxTaps<T> taps(r);
    for (int64_t box = begin; box < end; ++box) {
      taps.set(boxes + 4 * box);
      const int64_t picture = checked_index(pictures[box], r.pictures, "roi_align");
      for (int64_t c = 0; c < r.channels; ++c)
        tap_kernels<T>().gather(x + (picture * r.channels + c) * r.plane(), taps.index.data(),
                                taps.weight.data(), r.taps(), r.elements(), r.elements(),
                                y + (box * r.channels + c) * r.elements());
    }
  });
}

// A thread adds to its channels of all images, in the order of the boxes.
template <class T>
void align_back(const Regions& r, const T* boxes, const int64_t* pictures, const T* dy, T* dx) {
  parallel_for(
      r.channels, r.boxes * r.channels * r.elements() * r.taps(), [&](int64_t begin, int64_t end, int) {
        BoxTaps<T> taps(r);
        for (int64_t n = 0; n < r.pictures; ++n)
          std::fill(dx + (n * r.channels + begin) * r.plane(), dx + (n * r.channels + end) * r.plane(), T{0});
        for (int64_t box = 0; box < r.boxes; ++box) {
          taps.set(boxes + 4 * box);
          const int64_t picture = checked_index(pictures[box], r.pictures, "roi_align");
          for (int64_t c = begin; c < end; ++c) {
            T* plane = dx + (picture * r.channels + c) * r.plane();
            const T* gradient = dy + (box * r.channels + c) * r.elements();
            size_t at = 0;
            for (int64_t t = 0; t < r.taps(); ++t)
              for (int64_t i = 0; i < r.elements(); ++i, ++at)
                plane[taps.index[at]] += taps.weight[at] * gradient[i];
          }
        }
      });
}

bool serves_regions(std::span<const TensorType> inputs, const TensorType& output) {
  const bool fits = inputs[0].shape.size() <= INT32_MAX && output.shape.size() <= INT32_MAX;
  return fits && (output.dtype == DType::f32 || output.dtype == DType::f64);
}

template <class T>
Candidate make_aligner(const KernelRequest& request) {
  size_t copies = 0;
  const MergedInput first(request, 0, {}, copies), second(request, 1, {}, copies),
      third(request, 2, {}, copies);
  if (request.op->name == "roi_align") {
    const Regions r(request.inputs[0].shape, request.inputs[1].shape, request.attrs);
    return function_candidate("generic roi_align", copies, [=](Buffers b) {
      align(r, first.resolve<T>(b), second.resolve<T>(b), third.resolve<int64_t>(b), static_cast<T*>(b[3]));
    });
  }
  const Regions r(request.output().shape, request.inputs[0].shape, request.attrs);
  return function_candidate("generic roi_align", copies, [=](Buffers b) {
    align_back(r, first.resolve<T>(b), second.resolve<int64_t>(b), third.resolve<T>(b),
               static_cast<T*>(b[3]));
  });
}

}  // namespace

static std::vector<Candidate> region_kernels(const KernelRequest& request) {
  const DType dtype = request.output().dtype;
  if (dtype == DType::f32) return {make_aligner<float>(request)};
  if (dtype == DType::f64) return {make_aligner<double>(request)};
  return {};
}

namespace {

[[maybe_unused]] const bool regions_registered = register_kernels(
    {.ops = {"roi_align", "roi_align_grad"}, .candidates = region_kernels, .serves = serves_regions});

}  // namespace

}  // namespace athanor::cpu
