// The launches of matrix products.
#include "athanor/kernels/gpu/templates/gemm_text.h"

#include <fmt/format.h>

#include "athanor/base/ceil_div.h"
#include "athanor/base/error.h"
#include "athanor/kernels/gpu/loop_code.h"

namespace athanor::gpu {
namespace {

int64_t reach(int64_t extent, int64_t stride) { return std::max<int64_t>(extent - 1, 0) * std::abs(stride); }

std::string_view to_string(GemmSource source) {
  constexpr std::string_view names[] = {"direct", "packed", "staged"};
  return names[static_cast<int>(source)];
}

int64_t staged_bytes(const GemmPoint& point, int64_t k_step) {
  constexpr int64_t alignment = gemm_tile_alignment;
  const auto tile = [&](int64_t floats) { return ceil_div(floats * 4, alignment) * alignment; };
  int64_t bytes = 0;
  if (point.a == GemmSource::staged) bytes += tile(k_step * a_pitch(point));
  if (point.b == GemmSource::staged) bytes += tile(k_step * point.tile_n());
  return bytes;
}

}  // namespace

bool has_wide_index(const GemmProblem& p) {
  if (p.wide_index) return true;
  const int64_t farthest =
      std::max({reach(p.m, p.a.row) + reach(p.k, p.a.column), reach(p.k, p.b.row) + reach(p.n, p.b.column),
                reach(p.m, p.c.row) + reach(p.n, p.c.column), p.m * p.n,
                // Panels are padded.
                (p.m + 1024) * p.k, (p.n + 1024) * p.k});
  return farthest >= INT32_MAX;
}

std::vector<Parameter> gemm_parameters(std::vector<Parameter> inputs, const GemmProblem& p, bool finishes,
                                       Parameter output) {
  if (finishes)
    for (Parameter& extra : p.epilogue.parameters()) inputs.push_back(std::move(extra));
  inputs.push_back(std::move(output));
  return inputs;
}

std::vector<GpuLaunch::Argument> arguments_of(const std::vector<Parameter>& parameters) {
  std::vector<GpuLaunch::Argument> result;
  for (const Parameter& parameter : parameters) result.push_back(parameter.argument);
  return result;
}

std::string place_of_result(const GemmProblem& p, const GemmMatrices& matrices, const std::string& row,
                            const std::string& column) {
  return plus(times64(batch_of(p), p.c.batch), matrices.c_place(row, column));
}

void declare_batch(Code& code, const GemmProblem& p, bool finishes, const std::string& number) {
  if (p.batch > 1 || (finishes && !p.epilogue.empty()))
    code.line(fmt::format("const int batch = {};", p.batch == 1 ? "0" : number));
}

std::string finished(const GemmProblem& p, const GemmMatrices& matrices, const std::string& x,
                     const std::string& row, const std::string& column) {
  const int64_t first = p.epilogue.first_place(p.c.start / static_cast<int64_t>(size_of(p.dtype)));
  return p.epilogue.call(x, plus(place_of_result(p, matrices, row, column), first), row, column);
}

void declare_pointer(Code& code, const char* name, const Parameter& of, const std::string& begin) {
  code.line(fmt::format("GLOBAL {} *const {} = {};", of.type, name, plus(of.name, begin)));
}

GemmMatrices::At elements_at(DType dtype, const char* pointer, GemmMatrices::At place) {
  return [type = language_name(dtype), pointer, place = std::move(place)](const std::string& i,
                                                                          const std::string& j) {
    return fmt::format("LOAD({}, {}, {})", type, pointer, place(i, j));
  };
}

GpuLaunch::Argument GemmScratch::take(int64_t floats) {
  const GpuLaunch::Argument result{buffer, static_cast<int64_t>(bytes)};
  bytes += static_cast<size_t>(floats) * sizeof(float);
  bytes = (bytes + 255) / 256 * 256;
  return result;
}

std::string GemmVectors::multiply_add(const std::string& a, const std::string& b,
                                      const std::string& c) const {
  return fmt::format("VFMA({}, {}, {}, {})", width, a, b, c);
}

std::string GemmVectors::load(const std::string& pointer, const std::string& at) const {
  return dtype == DType::f32 ? fmt::format("VLOAD({}, {}, {})", width, pointer, at)
                             : fmt::format("load_vector({})", plus(pointer, at));
}

std::string GemmVectors::function() const {
  if (dtype == DType::f32) return {};
  const std::string_view name = language_name(dtype);
  Code code;
  code.open(fmt::format("DEVICE {} load_vector(GLOBAL const {} *p)", type(), stored(dtype)));
  code.line(fmt::format("f32 lanes[{}];", width));
  if (by_registers) {
    code.line("u32x4 registers;");
    code.line("READ_REGISTERS(4, registers, 0, p);");
  }
  code.line(fmt::format("UNROLL for (int i = 0; i < {}; ++i) lanes[i] = {};", width,
                        by_registers ? fmt::format("F32_OF_BITS(WIDENED({}, registers, i))", name)
                                     : fmt::format("LOAD({}, p, i)", name)));
  code.line(fmt::format("return VLOAD({}, lanes, 0);", width));
  code.close();
  return code.text();
}

int64_t a_pitch(const GemmPoint& point) {
  return point.tile_m() + (point.group_x * point.group_y > 1 ? 4 : 0);
}

GemmMatrices matrices_of(const GemmProblem& p) {
  if (p.matrices) return *p.matrices;
  const bool wide = has_wide_index(p);
  const auto at = [wide](const GemmProblem::Operand& x) -> GemmMatrices::At {
    return [wide, row = x.row, column = x.column](const std::string& i, const std::string& j) {
      return plus(strided(i, row, wide), strided(j, column, wide));
    };
  };
  const DType factor = p.factors.value_or(p.dtype);
  GemmMatrices result{
      .a_element = elements_at(factor, "a", at(p.a)),
      .b_element = elements_at(factor, "b", at(p.b)),
      .c_place = at(p.c),
      .a_place = at(p.a),
      .b_row = [wide, stride = p.b.row](const std::string& k) { return strided(k, stride, wide); },
      .b_begin = [stride = p.b.batch](const std::string& batch) { return times64(batch, stride); },
      .a_along_k = p.a.column == 1,
      .b_along_k = p.b.row == 1 && p.b.column != 1,
      .c_run = p.c.column == 1 ? 0 : 1};
  if (p.b.column == 1)
    result.stage_b = [n = p.n, b = result.b_element](Code& code, int64_t tile) {
      const auto copy = [&](const std::string& element) {
        code.line(fmt::format("for (int n = 0; n < {0}; ++n) b_tile[k * {0} + n] = {1};", tile, element));
      };
      code.open("for (int k = 0; k < k_count; ++k)");
      if (n % tile == 0) {
        copy(b("k0 + k", "n0 + n"));
      } else {
        code.open(fmt::format("if (n0 + {} <= {})", tile, n));
        copy(b("k0 + k", "n0 + n"));
        code.close();
        code.open("else");
        copy(fmt::format("n0 + n < {} ? {} : 0", n, b("k0 + k", "n0 + n")));
        code.close();
      }
      code.close();
    };
  return result;
}

GemmProblem::GemmProblem(const KernelRequest& request)
    : dtype(request.output().dtype),
      batch(request.output().shape[0]),
      m(request.output().shape[1]),
      n(request.output().shape[2]),
      k(request.inputs[0].shape[2]),
      a{0, request.inputs[0].strides[0], request.inputs[0].strides[1], request.inputs[0].strides[2]},
      b{1, request.inputs[1].strides[0], request.inputs[1].strides[1], request.inputs[1].strides[2]},
      c{static_cast<int>(request.inputs.size()), request.output().strides[0], request.output().strides[1],
        request.output().strides[2]},
      epilogue(request),
      scratch_buffer(request.scratch_buffer()) {
  a.alignment = request.inputs[0].alignment;
  b.alignment = request.inputs[1].alignment;
  a.padding = request.inputs[0].padding;
  b.padding = request.inputs[1].padding;
  c.padding = request.output().padding;
  if (m == 1) a.row = a.batch, c.row = c.batch;
  if (batch > 1 && b.batch == 0 && a.batch == m * a.row && c.batch == m * c.row) {
    m *= batch;
    batch = 1;
    c.batch = m * c.row;
  }
  epilogue.axes = {{.column = 1, .stride = 1, .extent = n},
                   {.row = 1, .stride = c.row, .extent = m},
                   {.batch = 1, .stride = c.batch, .extent = batch}};
  if (request.prologue) {
    prologue_of = request.prologue->input;
    prologue = operand_prologue(request, prologue_of == 0 ? "a_" : "b_");
  }
  // Strides along an extent of 1 do not matter; those of a dense matrix fit the most points.
  if (k == 1 && a.row != 1) a.column = 1;
  if (n == 1 && b.row != 1) b.column = 1;
}

GemmProblem GemmProblem::transposed() const {
  GemmProblem t = *this;
  std::swap(t.m, t.n);
  t.a = {b.buffer, b.batch, b.column, b.row, b.start, b.alignment, b.padding};
  t.b = {a.buffer, a.batch, a.column, a.row, a.start, a.alignment, a.padding};
  std::swap(t.c.row, t.c.column);
  t.epilogue = epilogue.transposed();
  if (t.n == 1) t.c.column = 1;
  if (t.m == 1 && t.c.column != 1 && t.c.row == 1 && t.n == 1) t.c.column = 1;
  return t;
}

bool fits(const GemmProblem& p, const GemmPoint& point, const GpuTraits& traits) {
  const bool packs = point.a == GemmSource::packed || point.b == GemmSource::packed;
  const int64_t own_items = point.group_x * point.group_y,
                items = point.splits > 1 || (packs && own_items > 1) ? std::max(own_items, helping_items)
                                                                     : own_items;
  if (p.k == 0 || items > traits.max_group_size) return false;
  const int64_t step = point.k_step > 0 ? std::min(point.k_step, p.k) : p.k;
  if (point.a == GemmSource::direct) {
    if (point.block_m() > p.m || !p.a_strided) return false;
    if (p.a_run > 0 && (p.a_run % step != 0 || ceil_div(p.k, point.splits) % step != 0)) return false;
  }
  if (point.b == GemmSource::direct) {
    if (point.tile_n() > p.n || !p.b_strided || p.b.column != 1) return false;
    if (p.b_run > 0 && (p.b_run % step != 0 || ceil_div(p.k, point.splits) % step != 0)) return false;
  }
  return staged_bytes(point, step) <= traits.local_bytes;
}

GpuLaunch sum_launch(const GemmProblem& p, int64_t splits, GpuLaunch::Argument parts) {
  const GemmMatrices matrices = matrices_of(p);
  const std::vector<Parameter> parameters = gemm_parameters({{"parts", "const f32", parts}}, p, true,
                                                            {"c", stored(p.dtype), {p.c.buffer, p.c.start}});
  const int64_t size = p.m * p.n;
  Code code;
  open_kernel(code, "gemm_sum", parameters, false);
  code.line("const i64 item = GLOBAL_ID(0);");
  code.line(fmt::format("if (item >= {}) return;", p.batch * size));
  code.line("f32 sum = 0;");
  code.line(fmt::format("UNROLL for (int s = 0; s < {}; ++s) sum += parts[s * (i64){} + item];", splits,
                        p.batch * size));
  declare_batch(code, p, true, fmt::format("(int)({})", divided("item", size)));
  code.line(fmt::format("const int row = (int)({}), column = (int)({});",
                        remainder(divided("item", p.n), p.m), remainder("item", p.n)));
  code.line(fmt::format("STORE({}, c, {}, {});", language_name(p.dtype),
                        place_of_result(p, matrices, "row", "column"),
                        finished(p, matrices, "sum", "row", "column")));
  code.close();
  return {.name = "gemm_sum",
          .source = p.epilogue.function() + code.text(),
          .groups = {ceil_div(p.batch * size, helping_items), 1, 1},
          .group_size = {helping_items, 1, 1},
          .arguments = arguments_of(parameters)};
}

GpuCandidate gemm_candidate(const GemmProblem& p, const GemmPoint& point) {
  GpuCandidate candidate;
  GemmScratch scratch{p.scratch_buffer, p.scratch_start};
  const bool one_item = point.group_x * point.group_y == 1;
  GpuLaunch::Argument a{p.a.buffer, p.a.start}, b{p.b.buffer, p.b.start}, c{p.c.buffer, p.c.start};
  if (point.a == GemmSource::packed) {
    const int64_t batches = p.a.batch == 0 ? 1 : p.batch;
    a = scratch.take(batches * ceil_div(p.m, point.block_m()) * point.block_m() * p.k);
    candidate.launches.push_back(pack_launch(p, true, point.block_m(), one_item, a));
  }
  if (point.b == GemmSource::packed) {
    const int64_t batches = p.b.batch == 0 ? 1 : p.batch;
    b = scratch.take(batches * ceil_div(p.n, point.tile_n()) * point.tile_n() * p.k);
    candidate.launches.push_back(pack_launch(p, false, point.tile_n(), one_item, b));
  }
  if (point.splits > 1) c = scratch.take(point.splits * p.batch * p.m * p.n);
  const bool finishes = point.splits == 1;
  const int64_t k_step = point.k_step > 0 ? std::min(point.k_step, p.k) : p.k;
  const auto type_of = [&](bool as_f32) { return as_f32 ? "f32" : stored(p.dtype); };
  const std::vector<Parameter> parameters =
      gemm_parameters({{"a_matrices", "const " + type_of(point.a == GemmSource::packed), a},
                       {"b_matrices", "const " + type_of(point.b == GemmSource::packed), b}},
                      p, finishes, {"c_matrices", type_of(!finishes), c});
  candidate.launches.push_back(
      {.name = "gemm",
       .source = gemm_kernel(p, point, parameters),
       .groups = {ceil_div(p.m, point.tile_m()) * ceil_div(p.n, point.tile_n()) * p.batch * point.splits, 1,
                  1},
       .group_size = {point.group_x, point.group_y, 1},
       .local_bytes = staged_bytes(point, k_step),
       .arguments = arguments_of(parameters)});
  if (point.splits > 1) candidate.launches.push_back(sum_launch(p, point.splits, c));
  candidate.scratch_bytes = scratch.bytes;
  candidate.name = fmt::format("gemm {}x{}", point.tile_m(), point.tile_n());
  if (point.a != GemmSource::direct || point.b != GemmSource::direct)
    candidate.name += fmt::format(" {}/{}", to_string(point.a), to_string(point.b));
  if (point.group_x * point.group_y > 1)
    candidate.name += fmt::format(" group {}x{}", point.group_x, point.group_y);
  if (point.splits > 1) candidate.name += fmt::format(" split {}", point.splits);
  candidate.parameters = {{"a", static_cast<int64_t>(point.a)},
                          {"b", static_cast<int64_t>(point.b)},
                          {"rows", point.rows},
                          {"vectors", point.vectors},
                          {"width", point.width},
                          {"subtiles", point.subtiles},
                          {"group_x", point.group_x},
                          {"group_y", point.group_y},
                          {"k_step", k_step},
                          {"splits", point.splits}};
  return candidate;
}

}  // namespace athanor::gpu
