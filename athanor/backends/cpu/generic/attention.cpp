// Attention and its gradients without scores in memory (T. Dao and others, FlashAttention, 2022).
//
// A block of scores is [rows, columns of a micro kernel's tile]. In this form the block, once it holds
// weights, is the packed right side of the next product, and softmax goes down its columns.
#include <algorithm>
#include <cmath>
#include <limits>

#include "athanor/backends/cpu/generic/attention_memory.h"
#include "athanor/backends/cpu/generic/attention_rows.h"
#include "athanor/backends/cpu/generic/gemm_pack.h"
#include "athanor/backends/cpu/kernels.h"
#include "athanor/backends/cpu/parallel.h"

namespace athanor::cpu {
namespace {

/// The operands of all requests. What a request has not is empty.
struct AttentionOperands {
  HeadOperand q, k, v, g, lse, delta, mask;
  HeadOperand out, out_lse, grad_q, grad_k, grad_v;
};

/// Each thread works in memory of its own.
template <class T>
class Attention {
  using A = Acc<T>;
  using Memory = AttentionMemory<A>;
  static constexpr A infinity = std::numeric_limits<A>::infinity();

 public:
  Attention(const AttentionProblem& problem, AttentionOperands operands)
      : p_(problem),
        o_(std::move(operands)),
        along_(o_.grad_q && (o_.grad_k || o_.grad_v) && p_.heads >= cpu_workers()),
        needs_{.gradient = static_cast<bool>(o_.g), .values = o_.out || o_.grad_v, .along = along_},
        thread_bytes_(Memory(p_, micro_, needs_, nullptr).bytes()) {}

  size_t scratch_bytes() const { return thread_bytes_ * static_cast<size_t>(threads_); }

  void run(Buffers b) const {
    if (!needs_.gradient) return each_panel(b, p_.queries, true, [&](auto&... x) { query_panel(b, x...); });
    if (o_.grad_k || o_.grad_v) each_panel(b, p_.keys, !along_, [&](auto&... x) { key_panel(b, x...); });
    if (o_.grad_q && !along_) each_panel(b, p_.queries, true, [&](auto&... x) { query_panel(b, x...); });
  }

 private:
  /// A panel of own rows: queries or keys.
  struct Panel {
    int64_t head, begin, count;
    bool first_of_head, last_of_head;  // that this thread computes
  };

  /// Calls body(panel, memory). If heads may be `shared`, threads divide them.
  template <class Body>
  void each_panel(Buffers b, int64_t own, bool shared, const Body& body) const {
    const int64_t panels = (own + micro_.columns - 1) / micro_.columns, together = shared ? 1 : panels;
    const int64_t work = p_.heads * p_.queries * p_.keys * std::max<int64_t>(1, (p_.d + p_.e) / 8);
    parallel_for(
        p_.heads * panels / together, work,
        [&](int64_t begin, int64_t end, int thread) {
          auto* const base = static_cast<std::byte*>(b.back()) + static_cast<size_t>(thread) * thread_bytes_;
          Memory memory(p_, micro_, needs_, base);
          for (int64_t i = begin * together; i < end * together; ++i) {
            const int64_t first = i % panels * micro_.columns;
            const Panel panel{i / panels, first, std::min<int64_t>(micro_.columns, own - first),
                              i == begin * together || i % panels == 0, i % panels == panels - 1};
            body(panel, memory);
          }
        },
        threads_);
  }

  // ---- Packing ----

  /// Rows [begin, begin + count) of a head's matrix side by side, for features in order.
  Vectors<T> rows_of(Buffers b, const HeadOperand& of, int64_t head, int64_t features, int64_t begin,
                     int64_t count) const {
    return {of.at<const T>(b, head) + begin * of.row(), count, of.row(), features, of.feature()};
  }
  /// The head's features side by side, for rows in order.
  Vectors<T> features_of(Buffers b, const HeadOperand& of, int64_t head, int64_t features,
                         int64_t rows) const {
    return {of.at<const T>(b, head), features, of.feature(), rows, of.row()};
  }
  void pack_numbers(Buffers b, const HeadOperand& of, int64_t head, int64_t begin, int64_t count,
                    A* to) const {
    const auto copy = [&](const auto* from) {
      for (int64_t i = 0; i < count; ++i) to[i] = load(from[(begin + i) * of.row()]);
    };
    of.dtype() == dtype_of<T> ? copy(of.at<const T>(b, head)) : copy(of.at<const A>(b, head));
  }

