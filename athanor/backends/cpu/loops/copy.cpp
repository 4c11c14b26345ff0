// Copies elements between memory and tiles.
#include <cstddef>
#include <cstring>

#include "athanor/backends/cpu/loops/tiling.h"

namespace athanor::loops {
namespace {

// Addresses are integers here: strides may be negative, and the origin may be outside the buffer.
template <class T>
T* address(int64_t at) {
  return reinterpret_cast<T*>(static_cast<intptr_t>(at));
}

template <class T>
void gather_row(T* dst, int64_t src, int64_t n, int64_t stride) {
  const auto bytes = static_cast<size_t>(n) * sizeof(T);
  if (stride == static_cast<int64_t>(sizeof(T)) && bytes == 64) {  // a block of channels, without a call
    std::memcpy(dst, address<const T>(src), 64);
  } else if (stride == static_cast<int64_t>(sizeof(T))) {
    std::memcpy(dst, address<const T>(src), bytes);
  } else if (stride == 0) {
    const T value = *address<const T>(src);
    for (int64_t i = 0; i < n; ++i) dst[i] = value;
  } else {
    for (int64_t i = 0; i < n; ++i) dst[i] = *address<const T>(src + i * stride);
  }
}

template <class T>
void scatter_row(int64_t dst, const T* src, int64_t n, int64_t stride) {
  if (stride == static_cast<int64_t>(sizeof(T))) {
    std::memcpy(address<T>(dst), src, static_cast<size_t>(n) * sizeof(T));
  } else {
    for (int64_t i = 0; i < n; ++i) *address<T>(dst + i * stride) = src[i];
  }
}

/// Walks the rows (the innermost dimension) of dims[d...]; returns the end of the rows in the tile.
template <class T, class Row>
T* each_row(T* tile, int64_t at, const Walker::Dim* dims, size_t rank, int64_t extent, const Row& row) {
  if (rank == 1) {
    row(tile, at, extent, dims[0].stride);
    return tile + extent;
  }
  if (rank == 2) {  // no recursive call for each row, which may be short
    const int64_t length = dims[1].extent, stride = dims[1].stride;
    for (int64_t i = 0; i < extent; ++i, tile += length, at += dims[0].stride) row(tile, at, length, stride);
    return tile;
  }
  for (int64_t i = 0; i < extent; ++i, at += dims[0].stride)
    tile = each_row(tile, at, dims + 1, rank - 1, dims[1].extent, row);
  return tile;
}

template <class T>
struct Pair {
  T first, second;
};

// Rows of two elements, side by side.
template <class T>
void gather_pairs(Pair<T>* dst, int64_t src, int64_t n, int64_t stride, int64_t within) {
  constexpr auto item = static_cast<int64_t>(sizeof(T));
  if (within == 0 && stride == item) {  // each element twice
    const T* from = address<const T>(src);
    for (int64_t i = 0; i < n; ++i) dst[i] = {from[i], from[i]};
  } else if (within == -item && stride == 2 * item) {  // neighbours swapped
    const auto* from = address<const Pair<T>>(src - item);
    for (int64_t i = 0; i < n; ++i) dst[i] = {from[i].second, from[i].first};
  } else {
    for (int64_t i = 0; i < n; ++i, src += stride)
      dst[i] = {*address<const T>(src), *address<const T>(src + within)};
  }
}

/// Gathers dims[0 .. rank), of which the first has this extent.
template <class T>
void gather_dims(T* tile, int64_t at, const Walker::Dim* dims, size_t rank, int64_t extent) {
  if (rank > 1 && dims[rank - 1].extent == 2) {
    const int64_t within = dims[rank - 1].stride;
    each_row(reinterpret_cast<Pair<T>*>(tile), at, dims, rank - 1, extent,
             [=](Pair<T>* to, int64_t from, int64_t n, int64_t stride) {
               gather_pairs(to, from, n, stride, within);
             });
  } else {
    each_row(tile, at, dims, rank, extent,
             [](T* to, int64_t from, int64_t n, int64_t stride) { gather_row(to, from, n, stride); });
  }
}

template <class F>
void by_size(int64_t item, const F& f) {
  switch (item) {
    case 1:
      return f(uint8_t{});
    case 2:
      return f(uint16_t{});
    case 4:
      return f(uint32_t{});
    default:
      return f(uint64_t{});
  }
}

}  // namespace

void gather(void* dst, int64_t src, const Walker& w, int64_t rows) {
  // the same row again and again: double the part that is filled
  if (w.dims.size() > 1 && w.dims[0].stride == 0) {
    int64_t length = w.item;
    for (size_t d = 1; d < w.dims.size(); ++d) length *= w.dims[d].extent;
    by_size(w.item, [&](auto tag) {
      using T = decltype(tag);
      gather_dims(static_cast<T*>(dst), src, w.dims.data() + 1, w.dims.size() - 1, w.dims[1].extent);
    });
    auto* bytes = static_cast<std::byte*>(dst);
    const int64_t all = length * rows * w.per_row;
    for (int64_t done = length; done < all; done *= 2)
      std::memcpy(bytes + done, bytes, static_cast<size_t>(done < all - done ? done : all - done));
    return;
  }
  by_size(w.item, [&](auto tag) {
    using T = decltype(tag);
    gather_dims(static_cast<T*>(dst), src, w.dims.data(), w.dims.size(), rows * w.per_row);
  });
}

void scatter(int64_t dst, const void* src, const Walker& w, int64_t rows) {
  if (w.dims.empty()) {
    std::memcpy(address<void>(dst), src, static_cast<size_t>(w.item));
    return;
  }
  by_size(w.item, [&](auto tag) {
    using T = decltype(tag);
    each_row(static_cast<const T*>(src), dst, w.dims.data(), w.dims.size(), rows * w.per_row,
             [](const T* tile, int64_t at, int64_t n, int64_t stride) { scatter_row(at, tile, n, stride); });
  });
}

void fill_index(int64_t* dst, int64_t first, const Walker& w, int64_t rows) {
  each_row(dst, first, w.dims.data(), w.dims.size(), rows * w.per_row,
           [](int64_t* tile, int64_t at, int64_t n, int64_t stride) {
             for (int64_t i = 0; i < n; ++i) tile[i] = at + i * stride;
           });
}

}  // namespace athanor::loops
