// Attention and its gradients, as its kernels see them: own rows against other rows.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "athanor/kernels/gpu/gpu_kernel.h"
#include "athanor/kernels/gpu/operand_prologue.h"
#include "athanor/kernels/gpu/result_epilogue.h"

namespace athanor::gpu {

/// The result, the log-sum-exp of each query's scores, and the gradients; grad_kv has two outputs, grad_qkv
/// three.
enum class AttentionKind : uint8_t { forward, lse, grad_q, grad_k, grad_v, grad_kv, grad_qkv };

struct AttentionProblem {
  /// q [batches, queries, d], k [batches, keys, d], v [batches, keys, e] and g, the gradient of the result;
  /// mask [batches, queries, keys].
  struct Matrix {
    std::string name;
    std::string start;             // where batch `batch` begins, in elements
    int64_t row = 0, feature = 0;  // strides
    int64_t vector = 1;            // elements that are read at once, to which each row's begin is aligned
  };
  /// Rows that are written: as they are computed, or as what an epilogue makes of each element.
  struct Result : Matrix {
    struct Stored {
      Parameter buffer;
      DType dtype;
      int64_t vector;  // as a matrix's
    };
    std::vector<Stored> stored;  // once, or each result of the epilogue
    ResultEpilogue epilogue;
    /// The buffers of both.
    std::vector<Parameter> parameters() const;
    /// The statement that stores element `x` at a place of its memory.
    std::string store(const std::string& x, const std::string& at, const std::string& row,
                      const std::string& feature) const;
  };
  /// A number of each query: lse or delta.
  struct Numbers {
    std::string index;  // of query `row`, counted through all batches
    DType dtype = DType::f32;
  };

  AttentionKind kind = AttentionKind::forward;
  DType dtype = DType::f32;
  int64_t batches = 1, queries = 1, keys = 1, d = 1, e = 1;
  bool causal = false;
  bool tf32 = false;  // factors of f32 may be rounded to tf32
  double scale = 1;
  Matrix q, k, v, g, mask;                  // without a name: not there
  std::optional<OperandPrologue> computed;  // of the result's q: its matrix is what q is computed from
  Result out, out_2;                        // without a name: not there, or no matrix
  bool with_lse = false;                    // the result's kernel also stores the log-sum-exp, to out_2
  Numbers lse, delta;             // lse: also the type of the result, whose numbers lie one after another
  std::string parameters, binds;  // of the kernel
  std::vector<GpuLaunch::Argument> arguments;

  /// Own rows are keys, and the other rows queries.
  bool by_keys() const {
    return kind == AttentionKind::grad_k || kind == AttentionKind::grad_v || kind == AttentionKind::grad_kv ||
           kind == AttentionKind::grad_qkv;
  }
  bool is_grad() const { return kind != AttentionKind::forward && kind != AttentionKind::lse; }
  /// Also needs the product of g and v.
  bool has_second() const { return is_grad() && kind != AttentionKind::grad_v; }
  int64_t own() const { return by_keys() ? keys : queries; }
  int64_t other() const { return by_keys() ? queries : keys; }
};

/// A point of the tuning space. AttentionRows: rows of an item. AttentionTiles: rows of a group, of which
/// `side` items share each.
struct AttentionPoint {
  int64_t rows, block, items, side = 0;
  /// AttentionTiles: how a lane sums the products of two pairs of f16, each in a register; nullptr: it
  /// multiplies numbers.
  const MatrixUnit* dot = nullptr;
  bool pairs() const { return dot != nullptr; }
  int64_t rows_of_group() const { return side > 0 ? rows : rows * items; }

  // For AttentionTiles: an item's share of own rows; of a block's rows, if they are its columns and if they
  // are its rows; and of features, in vectors.
  int64_t own_each() const { return rows * side / items; }
  int64_t block_each() const { return block / side; }
  int64_t query_each() const { return block * side / items; }
  int64_t vector(int64_t features) const;  // 1, 2 or 4 features; of pairs not 1
  int64_t vectors(int64_t features) const;
  int64_t each(int64_t features) const { return vector(features) * vectors(features); }
  /// Registers that hold so many elements of a row, and how far rows of them are apart in local memory.
  int64_t registers(int64_t elements) const { return pairs() ? (elements + 1) / 2 : elements; }
  int64_t pitch(int64_t elements) const;
};

/// What AttentionRows and AttentionTiles have in local memory: an array for each matrix, by its number of
/// features, and arrays for numbers of rows.
struct AttentionFootprint {
  explicit AttentionFootprint(const AttentionProblem& problem);
  std::vector<int64_t> compared;  // own rows' for AttentionTiles; other rows' for AttentionRows
  std::vector<int64_t> other;     // other rows' for AttentionTiles
  std::vector<int64_t> inside;    // for AttentionRows: other rows' again, with features inside
  int64_t other_numbers, number_bytes;
  // For AttentionTiles: whether weights are by softmax, and whether they are stored. (A pair of f16 takes the
  // room of a number.)
  bool softmax, weights;
  int64_t bytes(const AttentionPoint& point) const;
};

/// Numbers from one row to the next in local memory. Rows are vectors of four, an odd number of them, so that
/// items that read neighbouring rows use different banks.
int64_t attention_pitch(int64_t numbers);

/// The position of element `index` of an operand, as text, counted through all its axes except the last
/// `kept`.
std::string attention_position(const OperandDesc& operand, const char* index, int kept);
/// The longest vector of at most 16 bytes of a row's features that all rows are aligned to.
int64_t attention_vector(const OperandDesc& operand);
/// The prologue of a request whose q is computed.
std::optional<OperandPrologue> attention_prologue(const KernelRequest& request);
/// The op's own result, with its epilogue; and one without.
AttentionProblem::Result attention_result(const KernelRequest& request);
AttentionProblem::Result attention_result(const OperandDesc& written, const char* name,
                                          GpuLaunch::Argument to);
/// Opens the kernel that adds the copies of q's gradient, numbers of this type. Returns its arguments behind
/// the copies.
std::vector<GpuLaunch::Argument> open_sum(Code& code, const char* name, const char* number,
                                          const AttentionProblem::Result& to);
AttentionProblem attention_problem(const KernelRequest& request, AttentionKind kind);
AttentionKind attention_kind(const KernelRequest& request);
/// All kernels for a request of one or two outputs.
std::vector<GpuCandidate> attention_candidates(const KernelRequest& request, AttentionKind kind,
                                               const GpuTraits& traits);

/// For a request of the gradients by q, k and v: kernels that compute all three, and pairs of kernels for q
/// and for k and v, in the order of what they are expected to take.
std::vector<GpuCandidate> attention_gradients(const KernelRequest& request, const GpuTraits& traits);
/// Whether some of these compute all three, so that such a request is worth making.
bool has_attention_gradients(const KernelRequest& request, const GpuTraits& traits);

/// Kernels by matrix units, best guess first; {} if no unit multiplies the type.
std::vector<GpuCandidate> flash_candidates(const AttentionProblem& problem, const GpuTraits& traits);

}  // namespace athanor::gpu
