// Matrix multiplication by packed blocks.
#pragma once
#include <algorithm>
#include <atomic>
#include <utility>

#include "athanor/backends/cpu/generic/gemm_fetch.h"
#include "athanor/backends/cpu/generic/gemm_products.h"
#include "athanor/backends/cpu/generic/gemm_shape.h"
#include "athanor/backends/cpu/generic/strided.h"
#include "athanor/backends/cpu/parallel.h"
#include "athanor/base/ceil_div.h"

namespace athanor::cpu {

/// C = activation(A B + bias), for matrices of T. `Products` multiplies the packed panels.
///
/// As many columns of B as the last-level cache holds are packed for all threads. Then each thread takes
/// blocks of A's rows, packs them for its second-level cache, and multiplies them by one panel of B after the
/// other. A panel stays in the first-level cache. (Goto, van de Geijn: Anatomy of High-Performance Matrix
/// Multiplication, 2008.) If A has few rows, packing B would take long beside the product. Then A is packed
/// for all threads, some of k at a time, and each thread packs panels of B just before it multiplies by them,
/// so that they never leave its cache. The order in which the products of an element are added depends on k
/// alone.
template <class T, class Products = VectorProducts<T>>
class Gemm {
 public:
  Gemm(const GemmShape& shape, int threads, Products products = {})
      : shape_(shape), threads_(threads), products_(std::move(products)) {
    const double work =
        static_cast<double>(shape.m) * static_cast<double>(shape.n) * static_cast<double>(shape.k);
    by_item_ = shape.batch > 1 && (shape.batch >= 4 * threads || shape.batch % threads == 0 || work < 2e6);

    k_blocks_ = std::max<int64_t>(1, ceil_div(shape.k, Products::most_depth));
    depth_ = ceil_div(ceil_div(shape.k, k_blocks_), Products::depth_unit) * Products::depth_unit;
    stores_results_ =
        Products::stores_results &&
        (Products::sums_in_c || shape.activation == Activation::none || shape.activation == Activation::relu);
    keeps_sums_ = !Products::sums_in_c && !(stores_results_ && k_blocks_ == 1);
    // Sums that are kept beside C are kept until the last product is added, so all of k is one chunk.
    chunk_k_blocks_ = keeps_sums_ ? k_blocks_ : std::min<int64_t>(k_blocks_, 8);
    const int64_t span = std::max<int64_t>(1, chunk_k_blocks_ * depth_);
    const int64_t panels = std::max<int64_t>(1, ceil_div(shape.n, tile_columns_));
    const int64_t most_panels = Products::most_of_b / (by_item_ ? 4 : 1) / span / tile_columns_;
    chunk_panels_ = ceil_div(panels, ceil_div(panels, std::max<int64_t>(4, most_panels)));

    few_rows_ = (Products::sums_in_c || stores_results_) && !by_item_ && shape.m <= 2 * Products::most_rows &&
                work > worth_splitting && panels >= 2 * threads;
    if (few_rows_) {
      block_rows_ = ceil_div(shape.m, tile_rows_) * tile_rows_;
      row_blocks_ = 1;
      return;
    }
    int64_t row_blocks = std::max<int64_t>(1, ceil_div(shape.m, Products::most_rows));
    if (!by_item_ && threads > 1 && work > worth_splitting) {
      if (shape.m >= int64_t{4} * threads * tile_rows_)
        row_blocks = ceil_div(row_blocks, threads) * threads;
      else
        column_groups_ = std::min(chunk_panels_, ceil_div(threads, row_blocks));
    }
    const int64_t row_tiles = ceil_div(shape.m, tile_rows_);
    row_blocks_ = std::min(row_blocks, row_tiles);
    block_rows_ = ceil_div(row_tiles, std::max<int64_t>(row_blocks_, 1)) * tile_rows_;
  }

  size_t scratch_bytes() const {
    if (few_rows_) return whole_a_bytes() + all_sums_bytes() + static_cast<size_t>(threads_) * panels_bytes();
    return static_cast<size_t>(threads_) * thread_bytes() + (by_item_ ? 0 : b_bytes());
  }

