// Products of matrices and their generalisations.
//
// Operands are promoted to one dtype: a float (f16 and bf16 are summed in f32), i64 or i32. All functions
// throw Error(shape) naming the extents that do not fit, and Error(dtype).
#pragma once
#include <string>

#include "athanor/graph/tensor.h"
#include "athanor/ops/movement.h"

namespace athanor {

/// The product as in NumPy: [..., M, K] x [..., K, N] -> [..., M, N]; leading axes broadcast. A vector is a
/// row on the left and a column on the right, and its axis is dropped from the result.
Tensor matmul(Operand a, Operand b);
/// [B, M, K] x [B, K, N] -> [B, M, N]; no broadcasting.
Tensor batch_matmul(Operand a, Operand b);
/// matmul of small types with a result in the type of the sums: i32 (which wraps) for two i8, f32 for two
/// f8e4m3 or two f8e5m2. Operands are not promoted, and no gradient flows. GPUs compute it with matrix units
/// or with sums of four products (docs/kernel-language.md); it is fastest if b is the transpose of an [N, K].
Tensor wide_matmul(Operand a, Operand b);
/// wide_matmul of [B, M, K] x [B, K, N] -> [B, M, N]; no broadcasting.
Tensor wide_batch_matmul(Operand a, Operand b);
/// Products of groups of rows, each with a matrix of its own: x [T, K], w [E, K, N], ends [E] -> [T, N]. Rows
/// from ends[e - 1] (0 for the first group) up to ends[e] are multiplied by w[e]; groups may be empty, and
/// rows from the last end on give zeros. So a mixture of experts computes all experts at once, with the rows
/// sorted by expert; PyTorch's torch._grouped_mm(x, w, offs=ends) is the same, but leaves those last rows
/// undefined.
///
/// x and w are promoted to one float type (f16 and bf16 are summed in f32); ends are integers on the same
/// device, and no gradient flows to them. Throws Error(value) if they fall or do not lie in [0, T]: here if
/// the host knows them, otherwise when the result is computed.
Tensor grouped_matmul(Operand x, Operand w, Operand ends);
/// x [..., I] times the transpose of weight [O, I], plus bias [O] if it is given: [..., O].
Tensor linear(Operand x, Operand weight, const Tensor& bias = {});
/// Sums over pairs of axes (contract_a[i] with contract_b[i]). The result has the batch axes, then the
/// remaining axes of a, then those of b.
Tensor dot_general(Operand a, Operand b, const Ints& contract_a, const Ints& contract_b,
                   const Ints& batch_a = {}, const Ints& batch_b = {});
/// Einstein summation: einsum("bij,bjk->bik", {a, b}). As in NumPy, there may be any number of operands,
/// repeated indices (diagonals) and "..."; without "->" the result has the indices that appear once, in
/// alphabetical order. Operands are contracted in pairs, in the order with the fewest multiplications; more
/// than six operands, by the cheapest pair at each step.
Tensor einsum(const std::string& subscripts, const TensorList& operands);

struct AttentionOptions {
  bool causal = false;  // query i sees keys up to i + (S - T)
  double scale = 0;     // 0: 1 / sqrt(D)
  int64_t window = 0;   // query i sees keys whose distance from i + (S - T) is less than this; 0: all
  Tensor lengths = {};  // integers [N]: in entry n of the first axis, only the first lengths[n] keys are seen
};
/// softmax(q k^T * scale + mask) v: q [..., T, D], k [..., S, D], v [..., S, E] -> [..., T, E]. A mask [...,
/// T, S] is bool (true: the key is seen) or is added. Vaswani et al., Attention Is All You Need (2017).
///
/// k and v may have fewer heads (axis -3) than q, if their number divides q's: neighbouring heads of q then
/// share a head of k and v. Ainslie et al., GQA (2023). The result for a query that sees no key is NaN.
Tensor scaled_dot_product_attention(Operand q, Operand k, Operand v, const Tensor& mask = {},
                                    const AttentionOptions& options = {});

}  // namespace athanor
