// Matrix multiplication by packed blocks.
#pragma once
#include <algorithm>
#include <utility>

#include "athanor/backends/cpu/generic/gemm_micro.h"
#include "athanor/backends/cpu/generic/gemm_pack.h"
#include "athanor/backends/cpu/generic/gemm_shape.h"
#include "athanor/backends/cpu/generic/numeric.h"
#include "athanor/backends/cpu/generic/strided.h"
#include "athanor/backends/cpu/parallel.h"

namespace athanor::cpu {

/// C = activation(A B + bias), for matrices of T.
///
/// As many columns of B as the last-level cache holds are packed for all threads. Then each thread takes
/// blocks of A's rows, packs them for its second-level cache, and multiplies them by one panel of B after the
/// other. A panel stays in the first-level cache. (Goto, van de Geijn: Anatomy of High-Performance Matrix
/// Multiplication, 2008.) If A has few rows, packing B would take long beside the product. Then A is packed
/// for all threads, and each thread packs panels of B just before it multiplies by them, so that they never
/// leave its cache. The order in which the products of an element are added depends on k alone.
template <class T>
class Gemm {
 public:
  Gemm(const GemmShape& shape, int threads) : shape_(shape), threads_(threads), micro_(micro_kernel<A>()) {
    const double work =
        static_cast<double>(shape.m) * static_cast<double>(shape.n) * static_cast<double>(shape.k);
    by_item_ = shape.batch > 1 && (shape.batch >= 4 * threads || shape.batch % threads == 0 || work < 2e6);

    k_blocks_ = std::max<int64_t>(1, divide_up(shape.k, most_depth));
    depth_ = divide_up(shape.k, k_blocks_);
    // Sums of other types than T are kept until the last product is added, so all of k is one chunk.
    chunk_k_blocks_ = in_place ? std::min<int64_t>(k_blocks_, 8) : k_blocks_;
    const int64_t span = std::max<int64_t>(1, chunk_k_blocks_ * depth_);
    const int64_t panels = std::max<int64_t>(1, divide_up(shape.n, micro_.columns));
    const int64_t most_panels = (by_item_ ? packed_elements / 4 : packed_elements) / span / micro_.columns;
    chunk_panels_ = divide_up(panels, divide_up(panels, std::max<int64_t>(4, most_panels)));

    few_rows_ =
        in_place && !by_item_ && shape.m <= 2 * most_rows && work > worth_splitting && panels >= 2 * threads;
    if (few_rows_) {
      block_rows_ = divide_up(shape.m, micro_.rows) * micro_.rows;
      row_blocks_ = 1;
      return;
    }
    int64_t row_blocks = std::max<int64_t>(1, divide_up(shape.m, most_rows));
    if (!by_item_ && threads > 1 && work > worth_splitting) {
      if (shape.m >= int64_t{4} * threads * micro_.rows)
        row_blocks = divide_up(row_blocks, threads) * threads;
      else
        column_groups_ = std::min(chunk_panels_, divide_up(threads, row_blocks));
    }
    const int64_t row_tiles = divide_up(shape.m, micro_.rows);
    row_blocks_ = std::min(row_blocks, row_tiles);
    block_rows_ = divide_up(row_tiles, std::max<int64_t>(row_blocks_, 1)) * micro_.rows;
  }

  size_t scratch_bytes() const {
    if (few_rows_) return whole_a_bytes() + static_cast<size_t>(threads_) * panels_bytes();
    return static_cast<size_t>(threads_) * thread_bytes() + (by_item_ ? 0 : b_bytes());
  }

