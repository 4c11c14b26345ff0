#include "athanor/backends/cpu/winograd/weights.h"

namespace athanor::cpu::winograd {
namespace {

constexpr int64_t group = 32;  // channels, whose sums for a panel of results fit a second-level cache

}  // namespace

// If there are many weights, the sums of each part are long, and a product for all tiles at once is better.
template <class T>
bool WeightGradient<T>::by_channels() const {
  return std::max(threads, 2) * tiles.weight_points() >= tiles.tile_points(tiles.count);
}

// One thread has several parts, so that part-time threads can help it: a part is short. But the number never
// depends on theirs, and so results do not either. The parts' sums are no longer than the tiles' points.
template <class T>
int64_t WeightGradient<T>::most_parts() const {
  if (threads > 1) return threads;
  return std::min<int64_t>(8, tiles.tile_points(tiles.count) / tiles.weight_points());
}

template <class T>
size_t WeightGradient<T>::scratch_bytes() const {
  const int64_t floats = by_channels()
                             ? tiles.tile_points(tiles.count) + workers * points * group * 2 * kernels().lanes
                             : most_parts() * tiles.weight_points() + workers * tiles.tile_points(block());
  return static_cast<size_t>(floats) * sizeof(float);
}

template <class T>
void WeightGradient<T>::operator()(Buffers buffers) const {
  const auto *x = static_cast<const T*>(buffers[0]), *dy = static_cast<const T*>(buffers[1]);
  auto* dw = static_cast<T*>(buffers[2]);
  auto* scratch = static_cast<float*>(buffers[3]);
  by_channels() ? run_channels(x, dy, dw, scratch) : run_tiles(x, dy, dw, scratch);
}

template <class T>
void WeightGradient<T>::run_tiles(const T* x, const T* dy, T* dw, float* scratch) const {
  const Kernels& k = kernels();
  const int64_t c_count = tiles.channels, o_count = tiles.results, size = block(), panel = 2 * k.lanes;
  const int64_t sum_floats = tiles.weight_points();  // [point][channel][result]
  const int64_t blocks = ceil_div(tiles.count, size), parts = std::min(most_parts(), blocks);
  const auto add_block = [&](int64_t first, float* sums, float* patches) {
    const int64_t count = std::min(size, tiles.count - first);
    float* gradients = patches + points * size * c_count;
    tiles.transform_images(first, count, x, patches, 0, size, group);
    tiles.transform_gradients(first, count, dy, gradients, 0, size, panel);
    for (int64_t point = 0; point < points; ++point)
      each_panel(o_count, [&](int64_t n, int64_t width) {
        for (int64_t c = 0; c < c_count; c += k.channel_rows)
          k.multiply_channels(
              {.k = count,
               .a = patches + point * size * c_count + Tiles::offset_of(0, c, c_count, size, group),
               .a_row = 1,
               .a_k = std::min(group, c_count - c / group * group),
               .b = gradients + (point * o_count + n) * size,
               .b_stride = width,
               .c = sums + (point * c_count + c) * o_count + n,
               .c_stride = o_count,
               .add = true},
              width > k.lanes);
      });
  };
  // The result does not depend on which thread runs a part.
  parallel_for(
      parts, tiles.tile_points(tiles.count),
      [&](int64_t begin, int64_t end, int thread) {
        for (int64_t part = begin; part < end; ++part) {
          float* sums = scratch + part * sum_floats;
          std::fill_n(sums, sum_floats, 0.0F);
          for (int64_t b = blocks * part / parts; b < blocks * (part + 1) / parts; ++b)
            add_block(b * size, sums, scratch + parts * sum_floats + thread * tiles.tile_points(size));
        }
      },
      workers);
  parallel_for(c_count, sum_floats, [&](int64_t begin, int64_t end, int) {
    for (int64_t c = begin; c < end; ++c)
      for (int64_t o = 0; o < o_count; o += k.lanes)
        transforms<T>().finish_weights(scratch + c * o_count + o, c_count * o_count, parts, sum_floats,
                                       dw + o * strides.o + c * strides.c, strides);
  });
}

template <class T>
void WeightGradient<T>::run_channels(const T* x, const T* dy, T* dw, float* scratch) const {
  const Kernels& k = kernels();
  const int64_t c_count = tiles.channels, o_count = tiles.results, count = tiles.count, panel = 2 * k.lanes;
  float* const gradients = scratch + points * count * c_count;
  parallel_for(count, tiles.tile_points(count), [&](int64_t begin, int64_t end, int) {
    tiles.transform_images(begin, end - begin, x, scratch, begin, count, group);
    tiles.transform_gradients(begin, end - begin, dy, gradients, begin, count, panel);
  });
  const auto run_part = [&](int64_t first, int64_t n, float* sums) {
    const int64_t channels = std::min(group, c_count - first), width = std::min(panel, o_count - n);
    for (int64_t point = 0; point < points; ++point)
      for (int64_t c = 0; c < channels; c += k.channel_rows)
        k.multiply_channels({.k = count,
                             .a = scratch + (point * c_count + first) * count + c,
                             .a_row = 1,
                             .a_k = channels,
                             .b = gradients + (point * o_count + n) * count,
                             .b_stride = width,
                             .c = sums + (point * channels + c) * width,
                             .c_stride = width,
                             .add = false},
                            width > k.lanes);
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t o = 0; o < width; o += k.lanes)
        transforms<T>().finish_weights(sums + c * width + o, channels * width, 1, 0,
                                       dw + (n + o) * strides.o + (first + c) * strides.c, strides);
  };
  const int64_t of_panel = ceil_div(c_count, group);
  parallel_for(
      ceil_div(o_count, panel) * of_panel, tiles.weight_points(),
      [&](int64_t begin, int64_t end, int thread) {
        float* sums = gradients + points * (count * o_count + thread * group * panel);
        for (int64_t i = begin; i < end; ++i) run_part(i % of_panel * group, i / of_panel * panel, sums);
      },
      workers);
}

template struct WeightGradient<float>;
template struct WeightGradient<bf16>;

}  // namespace athanor::cpu::winograd