  // ---- Products ----

  /// to [rows, columns] = packed rows times a panel, for whole tiles of `depth` features.
  void multiply(int64_t rows, int64_t depth, const A* packed, const A* panel, A* to) const {
    for (int64_t i = 0; i < rows; i += micro_.rows)
      micro_.run(micro_.rows, depth, packed + i * depth, panel, to + i * micro_.columns, micro_.columns, {});
  }
  /// sums [features, columns] += features of rows [begin, begin + rows) of `all`, packed, times the block.
  void add_product(int64_t features, int64_t all, int64_t begin, int64_t rows, const A* packed,
                   const A* block, A* sums) const {
    for (int64_t i = 0; i < features; i += micro_.rows)
      micro_.go_on(rows, packed + i * all + begin * micro_.rows, block, sums + i * micro_.columns,
                   micro_.columns);
  }
  void clear(int64_t features, A* sums) const {
    const int64_t rows = (features + micro_.rows - 1) / micro_.rows * micro_.rows;
    std::fill_n(sums, rows * micro_.columns, A{0});
  }

  /// Stores the sums' columns as rows of a result.
  void store_rows(Buffers b, const HeadOperand& to, const Panel& own, int64_t features, const A* sums) const {
    T* const out = to.at<T>(b, own.head) + own.begin * to.row();
    if constexpr (std::is_same_v<T, float>)
      if (to.feature() == 1 && packing::turn({sums, features, own.count, micro_.columns}, out, to.row()))
        return;
    for (int64_t c = 0; c < own.count; ++c)
      for (int64_t f = 0; f < features; ++f)
        out[c * to.row() + f * to.feature()] = store<T>(sums[f * micro_.columns + c]);
  }

  // ---- Scores ----

  /// The block of the mask for other rows from `begin` on; nullptr if there is no mask.
  const A* mask_block(Buffers b, const Panel& own, bool own_are_queries, int64_t begin, int64_t rows,
                      A* to) const {
    if (!o_.mask) return nullptr;
    const int64_t of_own = own_are_queries ? o_.mask.row() : o_.mask.feature(),
                  of_other = own_are_queries ? o_.mask.feature() : o_.mask.row();
    const T* from = o_.mask.at<const T>(b, own.head) + own.begin * of_own + begin * of_other;
    pack(Vectors<T>{from, own.count, of_own, rows, of_other}, micro_.columns, to);
    return to;
  }

  /// Hides, in the block of other rows from `begin` on, the keys that come after a query: a score of 0 and a
  /// mask of -infinity, whatever the scale is. Returns the mask.
  const A* hide(const Panel& own, bool own_are_queries, int64_t begin, int64_t rows, const A* mask,
                Memory& m) const {
    const int64_t columns = micro_.columns;
    for (int64_t r = 0; r < rows && p_.causal; ++r) {
      // The columns that row r and its query or key see.
      const int64_t at = begin + r - own.begin;
      const int64_t first = own_are_queries ? std::clamp<int64_t>(at - p_.shift(), 0, columns) : 0,
                    end = own_are_queries ? columns : std::clamp<int64_t>(at + p_.shift() + 1, 0, columns);
      if (first == 0 && end == columns) continue;
      if (mask == nullptr) {
        std::fill_n(m.mask, rows * columns, A{0});
        mask = m.mask;
      }
      const auto set = [&](int64_t from, int64_t to) {
        std::fill(m.scores + r * columns + from, m.scores + r * columns + to, A{0});
        std::fill(m.mask + r * columns + from, m.mask + r * columns + to, -infinity);
      };
      set(0, first);
      set(end, columns);
    }
    return mask;
  }

  // ---- Panels ----