  void run(const T* a, const T* b, const T* bias, T* c, void* scratch) const {
    auto* memory = static_cast<std::byte*>(scratch);
    const auto item = [&](int64_t i, const auto& each, std::byte* threads, A* packed_b) {
      multiply({a + i * shape_.a.batch, b + i * shape_.b.batch, bias, c + i * shape_.m * shape_.n}, each,
               threads, packed_b);
    };
    if (by_item_) {
      const auto alone = [](int64_t count, int64_t, const auto& body) { body(int64_t{0}, count, 0); };
      const auto items = [&](int64_t begin, int64_t end, int thread) {
        std::byte* own = memory + static_cast<size_t>(thread) * thread_bytes();
        for (int64_t i = begin; i < end; ++i)
          item(i, alone, own, reinterpret_cast<A*>(own + a_bytes() + tile_bytes()));
      };
      parallel_for(shape_.batch, shape_.batch * shape_.m * shape_.n * std::max<int64_t>(shape_.k / 8, 1),
                   items, threads_);
      return;
    }
    if (few_rows_) {
      for (int64_t i = 0; i < shape_.batch; ++i)
        multiply_few_rows({a + i * shape_.a.batch, b + i * shape_.b.batch, bias, c + i * shape_.m * shape_.n},
                          memory);
      return;
    }
    const auto together = [&](int64_t count, int64_t work, const auto& body) {
      parallel_for(count, work, body, threads_);
    };
    auto* packed_b = reinterpret_cast<A*>(memory + static_cast<size_t>(threads_) * thread_bytes());
    for (int64_t i = 0; i < shape_.batch; ++i) item(i, together, memory, packed_b);
  }

 private:
  using A = Acc<T>;
  // Whether sums are kept in C itself.
  static constexpr bool in_place = std::is_same_v<A, T>;
  static constexpr int64_t most_depth = 256, most_rows = 144, packed_elements = 1 << 20;
  // Two, so that more than one cache line of each of B's rows is read at a time.
  static constexpr int64_t most_panels_of_few_rows = 2;
  static constexpr double worth_splitting = 64 * 64 * 64;

  struct Operands {
    const T *a, *b, *bias;
    T* c;
  };
  // The columns and the part of k that are packed at a time.
  struct Chunk {
    int64_t first_panel, panels, first_k_block, k_blocks;
  };

  static int64_t divide_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit; }
  size_t a_bytes() const { return aligned(static_cast<size_t>(block_rows_ * depth_) * sizeof(A)); }
  size_t b_bytes() const {
    return aligned(static_cast<size_t>(chunk_panels_ * micro_.columns * chunk_k_blocks_ * depth_) *
                   sizeof(A));
  }
  size_t tile_bytes() const {
    return in_place ? 0
                    : aligned(static_cast<size_t>(block_rows_ * chunk_panels_ * micro_.columns) * sizeof(A));
  }
  // Of few rows: all of A, and the panels of B that a thread packs at a time.
  size_t whole_a_bytes() const {
    return aligned(static_cast<size_t>(block_rows_ * std::max<int64_t>(shape_.k, 1)) * sizeof(A));
  }
  size_t panels_bytes() const {
    return aligned(static_cast<size_t>(most_panels_of_few_rows * micro_.columns * depth_) * sizeof(A));
  }
  size_t thread_bytes() const { return a_bytes() + tile_bytes() + (by_item_ ? b_bytes() : 0); }

  // `each` calls a body with ranges, as parallel_for does. Each thread has thread_bytes() at `threads`.
  template <class Each>
  void multiply(const Operands& operands, const Each& each, std::byte* threads, A* packed_b) const {
    const int64_t panels = divide_up(shape_.n, micro_.columns);
    for (int64_t first = 0; first < panels; first += chunk_panels_)
      for (int64_t k_block = 0; k_block < k_blocks_; k_block += chunk_k_blocks_) {
        const Chunk chunk{first, std::min(chunk_panels_, panels - first), k_block,
                          std::min(chunk_k_blocks_, k_blocks_ - k_block)};
        const int64_t elements = chunk.panels * micro_.columns * chunk.k_blocks * depth_;
        const int64_t groups = divide_up(chunk.panels, packing::panels_together);
        each(groups * chunk.k_blocks, elements, [&](int64_t begin, int64_t end, int) {
          for (int64_t i = begin; i < end; ++i)
            pack_b(operands, chunk, i / groups, i % groups * packing::panels_together, packed_b);
        });
        each(row_blocks_ * column_groups_, elements / 8 * shape_.m,
             [&](int64_t begin, int64_t end, int thread) {
               std::byte* own = threads + static_cast<size_t>(thread) * thread_bytes();
               for (int64_t i = begin; i < end; ++i)
                 run_block(operands, chunk, i / column_groups_, i % column_groups_, packed_b, own);
             });
      }
  }

  // The depth of the block of k that begins at `begin`.
  int64_t depth_at(int64_t begin) const { return std::min(depth_, shape_.k - begin); }