  /// Returns false if the Products cannot multiply these numbers. Then C is undefined.
  [[nodiscard]] bool run(const T* a, const T* b, const T* bias, T* c, void* scratch) const {
    std::atomic<bool> valid = true;
    auto* memory = static_cast<std::byte*>(scratch);
    const auto item_at = [&](int64_t i) {
      return Operands{a + i * shape_.a.batch, b + i * shape_.b.batch, bias, c + i * shape_.m * shape_.n,
                      valid};
    };
    if (by_item_) {
      const auto items = [&](int64_t begin, int64_t end, int thread) {
        std::byte* own = memory + static_cast<size_t>(thread) * thread_bytes();
        for (int64_t i = begin; i < end; ++i)
          multiply(item_at(i), 1, own, reinterpret_cast<Packed*>(own + a_bytes() + sums_bytes()));
      };
      parallel_for(shape_.batch, shape_.batch * shape_.m * shape_.n * std::max<int64_t>(shape_.k / 8, 1),
                   items, threads_);
      return valid;
    }
    if (few_rows_) {
      for (int64_t i = 0; i < shape_.batch; ++i) multiply_few_rows(item_at(i), memory);
      return valid;
    }
    auto* packed_b = reinterpret_cast<Packed*>(memory + static_cast<size_t>(threads_) * thread_bytes());
    for (int64_t i = 0; i < shape_.batch; ++i) multiply(item_at(i), threads_, memory, packed_b);
    return valid;
  }

 private:
  using A = Acc<T>;
  using Packed = typename Products::Packed;
  using Multiplier = typename Products::Multiplier;
  // Two, so that more than one cache line of each of B's rows is read at a time.
  static constexpr int64_t most_panels_of_few_rows = 2;
  static constexpr double worth_splitting = 64 * 64 * 64;
  // Of few rows, the most elements of A that are packed at a time.
  static constexpr int64_t most_of_a = 1 << 22;

  struct Operands {
    const T *a, *b, *bias;
    T* c;
    std::atomic<bool>& valid;  // becomes false if the Products cannot multiply the numbers
  };
  // The columns and the part of k that are packed at a time.
  struct Chunk {
    int64_t first_panel, panels, first_k_block, k_blocks;
  };

  static size_t packed_bytes(int64_t vectors, int64_t depth) {
    return aligned(static_cast<size_t>(Products::packed_size(vectors, depth)) * sizeof(Packed));
  }
  size_t a_bytes() const { return packed_bytes(block_rows_, depth_); }
  size_t b_bytes() const { return packed_bytes(chunk_panels_ * tile_columns_, chunk_k_blocks_ * depth_); }
  size_t sums_bytes() const {
    if (!keeps_sums_) return 0;
    return aligned(static_cast<size_t>(block_rows_ * chunk_panels_ * tile_columns_) * sizeof(A));
  }
  // Of few rows: as many blocks of k of A as are packed at a time, all sums, and a thread's panels of B.
  size_t whole_a_bytes() const { return packed_bytes(block_rows_, a_k_blocks() * depth_); }
  int64_t a_k_blocks() const {
    return std::clamp<int64_t>(most_of_a / std::max<int64_t>(block_rows_ * depth_, 1), 1, k_blocks_);
  }
  size_t all_sums_bytes() const {
    return keeps_sums_ ? aligned(static_cast<size_t>(block_rows_ * sums_stride()) * sizeof(A)) : 0;
  }
  int64_t sums_stride() const { return ceil_div(shape_.n, tile_columns_) * tile_columns_; }
  size_t panels_bytes() const { return packed_bytes(most_panels_of_few_rows * tile_columns_, depth_); }
  size_t thread_bytes() const { return a_bytes() + sums_bytes() + (by_item_ ? b_bytes() : 0); }

  // The depth of the block of k that begins at `begin`.
  int64_t depth_at(int64_t begin) const { return std::min(depth_, shape_.k - begin); }

