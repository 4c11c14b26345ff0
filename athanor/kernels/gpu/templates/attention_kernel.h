// Writes attention's kernels for devices and types without matrix units. They never store the matrix of
// scores (T. Dao and others, FlashAttention, 2022). AttentionTiles is for GPUs; AttentionRows for CPUs, and
// for rows too long for tiles.
#pragma once
#include <array>
#include <functional>
#include <string>

#include "athanor/kernels/gpu/loop_code.h"
#include "athanor/kernels/gpu/templates/attention.h"

namespace athanor::gpu {

/// What both have in common. Scores are s = scale * q k^T + mask, of own rows against other rows: queries
/// against keys or, in the gradients by k and v, keys against queries. A second product is that of g and v.
class AttentionKernel {
 protected:
  using Matrix = AttentionProblem::Matrix;

  AttentionKernel(const AttentionProblem& problem, const AttentionPoint& point)
      : p_(problem), point_(point) {}

  // What the kind of problem computes.
  bool softmax() const { return !p_.is_grad(); }
  bool only_lse() const { return p_.kind == AttentionKind::lse; }
  bool of_all() const { return p_.kind == AttentionKind::grad_qkv; }
  bool of_keys_and_values() const { return p_.kind == AttentionKind::grad_kv || of_all(); }
  /// Whether the first result sums the rows of the first product (q, k), else of the second (g, v).
  bool sums_first() const { return p_.has_second(); }
  int64_t features() const { return sums_first() ? p_.d : p_.e; }  // of the first result

  // The products' own and other rows: d features, then e.
  const Matrix& own_1() const { return p_.by_keys() ? p_.k : p_.q; }
  const Matrix& other_1() const { return p_.by_keys() ? p_.q : p_.k; }
  const Matrix& own_2() const { return p_.by_keys() ? p_.v : p_.g; }
  const Matrix& other_2() const { return p_.by_keys() ? p_.g : p_.v; }

  // Pieces of expressions.
  /// Whether the elements of the matrix are computed when they are read.
  bool computes(const Matrix& matrix) const { return p_.computed && matrix.name == p_.q.name; }
  std::string functions() const;                                                 // that the text calls
  const char* number() const { return p_.dtype == DType::f64 ? "f64" : "f32"; }  // the type of arithmetic
  std::string call(const char* function, const std::string& x) const;            // "exp_f32(x)"
  std::string real(double value) const;                                          // "0.125f"
  std::string times_real(double value) const;                                    // " * 0.125f"; "" for 1
  std::string element(const Matrix& matrix, const std::string& row, const std::string& feature) const;
  std::string own_row(const std::string& row) const;    // or the last one
  std::string other_row(const std::string& row) const;  // or the last one
  std::string masked(const std::string& score, const std::string& own, const std::string& other) const;
  /// "<=" or ">" between a key and the last one that a query sees, counted from the end.
  std::string compared(const std::string& own, const char* comparison, const std::string& other) const;
  std::string chunk(int64_t chunks) const;
  std::string loop_over_blocks(const std::string& first, int64_t count) const;
  std::string first_block(const std::string& first) const;
  std::string query_number(const AttentionProblem::Numbers& numbers, const char* name) const;

  /// Whether scores depend on more than a pair of rows' features.
  bool masks() const { return p_.causal || !p_.mask.name.empty(); }

  // Statements.
  void begin(const char* name, const std::string& comment);
  void declare_number_arrays();
  void load_other_numbers();
  void store_lse(const std::string& row, const std::string& largest, const std::string& total);

  static constexpr const char* lowest = "(-1.0f / 0.0f)";  // minus infinity

  Code code_;
  AttentionProblem p_;
  AttentionPoint point_;
};

/// An item has rows of its own. Other rows come in blocks through local memory, transposed if sums run along
/// features, so that inner loops run along the block or along features.
class AttentionRows : AttentionKernel {
 public:
  AttentionRows(const AttentionProblem& problem, const AttentionPoint& point)
      : AttentionKernel(problem, point) {}
  GpuLaunch launch();