  void pack_b(const Operands& operands, const Chunk& chunk, int64_t k_block, int64_t panel, A* packed) const {
    const int64_t p = (chunk.first_k_block + k_block) * depth_;
    const int64_t column = (chunk.first_panel + panel) * micro_.columns;
    const int64_t panels = std::min(packing::panels_together, chunk.panels - panel);
    pack(Vectors<T>{operands.b + p * shape_.b.row + column * shape_.b.column,
                    std::min(panels * micro_.columns, shape_.n - column), shape_.b.column, depth_at(p),
                    shape_.b.row},
         micro_.columns, packed + (k_block * depth_ * chunk.panels + panel * depth_at(p)) * micro_.columns);
  }

  // The first row of a block. Blocks differ by a tile's rows at most, so that threads get equally many.
  int64_t first_row(int64_t block) const {
    return std::min(shape_.m, divide_up(shape_.m, micro_.rows) * block / row_blocks_ * micro_.rows);
  }

  // Computes a block of rows, for the group `group` of the chunk's columns.
  void run_block(const Operands& operands, const Chunk& chunk, int64_t row_block, int64_t group,
                 const A* packed_b, std::byte* memory) const {
    const int64_t row = first_row(row_block), rows = first_row(row_block + 1) - row;
    const int64_t begin = chunk.panels * group / column_groups_,
                  end = chunk.panels * (group + 1) / column_groups_;
    const int64_t column = (chunk.first_panel + begin) * micro_.columns;
    A* packed_a = reinterpret_cast<A*>(memory);
    T* c = operands.c + row * shape_.n + column;
    const int64_t stride = in_place ? shape_.n : (end - begin) * micro_.columns;
    A* sums;
    if constexpr (in_place)
      sums = c;
    else
      sums = reinterpret_cast<A*>(memory + a_bytes());
    for (int64_t k_block = 0; k_block < chunk.k_blocks; ++k_block) {
      const int64_t p = (chunk.first_k_block + k_block) * depth_, depth = depth_at(p);
      pack(Vectors<T>{operands.a + row * shape_.a.row + p * shape_.a.column, rows, shape_.a.row, depth,
                      shape_.a.column},
           micro_.rows, packed_a);
      const bool last = chunk.first_k_block + k_block + 1 == k_blocks_;
      for (int64_t panel = begin; panel < end; ++panel) {
        const int64_t x = (panel - begin) * micro_.columns,
                      columns = std::min<int64_t>(micro_.columns, shape_.n - column - x);
        const A* b = packed_b + (k_block * depth_ * chunk.panels + panel * depth) * micro_.columns;
        const T* bias = operands.bias == nullptr ? nullptr : operands.bias + column + x;
        for (int64_t i = 0; i < rows; i += micro_.rows) {
          TileEnd<A> tile_end = end_of_tile(p, bias);
          if (const int64_t next = i + micro_.rows; next < rows)
            fetch(sums + next * stride + x, rows - next, stride, tile_end);
          else if (panel + 1 < end)
            fetch(sums + x + micro_.columns, rows, stride, tile_end);
          run_tile(micro_, depth, packed_a + i * depth, b, sums + i * stride + x, stride,
                   std::min<int64_t>(micro_.rows, rows - i), columns, tile_end);
        }
        if (last) finish(sums + x, stride, rows, columns, bias, c + x);
      }
    }
  }

  void multiply_few_rows(const Operands& operands, std::byte* memory) const {
    A* packed_a = reinterpret_cast<A*>(memory);
    const int64_t rows_together = 4 * micro_.rows, row_groups = divide_up(shape_.m, rows_together);
    const auto pack_rows = [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t p = i / row_groups * depth_, row = i % row_groups * rows_together;
        pack(Vectors<T>{operands.a + row * shape_.a.row + p * shape_.a.column,
                        std::min(rows_together, shape_.m - row), shape_.a.row, depth_at(p), shape_.a.column},
             micro_.rows, packed_a + p * block_rows_ + row * depth_at(p));
      }
    };
    parallel_for(row_groups * k_blocks_, shape_.m * shape_.k, pack_rows, threads_);