  // The part of A's rows, or of B's columns, that lies in the block of k from `p` on.
  GemmPart<T> part_of_a(const Operands& operands, int64_t row, int64_t rows, int64_t p) const {
    return {operands.a, shape_.a.row, shape_.a.column, row, rows, p, depth_at(p)};
  }
  GemmPart<T> part_of_b(const Operands& operands, int64_t column, int64_t columns, int64_t p) const {
    return {operands.b, shape_.b.column, shape_.b.row, column, columns, p, depth_at(p)};
  }
  void pack_a(const Operands& operands, int64_t row, int64_t rows, int64_t p, Packed* to) const {
    if (!products_.pack_rows(part_of_a(operands, row, rows, p), to)) operands.valid = false;
  }
  void pack_b(const Operands& operands, int64_t column, int64_t columns, int64_t p, Packed* to) const {
    if (!products_.pack_columns(part_of_b(operands, column, columns, p), to)) operands.valid = false;
  }

  // Each of at most `most` threads has thread_bytes() at `threads`.
  void multiply(const Operands& operands, int most, std::byte* threads, Packed* packed_b) const {
    const int64_t panels = ceil_div(shape_.n, tile_columns_);
    for (int64_t first = 0; first < panels; first += chunk_panels_)
      for (int64_t k_block = 0; k_block < k_blocks_; k_block += chunk_k_blocks_) {
        const Chunk chunk{first, std::min(chunk_panels_, panels - first), k_block,
                          std::min(chunk_k_blocks_, k_blocks_ - k_block)};
        const int64_t elements = chunk.panels * tile_columns_ * chunk.k_blocks * depth_;
        const int64_t groups = ceil_div(chunk.panels, packing::panels_together);
        const auto pack = [&](int64_t begin, int64_t end, int) {
          for (int64_t i = begin; i < end; ++i) {
            const int64_t panel = i % groups * packing::panels_together, block = i / groups,
                          column = (first + panel) * tile_columns_,
                          columns = std::min(packing::panels_together, chunk.panels - panel) * tile_columns_;
            pack_b(operands, column, std::min(columns, shape_.n - column), (k_block + block) * depth_,
                   packed_b + offset_in(chunk, panel, block));
          }
        };
        parallel_for(groups * chunk.k_blocks, elements, pack, most);
        const auto run_blocks = [&](int64_t begin, int64_t end, int thread) {
          std::byte* own = threads + static_cast<size_t>(thread) * thread_bytes();
          Multiplier multiplier(products_);
          for (int64_t i = begin; i < end; ++i)
            run_block(operands, chunk, i, i + 1 < end ? i + 1 : -1, packed_b, own, multiplier);
          if (!multiplier.finish()) operands.valid = false;
        };
        parallel_for(row_blocks_ * column_groups_, elements / 8 * shape_.m, run_blocks, most);
      }
  }

  // Where a panel's part of a block of k is in a packed chunk.
  int64_t offset_in(const Chunk& chunk, int64_t panel, int64_t k_block) const {
    const int64_t depth = depth_at((chunk.first_k_block + k_block) * depth_);
    return Products::packed_size(chunk.panels * tile_columns_, depth_) * k_block +
           Products::packed_size(panel * tile_columns_, depth);
  }

  // The first row of a block. Blocks differ by a tile's rows at most, so that threads get equally many.
  int64_t first_row(int64_t block) const {
    return std::min(shape_.m, ceil_div(shape_.m, tile_rows_) * block / row_blocks_ * tile_rows_);
  }

