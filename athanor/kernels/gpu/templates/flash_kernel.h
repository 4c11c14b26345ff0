// Writes attention's kernels by matrix units (T. Dao, FlashAttention-2, 2023): a group has own rows, each
// wave some of them, and the other rows come in blocks through local memory. Scores stay in registers.
#pragma once
#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "athanor/kernels/gpu/templates/attention.h"
#include "athanor/kernels/gpu/templates/flash_block.h"

namespace athanor::gpu {

/// A point of the tuning space.
struct FlashPoint {
  FlashUnit unit{};
  int64_t waves = 4;       // of a group
  int64_t tiles = 1;       // tiles of the unit's own rows that a wave has
  int64_t block = 64;      // other rows at a time
  bool async = false;      // filled by asynchronous copies, in two stages; else through registers
  bool own_local = false;  // own rows stay in local memory, else in registers
  bool unrolled = false;   // the text has each round of loops over tiles
  bool at_launch = false;  // local memory is asked for at launch, because it is more than kernels may declare
  int64_t room = 0;        // waves for which a SIMD must have registers; 0: the compiler decides
  int64_t parts = 0;  // of a head's keys, for all three gradients: groups take chunks of own rows in turn

  int64_t items() const { return waves * unit.unit->wave; }
  int64_t wave_rows() const { return tiles * unit.own_rows(); }
  int64_t rows() const { return waves * wave_rows(); }
};

class FlashKernel {
 public:
  FlashKernel(const AttentionProblem& problem, const FlashPoint& point);
  bool fits(const GpuTraits& traits, int64_t most_local_bytes) const;
  int64_t local_bytes() const;
  /// Whether items have equal shares of the work of filling local memory.
  bool even() const;
  /// Registers that a lane needs at least, roughly.
  int64_t registers() const;
  GpuLaunch launch();

  // For all three gradients. A part has a copy of the gradient by queries: in f32, as waves hold it.
  int64_t copy_numbers() const;
  /// Adds the copies. The kernel's problem is that of the gradient by queries alone.
  GpuLaunch sum_launch();

 private:
  using Body = std::function<void()>;
  using Cell = LaneLayout::Cell;

  // What the kind of problem computes.
  bool sums_by_first() const { return p_.has_second(); }  // sums other_1 by the scores' gradients
  bool sums_by_second() const;                            // sums other_2 by weights
  bool softmax() const { return !p_.is_grad(); }
  bool by_keys() const { return p_.by_keys(); }
  bool of_all() const { return p_.kind == AttentionKind::grad_qkv; }
  /// Whether scores are multiplied by the scale in a separate step; else within the exponent.
  bool scaled_first() const { return masked() || p_.scale <= 0 || (softmax() && packs()); }
  /// Whether scores are computed as vectors, of which CDNA2 takes two numbers at once.
  bool packs() const { return u_.mfma(); }
  std::string factor() const;  // of scores in an exponent of 2
  /// A score's weight relative to the base. Both are exponents of 2, or with a mask of e: times log2(e), one
  /// of -3.4e38 would overflow, and a row that it hides as a whole would have no weights.
  std::string power(const std::string& score, const std::string& base) const;
  // Minus infinity. NVIDIA's compilers call a function for -1.0f / 0.0f, which takes registers. Without it,
  // a kernel by mma.sync for sm_75 is predicted to be slower.
  const char* lowest() const { return by_four() ? "F32_OF_BITS(0xff800000u)" : "-1.0f / 0.0f"; }
  static std::string times_f32(double value);  // " * 0.125f"; "" for 1
  bool masked() const { return !p_.mask.name.empty(); }
  double of_lse() const;  // the factor of a log-sum-exp as a base

  // The unit's C.
  int64_t elements() const { return u_.unit->c.elements; }
  int64_t score_tiles() const { return point_.block / u_.tile(); }
  int slots() const { return u_.mma() ? 2 : 1; }  // own rows of a lane in a tile
  int slot_of(int element) const { return u_.mma() ? element / 2 : 0; }
  int other_of(int element) const { return u_.unit->c.at(0, element).*u_.other(); }
  std::string own_row(const std::string& i, int slot) const;
  std::string c_type() const;

  int64_t stage_elements() const;
  int64_t own_elements() const;
  /// Whether both own blocks pass through local memory one after the other, because together they would need
  /// more of it than the loop does.
  bool own_in_turn() const;
  int64_t stages() const { return point_.async ? 2 : 1; }
  int64_t tile_elements() const;  // in local memory
  int64_t kept_begin() const;
  int64_t put_begin() const { return kept_begin() + kept_->elements(); }
  int64_t streams_begin() const { return point_.own_local ? own_elements() : 0; }

  /// Whether registers suffice only if values are used as soon as they are read.
  bool tight() const { return registers() > 150; }
  void fence(bool wanted);
  void each_tile(const char* index, int64_t count, const Body& body);
  void each_stream(const std::function<void(const FlashBlock&, int64_t at)>& body) const;

  void declare_lanes(bool hidden);
  /// Declares fragments of C that are zero.
  void zeros(const std::string& name, int64_t tiles, int64_t fragments);
  void begin();
  void load_own();
  void load_own_directly(const FlashBlock& block, const char* name);
  void declare_rows();
  void fetch(const std::string& next, const std::string& at);
  void load_numbers(const std::string& begin);
  void store_numbers(const std::string& at);
  void loop();
  void compute(const std::string& at, const std::string& numbers);