    const auto run_columns = [&](int64_t begin, int64_t end, int thread) {
      A* packed_b =
          reinterpret_cast<A*>(memory + whole_a_bytes() + static_cast<size_t>(thread) * panels_bytes());
      const int64_t last_column = std::min(end * micro_.columns, shape_.n);
      for (int64_t p = 0; p < k_blocks_ * depth_; p += depth_)
        for (int64_t panel = begin; panel < end; panel += most_panels_of_few_rows) {
          const int64_t column = panel * micro_.columns,
                        columns = std::min(most_panels_of_few_rows * micro_.columns, last_column - column);
          pack(Vectors<T>{operands.b + p * shape_.b.row + column * shape_.b.column, columns, shape_.b.column,
                          depth_at(p), shape_.b.row},
               micro_.columns, packed_b);
          for (int64_t x = 0; x < columns; x += micro_.columns)
            run_panel(operands, p, column + x, packed_a + p * block_rows_, packed_b + x * depth_at(p));
        }
    };
    parallel_for(divide_up(shape_.n, micro_.columns), shape_.m * shape_.k / 8 * shape_.n, run_columns,
                 threads_);
  }

  // Adds the products of the block of k from `p` on to all rows of the panel of columns from `column` on.
  void run_panel(const Operands& operands, int64_t p, int64_t column, const A* packed_a,
                 const A* packed_b) const {
    const int64_t depth = depth_at(p), columns = std::min<int64_t>(micro_.columns, shape_.n - column);
    T* c = operands.c + column;
    const T* bias = operands.bias == nullptr ? nullptr : operands.bias + column;
    if constexpr (in_place) {
      for (int64_t i = 0; i < shape_.m; i += micro_.rows) {
        TileEnd<A> tile_end = end_of_tile(p, bias);
        if (const int64_t next = i + micro_.rows; next < shape_.m)
          fetch(c + next * shape_.n, shape_.m - next, shape_.n, tile_end);
        run_tile(micro_, depth, packed_a + i * depth, packed_b, c + i * shape_.n, shape_.n,
                 std::min<int64_t>(micro_.rows, shape_.m - i), columns, tile_end);
      }
      if (p + depth_ >= shape_.k) finish(c, shape_.n, shape_.m, columns, bias, c);
    }
  }

  // For a tile of the block of k from `p` on, whose columns have these numbers to add.
  TileEnd<A> end_of_tile(int64_t p, [[maybe_unused]] const T* bias) const {
    TileEnd<A> end{.add = p > 0};
    if constexpr (in_place)
      if (p + depth_ >= shape_.k) end.bias = bias, end.relu = shape_.activation == Activation::relu;
    return end;
  }

  // Has a tile fetch the one at `next`, of which `rows` are left.
  void fetch(const A* next, int64_t rows, int64_t stride, TileEnd<A>& end) const {
    end.next = next, end.next_rows = std::min<int64_t>(micro_.rows, rows), end.next_stride = stride;
  }

  // c = activation(sums + bias), unless the tiles' ends have done that.
  void finish(const A* sums, int64_t stride, int64_t rows, int64_t columns, const T* bias, T* c) const {
    const Activation activation = shape_.activation;
    if (in_place && (activation == Activation::none || activation == Activation::relu)) return;
    const bool adds = !in_place && bias != nullptr;
    const auto each = [&](const auto& activated) {
      for (int64_t i = 0; i < rows; ++i, sums += stride, c += shape_.n)
        for (int64_t j = 0; j < columns; ++j)
          c[j] = store<T>(activated(adds ? sums[j] + load(bias[j]) : sums[j]));
    };
    // Loops that choose no activation for each element. Compilers make vectors of them.
    if (activation == Activation::none)
      each([](A sum) { return sum; });
    else if (activation == Activation::relu)
      each([](A sum) { return activate(Activation::relu, sum); });
    else
      each([&](A sum) { return activate(activation, sum); });
  }

  GemmShape shape_;
  int threads_;
  MicroKernel<A> micro_;
  int64_t depth_, k_blocks_, chunk_k_blocks_, chunk_panels_;
  int64_t block_rows_, row_blocks_, column_groups_ = 1;  // block_rows_: the most of a block
  bool by_item_;                                         // each thread computes whole products of the batch
  bool few_rows_ = false;                                // A is packed for all threads
};

}  // namespace athanor::cpu