  // Computes block `block` of rows and group of the chunk's columns. The thread's next one is `next`, or -1.
  void run_block(const Operands& operands, const Chunk& chunk, int64_t block, int64_t next,
                 const Packed* packed_b, std::byte* memory, Multiplier& multiplier) const {
    const auto rows_of = [&](int64_t b) {
      const int64_t begin = first_row(b / column_groups_);
      return std::pair(begin, first_row(b / column_groups_ + 1) - begin);
    };
    const auto [row, rows] = rows_of(block);
    const int64_t group = block % column_groups_;
    const int64_t begin = chunk.panels * group / column_groups_,
                  end = chunk.panels * (group + 1) / column_groups_;
    if (begin == end) return;  // the last chunk has fewer panels than groups
    auto* packed_a = reinterpret_cast<Packed*>(memory);
    auto* sums = reinterpret_cast<A*>(memory + a_bytes());
    for (int64_t k_block = 0; k_block < chunk.k_blocks; ++k_block) {
      const int64_t p = (chunk.first_k_block + k_block) * depth_;
      pack_a(operands, row, rows, p, packed_a);
      PartFetch fetch;
      const int64_t tiles = ceil_div(rows, tile_rows_) * (end - begin);
      if (k_block + 1 < chunk.k_blocks)
        fetch.begin(part_of_a(operands, row, rows, p + depth_), tiles);
      else if (next >= 0)
        fetch.begin(
            part_of_a(operands, rows_of(next).first, rows_of(next).second, chunk.first_k_block * depth_),
            tiles);
      for (int64_t panel = begin; panel < end; ++panel)
        run_panel(operands, {row, rows, (chunk.first_panel + panel) * tile_columns_, panel + 1 < end}, p,
                  packed_a, packed_b + offset_in(chunk, panel, k_block),
                  keeps_sums_ ? sums + (panel - begin) * tile_columns_ : nullptr,
                  (end - begin) * tile_columns_, multiplier, fetch);
    }
  }

  void multiply_few_rows(const Operands& operands, std::byte* memory) const {
    for (int64_t block = 0; block < k_blocks_; block += a_k_blocks())
      multiply_few_rows(operands, block, std::min(a_k_blocks(), k_blocks_ - block), memory);
  }

  // The same for `blocks` blocks of k.
  void multiply_few_rows(const Operands& operands, int64_t first_block, int64_t blocks,
                         std::byte* memory) const {
    auto* packed_a = reinterpret_cast<Packed*>(memory);
    const int64_t rows_together = 4 * tile_rows_, row_groups = ceil_div(shape_.m, rows_together);
    const auto pack_rows = [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t block = i / row_groups, p = (first_block + block) * depth_,
                      row = i % row_groups * rows_together;
        pack_a(operands, row, std::min(rows_together, shape_.m - row), p,
               packed_a + Products::packed_size(block_rows_, depth_) * block +
                   Products::packed_size(row, depth_at(p)));
      }
    };
    parallel_for(row_groups * blocks, shape_.m * blocks * depth_, pack_rows, threads_);

    const auto run_columns = [&](int64_t begin, int64_t end, int thread) {
      auto* sums = reinterpret_cast<A*>(memory + whole_a_bytes());
      auto* packed_b = reinterpret_cast<Packed*>(memory + whole_a_bytes() + all_sums_bytes() +
                                                 static_cast<size_t>(thread) * panels_bytes());
      Multiplier multiplier(products_);
      const int64_t last_column = std::min(end * tile_columns_, shape_.n);
      for (int64_t block = 0; block < blocks; ++block)
        for (int64_t panel = begin; panel < end; panel += most_panels_of_few_rows) {
          const int64_t p = (first_block + block) * depth_, column = panel * tile_columns_,
                        columns = std::min(most_panels_of_few_rows * tile_columns_, last_column - column);
          pack_b(operands, column, columns, p, packed_b);
          PartFetch fetch;
          const int64_t next = column + columns;
          if (next < last_column)
            fetch.begin(part_of_b(operands, next,
                                  std::min(most_panels_of_few_rows * tile_columns_, last_column - next), p),
                        ceil_div(shape_.m, tile_rows_) * ceil_div(columns, tile_columns_));
          for (int64_t x = 0; x < columns; x += tile_columns_)
            run_panel(operands, {0, shape_.m, column + x, false}, p,
                      packed_a + Products::packed_size(block_rows_, depth_) * block,
                      packed_b + Products::packed_size(x, depth_at(p)),
                      keeps_sums_ ? sums + column + x : nullptr, sums_stride(), multiplier, fetch);
        }
      if (!multiplier.finish()) operands.valid = false;
    };
    parallel_for(ceil_div(shape_.n, tile_columns_), shape_.m * blocks * depth_ / 8 * shape_.n, run_columns,
                 threads_);
  }

