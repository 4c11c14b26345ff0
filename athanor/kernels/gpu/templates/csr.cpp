// csr_matmul and its gradients.
#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/index_code.h"
#include "athanor/kernels/gpu/templates.h"

namespace athanor::gpu {
namespace {

bool serves_csr(std::span<const TensorType> inputs, const TensorType& output, const Attrs& attrs,
                const GpuTraits& traits) {
  constexpr int64_t most = int64_t{1} << 31;
  if (!serves_floats(inputs, output, attrs, traits) || output.shape.size() == 0 ||
      std::ranges::any_of(
          inputs, [](const TensorType& in) { return in.shape.size() == 0 || in.shape.size() >= most; }))
    return false;
  // Without rows, no element has a row.
  if (inputs[0].shape[0] < 2) return false;
  const bool adds = attrs.has("columns");  // the gradient by the dense matrix
  return !adds || output.dtype == DType::f32 || (output.dtype == DType::f64 && traits.atomics_64);
}

/// Sets `unsorted` where the starts of rows do not ascend.
std::string look_text() {
  Code code;
  open_kernel(code, "csr_look", {{"starts", "const i64"}, {"unsorted", "i32"}}, false);
  code.line("const i64 row = (i64)GLOBAL_ID(0) + 2;");
  code.line("if (row < ROWS && starts[row * STARTS_0] < starts[(row - 1) * STARTS_0]) unsorted[0] = 1;");
  code.close();
  return code.text();
}

/// LANES neighbouring items do an element of the values' gradient, so that they read neighbouring numbers.
std::string values_text(DType dtype, int64_t lanes) {
  const std::string read = "const " + stored(dtype);
  Code code;
  open_kernel(code, "csr_values",
              {{"bounds", "const i32"},
               {"columns", "const i64"},
               {"dense", read},
               {"dy", read},
               {"dvalues", stored(dtype)}},
              true);
  if (lanes > 1) code.line("LOCAL REAL sums[GROUP_EXTENT_0];");
  code.line("const i64 item = GLOBAL_ID(0);");
  if (lanes > 1)
    code.line("// Items behind the last element do it too, because all must reach the barriers.");
  code.line("const int lane = (int)(item % LANES), e = (int)MIN(item / LANES, (i64)(ELEMENTS - 1));");
  code.line("const i64 column = COLUMN_OF(e);");
  code.line("const int known = column >= 0 && column < TOTAL;");
  code.line("REAL sum = 0;");
  code.open("if (known)");
  code.line("const int row = row_of(bounds, e);");
  code.line("for (int j = lane; j < WIDTH; j += LANES) sum += DY_AT(row, j) * MATRIX_AT(dense, column, j);");
  code.close();
  if (lanes > 1) {
    code.line("const int here = LOCAL_ID(0);");
    code.line("sums[here] = sum;");
    code.open("for (int reach = LANES / 2; reach > 0; reach /= 2)");
    code.line("BARRIER();");
    code.line("if (lane < reach) sums[here] += sums[here + reach];");
    code.close();
    code.line("sum = sums[here];");
  }
  code.line("if (lane > 0 || item / LANES >= ELEMENTS) return;");
  code.line("if (!known) FAULT(fault, column);");
  code.line("STORE(DTYPE, dvalues, e, sum);");
  code.close();
  return code.text();
}

}  // namespace

static std::vector<GpuCandidate> csr_kernels(const KernelRequest& request, const GpuTraits& traits) {
  const std::string& op = request.op->name;
  const bool by_values = op == "csr_matmul_values_grad", by_dense = op == "csr_matmul_dense_grad";
  const OperandDesc &starts = request.inputs[0], &columns = request.inputs[1], &last = request.inputs[3];
  const DType dtype = request.output().dtype;
  const bool wide = dtype == DType::f64;
  const int64_t rows = starts.shape[0] - 1, elements = columns.shape[0], width = last.shape[1];
  const OperandDesc& dense = by_values ? request.inputs[2] : last;
  const int64_t total = by_dense ? request.output().shape[0] : dense.shape[0];
  const int64_t real = wide ? 8 : 4;
  const int64_t items = std::min(traits.grain->element_items, traits.max_group_size);
  // Neighbouring items that share an element of the values' gradient read 64 bytes of floats at once.
  int64_t lanes = 1;
  if (traits.grain->side_by_side > 1 && items * real <= traits.local_bytes)
    while (lanes < std::min<int64_t>(width, 16) && items % (2 * lanes) == 0) lanes *= 2;
  const int64_t count = by_dense ? elements * width : by_values ? elements * lanes : rows * width;
  Defines defines;
  defines.set_dtype("DTYPE", dtype)
      .set("REAL", wide ? "f64" : "f32")
      .set("ATOMIC_ADD", wide ? "atomic_add_f64" : "atomic_add_f32")
      .set("ROWS", rows)
      .set("ELEMENTS", elements)
      .set("TOTAL", total)
      .set("WIDTH", width)
      .set("COUNT", count)
      .set("LANES", lanes)
      .set("STARTS_0", starts.strides[0])
      .set("COLUMNS_0", columns.strides[0])
      .set("VALUES_0", request.inputs[2].strides[0])
      .set("MATRIX_0", dense.strides[0])
      .set("MATRIX_1", dense.strides[1])
      .set("DY_0", last.strides[0])
      .set("DY_1", last.strides[1]);
  GpuCandidate candidate{.name = "csr", .scratch_bytes = static_cast<size_t>(rows + 2) * 4};
  const auto add = [&](const std::string& name, const std::string& text, int64_t work,
                       std::vector<GpuLaunch::Argument> arguments) -> GpuLaunch& {
    candidate.launches.push_back({.name = name,
                                  .source = defines.before(text),
                                  .groups = {ceil_div(work, items), 1, 1},
                                  .group_size = {items, 1, 1},
                                  .arguments = std::move(arguments)});
    return candidate.launches.back();
  };
  const GpuLaunch::Argument unsorted{5, 0}, bounds{5, 4};  // in scratch memory
  candidate.launches.push_back(zero_launch(DType::i32, 1, unsorted, traits));
  if (rows > 2) add("csr_look", look_text(), rows - 2, {{0}, unsorted});
  add("csr_bounds", std::string(template_text("csr_bounds")), rows + 1, {{0}, unsorted, bounds});
  if (by_dense) candidate.launches.push_back(zero_launch(dtype, total * width, {4}, traits));
  const std::string name = by_dense ? "csr_dense" : by_values ? "csr_values" : "csr_matmul";
  const std::string text = by_values ? values_text(dtype, lanes) : std::string(template_text(name));
  GpuLaunch& product = add(name, fmt::format("{}\n{}", template_text("csr_element"), text), count,
                           {bounds, {1}, {2}, {3}, {4}});
  product.can_fault = true;
  if (by_values && lanes > 1) product.local_bytes = items * real;
  return {std::move(candidate)};
}

namespace {

[[maybe_unused]] const bool csr_registered = register_template(
    {{"csr_matmul", "csr_matmul_values_grad", "csr_matmul_dense_grad"}, csr_kernels, serves_csr});

}  // namespace

}  // namespace athanor::gpu
