// Products of matrices.
#include <algorithm>

#include "athanor/kernels/gpu/templates/tile_gemm.h"
#include "tests/support/candidates/candidates.h"
#include "tests/support/epilogues.h"
#include "tests/support/normalising_loop.h"

namespace athanor {
namespace {

/// A product of square matrices.
KernelRequest square_product(const char* op, DType dtype, DType result, int64_t n, bool b_along_k) {
  const OperandDesc matrix = whole({dtype, {1, n, n}, {}});
  KernelRequest request{&find_op(op), {}, {matrix, matrix}, {whole({result, {1, n, n}, {}})}, {}};
  if (b_along_k) request.inputs[1].strides = {n * n, 1, n};
  return request;
}

const char* title_of(bool b_along_k) { return b_along_k ? "B along k: " : ""; }

/// With factors rounded to tf32, if the chip multiplies these.
void add_tf32(Writer& writer, int64_t n, bool b_along_k) {
  if (std::ranges::none_of(writer.units(), &MatrixUnit::tf32)) return;
  KernelRequest request = square_product("batch_matmul", DType::f32, DType::f32, n, b_along_k);
  request.compute = ComputeType::tf32;
  writer.add(request, "tf32", title_of(b_along_k));
}

/// A product of square matrices of bytes, if the chip multiplies these, or 8-bit floats as wider ones.
/// (f8e5m2 only then: units for it are like those for f8e4m3.)
void add_bytes(Writer& writer, DType dtype, int64_t n, bool b_along_k) {
  const auto units = gpu::tile_units(dtype, false, writer.traits());
  if (units.empty() || (dtype == DType::f8e5m2 && units.front()->input == dtype)) return;
  const DType result = dtype == DType::i8 ? DType::i32 : DType::f32;
  writer.add(square_product("wide_batch_matmul", dtype, result, n, b_along_k), to_string(dtype),
             title_of(b_along_k));
}

/// A layer of 8 experts, of which each has some of 8192 rows, as a gated unit, and its gradient by the
/// weights.
void add_groups(Writer& writer, DType dtype) {
  const OperandDesc x = whole({dtype, {8192, 4096}, {}}), w = whole({dtype, {8, 4096, 4096}, {}}),
                    ends = whole({DType::i64, {8}, {}});
  const auto type = to_string(dtype);
  writer.add({&find_op("grouped_matmul"), {}, {x, w, ends}, {x}, {}}, type, "8 groups: ");
  KernelRequest gated{&find_op("grouped_matmul"), {}, {x, w, ends, x}, {x}, {}};
  gated.epilogue = testing::program_of({.activation = "sigmoid", .gate = true}, gated);
  writer.add(gated, type, "8 groups gated: ");
  writer.add({&find_op("grouped_matmul_weight_grad"), {}, {x, x, ends}, {w}, {}}, type, "8 groups dw: ");
}

/// A product whose kernels normalise the rows of A when they read them, as before a linear layer.
void add_normalised(Writer& writer, DType dtype, int64_t m, int64_t n, int64_t k) {
  const OperandDesc a = whole({dtype, {1, m, k}, {}});
  KernelRequest request{&find_op("batch_matmul"),
                        {},
                        {a, whole({dtype, {1, k, n}, {}}), a},
                        {whole({dtype, {1, m, n}, {}})},
                        {}};
  request.prologue = Prologue{0, normalising_loop({1, m, k}, dtype, dtype)};
  add_norm(request, m, k, dtype);
  writer.add_computed(request);
}

}  // namespace

void add_products(Writer& writer) {
  const Shape matrix{1, 4096, 4096};
  for (const DType dtype : {DType::f16, DType::bf16})
    writer.add("batch_matmul", {}, dtype, {matrix, matrix}, matrix);
  for (const bool b_along_k : {false, true}) add_tf32(writer, 4096, b_along_k);
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    add_normalised(writer, dtype, 1024, 1024, 768);
  for (const DType dtype : {DType::i8, DType::f8e4m3, DType::f8e5m2})
    writer.add("wide_batch_matmul", {}, dtype, {matrix, matrix}, matrix);
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const Shape& mnk :
         std::vector<Shape>{{1024, 1024, 1024}, {128, 10, 512}, {1, 1000, 1000}, {7, 5, 3000}})
      writer.add("batch_matmul", {}, dtype, {{1, mnk[0], mnk[2]}, {1, mnk[2], mnk[1]}}, {1, mnk[0], mnk[1]});
  // Lanes exchange elements before they store whole tiles of it.
  for (const DType dtype : {DType::f16, DType::bf16})
    writer.add("batch_matmul", {}, dtype, {{1, 128, 256}, {1, 256, 96}}, {1, 128, 96});
}

void write_products(const char* folder, GpuTarget target, std::string_view architecture) {
  Writer writer(folder, target, architecture, true);
  const Shape matrix{1, 4096, 4096};
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    writer.add("batch_matmul", {}, dtype, {matrix, matrix}, matrix);
  for (const bool b_along_k : {false, true}) add_tf32(writer, 4096, b_along_k);
  for (const DType dtype : {DType::i8, DType::f8e4m3, DType::f8e5m2})
    for (const bool b_along_k : {false, true}) add_bytes(writer, dtype, 4096, b_along_k);
  for (const DType dtype : {DType::f32, DType::f16}) add_normalised(writer, dtype, 4096, 4096, 4096);
  for (const DType dtype : {DType::f32, DType::f16}) add_groups(writer, dtype);
  // The attention of GPT-2 small, with 8 texts.
  const Shape texts{8, 12, 1024, 64};
  if (!writer.units().empty()) add_attention(writer, DType::f16, texts, true);
  if (writer.takes_f32(false)) add_attention(writer, DType::f32, texts, true);
  if (writer.takes_f32(true)) add_attention(writer, DType::f32, texts, true, ComputeType::tf32);
  writer.finish();
}

}  // namespace athanor
