// Work along an axis, divided between threads across the other axes.
#pragma once
#include <algorithm>

#include "athanor/backends/cpu/parallel.h"

namespace athanor::cpu {

/// Treats a tensor as [outer, n, inner] and calls body(o, first, count, thread) for every o and every chunk
/// [first, first + count) of inner; a chunk has at most `widest` columns. One thread gets a whole column and
/// may walk along n in order, so sums are the same for any number of threads.
template <class Body>
void for_each_column_chunk(int64_t outer, int64_t n, int64_t inner, int64_t widest, Body&& body,
                           int max_threads = cpu_workers()) {
  // Narrower chunks if there are fewer chunks than threads, but still of whole cache lines.
  int64_t width = std::min(inner, widest);
  while (width > 32 && outer * ((inner + width - 1) / width) < max_threads)
    width = (width / 2 + 15) / 16 * 16;
  const int64_t chunks = width == 0 ? 0 : (inner + width - 1) / width;
  parallel_for(
      outer * chunks, outer * n * inner,
      [&](int64_t begin, int64_t end, int thread) {
        for (int64_t item = begin; item < end; ++item) {
          const int64_t first = item % chunks * width;
          body(item / chunks, first, std::min(width, inner - first), thread);
        }
      },
      max_threads);
}

}  // namespace athanor::cpu