  void product(const std::string& result, const FlashBlock& own, const std::string& held, int64_t own_at,
               const FlashBlock& other, const std::string& at);
  void limit();
  void scale_scores();
  void weigh_by_softmax();
  void exponentiate();
  void weigh_by_lse(const std::string& numbers);
  void score_gradients(const std::string& numbers);
  /// sums += weights by rows, in steps along rows. `weights` fills p[i], and `part` reads the rows' features.
  struct Sum {
    std::string sums;
    int64_t tiles, reads, steps;
    Body weights, part;
  };
  void sum(const Sum& what);
  /// Whether a block's sums are computed from zero, and then added to the sums so far (flash_anew.cpp).
  bool sums_anew() const { return softmax() && sums_by_second() && u_.by_steps(); }
  void sum_anew(const FlashBlock& other, const std::string& at);
  bool reads_ahead() const { return u_.mfma() && !point_.own_local; }
  void each_read(const std::string& type, int64_t steps, const Body& read, const Body& multiply);
  void product_ahead(const std::string& result, const FlashBlock& own, const std::string& held,
                     const FlashBlock& other, const std::string& at);
  void sum_ahead(const std::string& sums, const std::string& weights, const FlashBlock& other,
                 const std::string& at);
  void sum_others(const std::string& sums, const std::string& weights, const FlashBlock& other,
                  const std::string& at);
  void pack(const std::string& weights, const std::string& step);
  void pack_steps(const std::string& weights, const std::string& step, const std::string& to);
  void finish_rows();
  /// Where the first block of queries begins that see keys from `first` on.
  std::string first_seeing(const std::string& first) const;

  // By units of four waves, which multiply while the waves continue (flash_local_matrices.cpp).
  bool by_four() const { return u_.four != nullptr; }
  std::string multiply(const MultiplyRows& word, const std::string& c, const std::string& a,
                       const std::string& b);
  void start_product(const std::string& result, const FlashBlock& own, const std::string& held,
                     int64_t own_at, const FlashBlock& other, const std::string& at);
  void start_sum(const std::string& sums, const std::string& weights, const FlashBlock& other,
                 const std::string& at);
  void hide(const std::string& fragments, int64_t columns);
  void await(int64_t still_running);
  void keep_own();
  void start_block(const std::string& at);
  void compute_by_four(const std::string& at, const std::string& numbers);

  // The gradient by queries, of all three: each wave computes some tiles of a block's.
  int64_t query_tiles() const { return point_.block / u_.own_rows(); }
  int64_t query_reads() const { return own_1_.features() / u_.read(); }
  int64_t share() const;  // of a wave, in tiles x reads
  int64_t share_tiles() const { return std::max<int64_t>(1, share() / query_reads()); }
  int64_t share_reads() const { return std::min(share(), query_reads()); }
  bool shares() const;
  std::string has_share() const;
  int64_t fragment_bytes() const { return u_.own_rows() * u_.tile() * 4; }
  void declare_queries();
  void put_weights();
  using Four = std::function<void(const std::string& numbers, const std::string& at)>;
  void each_four(const char* sums, int64_t tiles, int64_t fragments, const Four& body);
  void load_added();
  void sum_queries();

  std::string result_scale(const std::string& sums, int slot);
  using Result = AttentionProblem::Result;
  using Texts = std::vector<std::string>;
  void store(const Result& out, const std::string& sums, int64_t features, int64_t padded);
  void store_exchanged(const Result& out, const std::string& sums, int64_t features, int64_t pairs);
  void store_runs(const Result& out, const std::string& sums, int64_t features, int64_t padded,
                  int64_t vector);
  void declare_row(const Result& out, const std::string& own);
  std::vector<Texts> finish(const Result& out, const std::string& feature, const Texts& values);
  void store_run(const Result& out, size_t number, const std::string& feature, const Texts& values);
  void store_lse(const char* out);

  Code code_;
  AttentionProblem p_;
  FlashPoint point_;
  FlashUnit u_;
  FlashBlock own_1_, other_1_;
  std::optional<FlashBlock> own_2_, other_2_;
  // For all three gradients: own keys again, and the gradients of a block's scores, from all waves.
  std::optional<FlashBlock> kept_, put_;
  std::set<MultiplyRows> words_;                 // that the text uses
  std::vector<ResultEpilogue::Vector> vectors_;  // of the epilogue's operands that are read at once
  std::string functions_;                        // that the text calls
};

/// The unit by which four waves multiply together (wgmma), with that of one wave; nullptr where there is
/// none.
FlashUnit unit_of_four(DType dtype, const GpuTraits& traits);
/// Points with their expected time on a full device, in own rows.
using RankedPoints = std::vector<std::pair<double, FlashPoint>>;
/// Those of units by which four waves multiply together.
RankedPoints points_by_four(const AttentionProblem& problem, const GpuTraits& traits);
/// The points worth timing, best guess first; {} if no unit multiplies the type.
std::vector<FlashPoint> flash_points(const AttentionProblem& problem, const GpuTraits& traits);
GpuCandidate flash_candidate(const AttentionProblem& problem, const FlashPoint& point);

}  // namespace athanor::gpu