 private:
  int64_t group_rows() const { return point_.rows * point_.items; }
  void barrier();
  void declare_local();
  void load_own(const Matrix& matrix, int64_t features);
  void declare_sums();
  void fetch(const Matrix& matrix, int64_t features, bool by_feature, bool by_row);
  void product(const char* result, const Matrix& own, const Matrix& other, int64_t features);
  void scores();
  void weigh_by_softmax();
  void weigh_by_lse();
  void score_gradients();
  void sum(const char* sums, const Matrix& other, int64_t features);
  void store();
};

/// A group has own rows and takes other rows in blocks. Both are in local memory, and items read four
/// neighbouring numbers at once. Each item computes a small tile of the scores, writes the weights to local
/// memory, and adds to a small tile of the result. So registers need not hold a whole row.
class AttentionTiles : AttentionKernel {
 public:
  /// `parts`: of a head's keys, for all three gradients. A group has every parts-th chunk of them, so that
  /// causal parts take about as long.
  AttentionTiles(const AttentionProblem& problem, const AttentionPoint& point, int64_t parts = 0)
      : AttentionKernel(problem, point), parts_(parts) {}
  GpuLaunch launch();
  /// Adds the parts' gradients by q. The kernel's problem has that gradient as its result.
  GpuLaunch sum_launch();

 private:
  bool pairs() const { return point_.pairs(); }
  const char* held() const { return pairs() ? "u32" : number(); }  // in local memory, and what is multiplied
  int64_t own_each() const { return point_.own_each(); }
  int64_t block_each() const { return point_.block_each(); }
  int64_t each(int64_t features) const { return point_.each(features); }
  // Scores are exponents of 2, which GPUs compute at once; this is their factor. In f64 and with a mask they
  // are exponents of e: elements of a mask such as -3.4e38 would become infinite.
  double of_exponent() const;
  std::string power(const std::string& exponent) const;
  std::string own_at() const;    // row r of the item, in the group
  std::string other_at() const;  // row j of the item, in the block
  std::string weight_at(const std::string& own, const std::string& other) const;
  std::string row_of_pair(const std::string& pair) const;  // the first; the other lies `side` rows further
  std::string add_product(const std::string& sum, const std::string& a, const std::string& b) const;
  std::string largest_at(const std::string& item) const;  // an item's number of own row r
  /// Where vector c of the item begins, if vectors are `apart` in memory.
  std::string feature(int64_t features, int64_t apart) const;
  std::string place_in_block(const std::string& row) const;
  std::string copy(const std::string& j, const std::string& c, const std::string& item) const;

  void unroll(const char* index, int64_t count, const std::string& statement);
  void each_row(const std::function<void()>& body);
  void each_score(const std::string& statement);
  void each_query_feature(const std::string& statement);
  void zeros(const std::string& name, int64_t rows, int64_t columns);
  void open_kernel();
  void declare_local();
  void fetch(const std::string& to, const Matrix& matrix, int64_t rows, int64_t features,
             const std::string& row);
  void fetch_vector(const std::string& to, const Matrix& matrix, int64_t features, const std::string& row);
  void load_own();
  void read_numbers(const char* whose, const char* index, int64_t count, const std::string& row);
  void declare_sums();
  void fetch_block();
  void product(const char* result, const Matrix& own, const Matrix& other, int64_t features);
  std::string needs_mask() const;
  void mask_scores();
  void put_weights();
  void weigh_by_softmax();
  void weigh_by_lse();
  void score_gradients();
  void load_added();
  void read_features(const char* to, const std::string& matrix, const std::string& row, int64_t features);
  void sum(const char* sums, const Matrix& other, int64_t features);
  void sum_queries();
  void store_added();
  // Sums over pairs of rows (attention_tiles_pairs.cpp).
  void add_pairs(const std::string& matrix, const std::array<std::string, 2>& rows, int64_t features,
                 int64_t count, const std::array<std::string, 2>& sums, const std::string& weight);
  void sum_pairs(const char* sums, const Matrix& other, int64_t features);
  void sum_queries_by_pairs();
  void compute();
  void sum_totals();
  void store(const AttentionProblem::Result& out, const char* sums, int64_t features);
  void store_results();

  int64_t parts_;
};

}  // namespace athanor::gpu