  /// The results of a panel of queries, or their gradients.
  void query_panel(Buffers b, const Panel& own, Memory& m) const {
    const int64_t columns = micro_.columns;
    if (own.first_of_head) {
      pack(rows_of(b, o_.k, own.head, p_.d, 0, p_.keys), micro_.rows, m.rows_d);
      if (o_.out) pack(features_of(b, o_.v, own.head, p_.e, p_.keys), micro_.rows, m.deep_e);
      if (needs_.gradient) {
        pack(rows_of(b, o_.v, own.head, p_.e, 0, p_.keys), micro_.rows, m.rows_e);
        pack(features_of(b, o_.k, own.head, p_.d, p_.keys), micro_.rows, m.deep_d);
      }
    }
    pack(rows_of(b, o_.q, own.head, p_.d, own.begin, own.count), columns, m.own_d);
    A *const largest = m.numbers_1, *const sums = m.numbers_2;
    if (needs_.gradient) {
      pack(rows_of(b, o_.g, own.head, p_.e, own.begin, own.count), columns, m.own_e);
      for (A* numbers : {m.numbers_1, m.numbers_2}) std::fill_n(numbers, columns, A{0});
      pack_numbers(b, o_.lse, own.head, own.begin, own.count, m.numbers_1);
      pack_numbers(b, o_.delta, own.head, own.begin, own.count, m.numbers_2);
      clear(p_.d, m.sums_d);
    } else {
      std::fill_n(largest, columns, -infinity);
      std::fill_n(sums, columns, A{0});
      if (o_.out) clear(p_.e, m.sums_e);
    }
    const int64_t last = own.begin + own.count + p_.shift();
    const int64_t seen = p_.causal ? std::clamp<int64_t>(last, 0, p_.keys) : p_.keys;
    for (int64_t begin = 0; begin < seen; begin += Memory::block) {
      const int64_t rows = std::min(Memory::block, seen - begin);
      multiply(rows, p_.d, m.rows_d + begin * p_.d, m.own_d, m.scores);
      const A* const mask = hide(own, true, begin, rows, mask_block(b, own, true, begin, rows, m.mask), m);
      if (needs_.gradient) {
        multiply(rows, p_.e, m.rows_e + begin * p_.e, m.own_e, m.score_grads);
        rows_.weights(rows, columns, scale(), mask, false, m.numbers_1, m.numbers_2, m.scores, m.score_grads);
        add_product(p_.d, p_.keys, begin, rows, m.deep_d, m.score_grads, m.sums_d);
        continue;
      }
      rows_.softmax(rows, columns, scale(), mask, m.scores, largest, sums, m.factors);
      if (!o_.out) continue;
      if (begin > 0) rows_.multiply(p_.e, columns, m.factors, m.sums_e);
      add_product(p_.e, p_.keys, begin, rows, m.deep_e, m.scores, m.sums_e);
    }
    if (o_.out) {
      for (int64_t c = 0; c < columns; ++c) m.factors[c] = 1 / sums[c];
      rows_.multiply(p_.e, columns, m.factors, m.sums_e);
      store_rows(b, o_.out, own, p_.e, m.sums_e);
    }
    if (o_.out_lse) {
      A* to = o_.out_lse.at<A>(b, own.head) + own.begin * o_.out_lse.row();
      for (int64_t c = 0; c < own.count; ++c) to[c * o_.out_lse.row()] = largest[c] + std::log(sums[c]);
    }
    if (needs_.gradient) store_rows(b, o_.grad_q, own, p_.d, m.sums_d);
  }

