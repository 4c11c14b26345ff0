#include "athanor/backends/cpu/winograd/forward.h"

namespace athanor::cpu::winograd {
namespace {

constexpr int64_t cached_depth = 256;  // a panel of weights this deep fits a first-level cache
constexpr int64_t panel_depth = 128;   // all points of a panel this deep fit a second-level cache

}  // namespace

// Late layers have few tiles and many weights: points of a panel of weights are made where they are used,
// and never leave the cache.
template <class T>
bool Forward<T>::by_results() const {
  return tiles.weight_points() > tiles.tile_points(tiles.count);
}

template <class T>
size_t Forward<T>::scratch_bytes() const {
  const int64_t panel = 2 * kernels().lanes;
  const int64_t floats = by_results()
                             ? points * (all() * tiles.channels + workers * panel * (panel_depth + all()))
                             : tiles.weight_points() + workers * tiles.tile_points(block());
  return static_cast<size_t>(floats) * sizeof(float);
}

template <class T>
void Forward<T>::operator()(Buffers buffers) const {
  const auto *x = static_cast<const T*>(buffers[0]), *w = static_cast<const T*>(buffers[1]) + first_weight,
             *added = bias ? static_cast<const T*>(buffers[2]) : nullptr;
  const size_t next = bias ? 3 : 2;
  auto* y = static_cast<T*>(buffers[next]);
  auto* scratch = static_cast<float*>(buffers[next + 1]);
  by_results() ? run_results(x, w, added, y, scratch) : run_tiles(x, w, added, y, scratch);
}

// Transforms the points of results [first, first + width) of a tile to pixels.
template <class T>
void Forward<T>::finish(int64_t tile, const float* from, int64_t point_stride, int64_t first, int64_t width,
                        const T* added, T* y) const {
  const auto at = tiles.position(tile);
  for (int64_t o = 0; o < width; o += tiles.result.block)
    transforms<T>().finish_tile(
        from + o, point_stride, Tiles::plane_of(y, tiles.result, tiles.results, at.batch, first + o),
        tiles.result, at.row, at.column, added == nullptr ? nullptr : added + first + o, relu);
}

template <class T>
void Forward<T>::run_tiles(const T* x, const T* w, const T* added, T* y, float* scratch) const {
  const Kernels& k = kernels();
  const int64_t c_count = tiles.channels, o_count = tiles.results, size = block();
  // Points of weights as panels: [point][panel][channel][lane].
  parallel_for(c_count, tiles.weight_points(), [&](int64_t begin, int64_t end, int) {
    for (int64_t c = begin; c < end; ++c)
      each_panel(o_count, [&](int64_t n, int64_t width) {
        for (int64_t o = n; o < n + width; o += k.lanes)
          transforms<T>().weights(w + o * strides.o + c * strides.c, strides,
                                  scratch + n * c_count + c * width + (o - n), c_count * o_count);
      });
  });
  const auto multiply_block = [&](int64_t count, const float* patches, float* products) {
    for (int64_t point = 0; point < points; ++point)
      each_panel(o_count, [&](int64_t n, int64_t width) {
        for (int64_t depth = 0; depth < c_count; depth += cached_depth)
          for (int64_t t = 0; t < count; t += k.tile_rows)
            k.multiply_tiles({.k = std::min(cached_depth, c_count - depth),
                              .a = patches + (point * size + t) * c_count + depth,
                              .a_row = c_count,
                              .a_k = 1,
                              .b = scratch + (point * o_count + n) * c_count + depth * width,
                              .b_stride = width,
                              .c = products + (point * size + t) * o_count + n,
                              .c_stride = o_count,
                              .add = depth > 0},
                             width > k.lanes);
      });
  };
  parallel_for(
      ceil_div(tiles.count, size), tiles.tile_points(tiles.count),
      [&](int64_t begin, int64_t end, int thread) {
        float* patches = scratch + tiles.weight_points() + thread * tiles.tile_points(size);
        float* products = patches + points * size * c_count;
        for (int64_t first = begin * size; first < std::min(end * size, tiles.count); first += size) {
          const int64_t count = std::min(size, tiles.count - first);
          tiles.transform_images(first, count, x, patches, 0, size, c_count);
          multiply_block(count, patches, products);
          for (int64_t t = 0; t < count; ++t)
            finish(first + t, products + t * o_count, size * o_count, 0, o_count, added, y);
        }
      },
      workers);
}

template <class T>
void Forward<T>::run_results(const T* x, const T* w, const T* added, T* y, float* scratch) const {
  const Kernels& k = kernels();
  const int64_t c_count = tiles.channels, size = all(), panel = 2 * k.lanes;
  parallel_for(tiles.count, points * size * c_count, [&](int64_t begin, int64_t end, int) {
    tiles.transform_images(begin, end - begin, x, scratch, begin, size, c_count);
  });
  const auto run_panel = [&](int64_t n, int64_t width, float* weights) {
    float* products = weights + points * panel_depth * panel;
    for (int64_t depth = 0; depth < c_count; depth += panel_depth) {
      const int64_t deep = std::min(panel_depth, c_count - depth);
      for (int64_t c = 0; c < deep; ++c)
        for (int64_t o = 0; o < width; o += k.lanes)
          transforms<T>().weights(w + (n + o) * strides.o + (depth + c) * strides.c, strides,
                                  weights + c * width + o, deep * width);
      for (int64_t point = 0; point < points; ++point)
        for (int64_t t = 0; t < tiles.count; t += k.tile_rows)
          k.multiply_tiles({.k = deep,
                            .a = scratch + (point * size + t) * c_count + depth,
                            .a_row = c_count,
                            .a_k = 1,
                            .b = weights + point * deep * width,
                            .b_stride = width,
                            .c = products + (point * size + t) * width,
                            .c_stride = width,
                            .add = depth > 0},
                           width > k.lanes);
    }
    for (int64_t t = 0; t < tiles.count; ++t)
      finish(t, products + t * width, size * width, n, width, added, y);
  };
  parallel_for(
      ceil_div(tiles.results, panel), tiles.weight_points(),
      [&](int64_t begin, int64_t end, int thread) {
        float* own = scratch + points * (size * c_count + thread * panel * (panel_depth + size));
        for (int64_t n = begin * panel; n < std::min(end * panel, tiles.results); n += panel)
          run_panel(n, std::min(panel, tiles.results - n), own);
      },
      workers);
}

template struct Forward<float>;
template struct Forward<bf16>;

}  // namespace athanor::cpu::winograd
