// Runs a loop on one thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "athanor/backends/cpu/loops/tiled_loop.h"

namespace athanor::loops {

/// Waking a team of threads and waiting for it takes a few microseconds. Loops of less time than this run on
/// one thread.
constexpr double worth_sharing_ns = 8000;

/// Writes n elements of `item` bytes, each the low bytes of `bits`.
void fill(void* dst, uint64_t bits, size_t item, size_t n);

/// A thread's position in the tiles of a Tiling, and its registers. Kept from run to run, so that running
/// allocates nothing.
class Frame {
 public:
  /// Takes the operands' addresses from `buffers` and runs the instructions that run once.
  void enter(const Tiling& tiling, const Code& code, std::span<void* const> buffers, std::byte* scratch);
  /// Goes to a tile. Tiles are counted in the order of the loops.
  void seek(int64_t tile);
  void advance();
  void run_tile();

  int64_t rows() const;
  int64_t elements() const { return rows() * tiling_->row_size; }
  void* reg(int r) const { return registers_[static_cast<size_t>(r)]; }
  void set_reg(int r, void* p) { registers_[static_cast<size_t>(r)] = p; }
  int64_t at(int walker) const { return at_[static_cast<size_t>(walker)]; }

 private:
  void run(const Instruction& i, int64_t rows, size_t n);
  /// Whether an instruction reads the memory that `target` writes.
  bool reads(int target) const;
  void find_streams();
  void fetch(int64_t lines);

  struct Stream {
    int64_t walker, bytes;  // bytes: of a tile
  };
  const Tiling* tiling_ = nullptr;
  const Code* code_ = nullptr;
  std::vector<int64_t> origin_, at_, last_, last_rows_;  // for each walker
  std::vector<void*> registers_;
  std::vector<int64_t> trip_;      // for each loop
  std::vector<uint8_t> streamed_;  // for each walker: written past the caches
  // While one tile is computed, the next tile's memory is fetched, a few lines before each instruction. So
  // memory and arithmetic work at the same time.
  std::vector<Stream> ahead_;
  int64_t ahead_lines_ = 0;  // fetched before each instruction
  size_t fetching_ = 0;      // index in ahead_
  int64_t fetched_ = 0;      // bytes of that stream
};

/// A thread's frames and scratch memory.
class Worker {
 public:
  static Worker& of_this_thread();

  /// Runs tiles [first, last) of a loop without reductions.
  void run_tiles(const TiledLoop& loop, std::span<void* const> buffers, int64_t first, int64_t last);
  /// Runs pieces [first, last) of the units of a loop with reductions (unit first / pieces, piece first %
  /// pieces, ...). With one piece for each unit the epilogue follows at once; otherwise partial results go to
  /// `partials`.
  void run_pieces(const TiledLoop& loop, std::span<void* const> buffers, int64_t first, int64_t last,
                  std::byte* partials);
  /// Combines the partial results of every unit and runs the epilogues.
  void combine(const TiledLoop& loop, std::span<void* const> buffers, std::byte* partials);

  /// Memory for partial results; belongs to the thread that starts the others.
  std::byte* partials(int64_t bytes);

 private:
  void enter(const TiledLoop& loop, std::span<void* const> buffers);
  void clear(const TiledLoop& loop);
  void accumulate(const TiledLoop& loop, bool flush);
  void fold_columns(const TiledLoop& loop);
  void save(const TiledLoop& loop, std::byte* partial);
  void merge(const TiledLoop& loop, std::byte* partial);
  void finish_unit(const TiledLoop& loop, int64_t unit);

  template <class T = void>
  T* scratch(int64_t offset) const {
    return reinterpret_cast<T*>(scratch_ + offset);
  }

  Frame body_, epilogue_;
  std::vector<std::byte> memory_, partials_;
  std::byte* scratch_ = nullptr;
};

}  // namespace athanor::loops