  /// The gradients of a panel of keys and of its values. With along_ it also adds to those of all queries,
  /// which the head's last panel stores.
  void key_panel(Buffers b, const Panel& own, Memory& m) const {
    const int64_t columns = micro_.columns, width = (p_.d + columns - 1) / columns * columns;
    const bool score_grads = o_.grad_k || along_;
    if (own.first_of_head) {
      pack(rows_of(b, o_.q, own.head, p_.d, 0, p_.queries), micro_.rows, m.rows_d);
      if (score_grads) pack(rows_of(b, o_.g, own.head, p_.e, 0, p_.queries), micro_.rows, m.rows_e);
      if (o_.grad_k) pack(features_of(b, o_.q, own.head, p_.d, p_.queries), micro_.rows, m.deep_d);
      if (o_.grad_v) pack(features_of(b, o_.g, own.head, p_.e, p_.queries), micro_.rows, m.deep_e);
      pack_numbers(b, o_.lse, own.head, 0, p_.queries, m.numbers_1);
      pack_numbers(b, o_.delta, own.head, 0, p_.queries, m.numbers_2);
      if (along_) {
        pack(features_of(b, o_.k, own.head, p_.d, p_.keys), columns, m.keys_d);
        std::fill_n(m.query_grads, (p_.queries + micro_.rows - 1) / micro_.rows * micro_.rows * width, A{0});
      }
    }
    pack(rows_of(b, o_.k, own.head, p_.d, own.begin, own.count), columns, m.own_d);
    if (score_grads) pack(rows_of(b, o_.v, own.head, p_.e, own.begin, own.count), columns, m.own_e);
    clear(p_.d, m.sums_d);
    if (o_.grad_v) clear(p_.e, m.sums_e);
    const int64_t sees = p_.causal ? std::clamp<int64_t>(own.begin - p_.shift(), 0, p_.queries) : 0;
    for (int64_t begin = sees / micro_.rows * micro_.rows; begin < p_.queries; begin += Memory::block) {
      const int64_t rows = std::min(Memory::block, p_.queries - begin);
      multiply(rows, p_.d, m.rows_d + begin * p_.d, m.own_d, m.scores);
      const A* const mask = hide(own, false, begin, rows, mask_block(b, own, false, begin, rows, m.mask), m);
      if (score_grads) multiply(rows, p_.e, m.rows_e + begin * p_.e, m.own_e, m.score_grads);
      rows_.weights(rows, columns, scale(), mask, true, m.numbers_1 + begin, m.numbers_2 + begin, m.scores,
                    score_grads ? m.score_grads : nullptr);
      if (o_.grad_v) add_product(p_.e, p_.queries, begin, rows, m.deep_e, m.scores, m.sums_e);
      if (o_.grad_k) add_product(p_.d, p_.queries, begin, rows, m.deep_d, m.score_grads, m.sums_d);
      if (along_) add_to_queries(own, begin, rows, width, m);
    }
    if (o_.grad_k) store_rows(b, o_.grad_k, own, p_.d, m.sums_d);
    if (o_.grad_v) store_rows(b, o_.grad_v, own, p_.e, m.sums_e);
    if (!along_ || !own.last_of_head) return;
    T* out = o_.grad_q.at<T>(b, own.head);
    for (int64_t i = 0; i < p_.queries; ++i)
      for (int64_t f = 0; f < p_.d; ++f)
        out[i * o_.grad_q.row() + f * o_.grad_q.feature()] = store<T>(m.query_grads[i * width + f]);
  }

  /// Adds the block's score gradients times its keys to the gradients of queries [begin, begin + rows).
  void add_to_queries(const Panel& own, int64_t begin, int64_t rows, int64_t width, Memory& m) const {
    const int64_t columns = micro_.columns;
    pack(Vectors<A>{m.score_grads, rows, columns, own.count, 1}, micro_.rows, m.turned);
    for (int64_t f = 0; f < p_.d; f += columns)
      for (int64_t i = 0; i < rows; i += micro_.rows)
        micro_.go_on(own.count, m.turned + i * own.count, m.keys_d + f * p_.keys + own.begin * columns,
                     m.query_grads + (begin + i) * width + f, width);
  }

  A scale() const { return static_cast<A>(p_.scale); }
  int64_t most_panels() const {
    return p_.heads * ((std::max(p_.queries, p_.keys) + micro_.columns - 1) / micro_.columns);
  }