  // Rows of the columns of one panel.
  struct Panel {
    int64_t row, rows, column;
    bool has_next;  // whether the same rows of the panel beside it come next
  };

  // Adds the products of the block of k from `p` on. If sums are kept beside C, those of the panel are at
  // `kept`, in rows `kept_stride` elements apart.
  void run_panel(const Operands& operands, const Panel& panel, int64_t p, const Packed* packed_a,
                 const Packed* packed_b, A* kept, int64_t kept_stride, Multiplier& multiplier,
                 PartFetch& fetch) const {
    const bool last = p + depth_ >= shape_.k;
    T* const c = operands.c + panel.row * shape_.n + panel.column;
    A* sums = kept;
    if constexpr (Products::sums_in_c) sums = c;
    const int64_t stride = Products::sums_in_c ? shape_.n : kept_stride;
    GemmTile<T> tile{.row = 0,
                     .column = panel.column,
                     .rows = 0,
                     .columns = std::min<int64_t>(tile_columns_, shape_.n - panel.column),
                     .sums = nullptr,
                     .stride = stride,
                     .result_stride = shape_.n,
                     .c = operands.c,
                     .end = {.add = p > 0, .next_stride = stride}};
    const bool stores = last && stores_results_;
    if (stores) {
      if (operands.bias != nullptr) tile.bias = operands.bias + panel.column;
      if constexpr (std::is_same_v<A, T>) tile.end.bias = tile.bias;
      tile.end.relu = shape_.activation == Activation::relu;
    }
    for (int64_t i = 0; i < panel.rows; i += tile_rows_) {
      tile.row = panel.row + i;
      tile.rows = std::min<int64_t>(tile_rows_, panel.rows - i);
      if (Products::sums_in_c || keeps_sums_) tile.sums = sums + i * stride;
      if (stores) tile.results = c + i * shape_.n;
      const int64_t next = i + tile_rows_ < panel.rows ? i + tile_rows_ : 0;
      const bool goes_on = tile.sums != nullptr && (next > 0 || panel.has_next);
      tile.end.next = goes_on ? sums + next * stride + (next > 0 ? 0 : tile_columns_) : nullptr;
      tile.end.next_rows = goes_on ? std::min<int64_t>(tile_rows_, panel.rows - next) : 0;
      fetch.go_on();
      multiplier.run(tile, depth_at(p), packed_a + Products::packed_size(i, depth_at(p)), packed_b);
    }
    if (last) finish(operands, panel, kept, kept_stride, multiplier);
  }

  // What storing tiles has left to do: c = activation(sums + bias).
  void finish(const Operands& operands, const Panel& panel, const A* sums, int64_t stride,
              Multiplier& multiplier) const {
    const Activation activation = shape_.activation;
    if (stores_results_ && (activation == Activation::none || activation == Activation::relu)) return;
    if (!multiplier.finish()) operands.valid = false;
    T* c = operands.c + panel.row * shape_.n + panel.column;
    const T* bias = stores_results_ || operands.bias == nullptr ? nullptr : operands.bias + panel.column;
    if constexpr (Products::sums_in_c) sums = c, stride = shape_.n;
    const int64_t columns = std::min<int64_t>(tile_columns_, shape_.n - panel.column);
    const auto each = [&](const auto& activated) {
      for (int64_t i = 0; i < panel.rows; ++i, sums += stride, c += shape_.n)
        for (int64_t j = 0; j < columns; ++j)
          c[j] = store<T>(activated(bias == nullptr ? sums[j] : sums[j] + load(bias[j])));
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
  Products products_;
  int64_t tile_rows_ = products_.rows(), tile_columns_ = products_.columns();
  int64_t depth_, k_blocks_, chunk_k_blocks_, chunk_panels_;
  int64_t block_rows_, row_blocks_, column_groups_ = 1;  // block_rows_: the most of a block
  bool by_item_;                                         // each thread computes whole products of the batch
  bool few_rows_ = false;                                // A is packed for all threads
  bool stores_results_;                                  // what the Products store is activated, too
  bool keeps_sums_;                                      // in memory beside C
};

}  // namespace athanor::cpu