  AttentionProblem p_;
  AttentionOperands o_;
  // Whether a thread that has all keys of a head adds up the gradients of its queries as well. If heads are
  // few, threads share them, and scores are computed a second time for these gradients.
  bool along_;
  AttentionNeeds needs_;
  MicroKernel<A> micro_ = micro_kernel<A>();
  const AttentionRows<A>& rows_ = attention_rows<A>();
  int threads_ = static_cast<int>(std::min<int64_t>(cpu_workers(), most_panels()));
  size_t thread_bytes_;
};

template <class T>
Candidate make_attention(const KernelRequest& request) {
  const std::string& name = request.op->name;
  const bool forward = name == "scaled_dot_product_attention", lse = name == "attention_lse";
  const auto input = [&](size_t i, bool features = true) {
    return i < request.inputs.size() ? HeadOperand(request.inputs[i], i, features) : HeadOperand();
  };
  AttentionOperands o;
  o.q = input(0), o.k = input(1);
  if (!lse) o.v = input(2);
  if (!lse && !forward) o.g = input(3), o.lse = input(4, false), o.delta = input(5, false);
  o.mask = input(lse ? 2 : forward ? 3 : 6);
  const auto output = [&](const Op& op, size_t i) {
    HeadOperand& to = op.name == "scaled_dot_product_attention" ? o.out
                      : op.name == "attention_lse"              ? o.out_lse
                      : op.name == "attention_grad_q"           ? o.grad_q
                      : op.name == "attention_grad_k"           ? o.grad_k
                                                                : o.grad_v;
    to = HeadOperand(request.outputs[i], request.inputs.size() + i, op.name != "attention_lse");
  };
  output(*request.op, 0);
  for (size_t i = 0; i < request.with.size(); ++i) output(*request.with[i], i + 1);
  const Shape &q = request.inputs[0].shape, &k = request.inputs[1].shape;
  int64_t heads = 1;
  for (int axis = 0; axis + 2 < q.rank(); ++axis) heads *= q[axis];
  const AttentionProblem problem{.heads = heads,
                                 .queries = q[-2],
                                 .keys = k[-2],
                                 .d = q[-1],
                                 .e = lse ? 0 : request.inputs[2].shape[-1],
                                 .causal = request.attrs.flag("causal"),
                                 .scale = request.attrs.number("scale")};
  const Attention<T> attention(problem, std::move(o));
  const size_t scratch = attention.scratch_bytes();
  Candidate candidate =
      function_candidate("generic attention", scratch, [attention](Buffers b) { attention.run(b); });
  candidate.fewer_products = problem.causal;  // blocks that a mask hides are left out
  return candidate;
}

bool computes(std::span<const TensorType> inputs) {
  const DType stored = inputs[0].dtype;
  // The log-sum-exp and delta.
  for (size_t i = 4; i < std::min<size_t>(inputs.size(), 6); ++i)
    if (inputs[i].dtype != stored && inputs[i].dtype != computed_in(stored)) return false;
  return is_float(stored) && size_of(stored) > 1;
}

/// A panel of fewer queries than a tile has columns is padded. With 12 heads of 64 features and 2048 keys, in
/// f32 on one thread with AVX-512, products and loops took 0.74 of 1.78 ms for 16 queries, as long for 32 and
/// 64, and 15.7 beside 11.8 ms for 256.
bool serves_attention(std::span<const TensorType> inputs, const TensorType& output) {
  const bool empty = std::ranges::any_of(inputs, [](const TensorType& in) { return in.shape.size() == 0; });
  const int64_t columns =
      inputs[0].dtype == DType::f64 ? micro_kernel<double>().columns : micro_kernel<float>().columns;
  return computes(inputs) && !empty && output.shape.size() > 0 && inputs[0].shape[-2] >= columns;
}

bool all_together(const KernelRequest&) { return true; }

}  // namespace

static std::vector<Candidate> attention_kernels(const KernelRequest& request) {
  std::vector<TensorType> types;
  for (const OperandDesc& input : request.inputs) types.push_back({input.dtype, input.shape, {}});
  if (!computes(types)) return {};
  switch (request.inputs[0].dtype) {
    case DType::f64:
      return {make_attention<double>(request)};
    case DType::f32:
      return {make_attention<float>(request)};
    case DType::bf16:
      return {make_attention<bf16>(request)};
    case DType::f16:
      return {make_attention<f16>(request)};
    default:
      return {};
  }
}

[[maybe_unused]] static const bool attention_registered =
    register_kernels({.ops = {"scaled_dot_product_attention", "attention_lse", "attention_grad_q",
                              "attention_grad_k", "attention_grad_v"},
                      .candidates = attention_kernels,
                      .serves = serves_attention,
                      .strided = true,
                      .together = all_together});

}  // namespace athanor::cpu
