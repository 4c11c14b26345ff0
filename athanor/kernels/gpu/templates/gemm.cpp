// The launches of matrix products.
#include "athanor/kernels/gpu/templates/gemm_text.h"

#include <fmt/format.h>

#include "athanor/base/ceil_div.h"
#include "athanor/base/error.h"
#include "athanor/kernels/gpu/loop_code.h"

namespace athanor::gpu {
namespace {

int64_t reach(int64_t extent, int64_t stride) { return std::max<int64_t>(extent - 1, 0) * std::abs(stride); }

// Offsets within one matrix need 64 bits only if a matrix has that many elements.
std::string_view index_type(const GemmProblem& p) {
  if (p.wide_index) return "i64";
  const int64_t farthest =
      std::max({reach(p.m, p.a.row) + reach(p.k, p.a.column), reach(p.k, p.b.row) + reach(p.n, p.b.column),
                reach(p.m, p.c.row) + reach(p.n, p.c.column), p.m * p.n,
                // Panels are padded.
                (p.m + 1024) * p.k, (p.n + 1024) * p.k});
  return farthest < INT32_MAX ? "i32" : "i64";
}

std::string epilogue_text(const GemmProblem& p, bool finishes) {
  const ResultEpilogue epilogue = finishes ? p.epilogue : ResultEpilogue();
  std::string parameters, binds;
  for (const Parameter& extra : epilogue.parameters()) {
    parameters += fmt::format(" BUFFER({}, {}),", extra.type, extra.name);
    binds += fmt::format(" BIND({}, {});", extra.type, extra.name);
  }
  const int64_t first = epilogue.first_place(p.c.start / static_cast<int64_t>(size_of(p.dtype)));
  return epilogue.function() +
         fmt::format(
             "#define EPILOGUE_PARAMETERS{}\n#define EPILOGUE_BIND{}\n"
             "#define FINISHED_AT(x, at, row, column) {}\n"
             "#define FINISHED(x, row, column) \\\n"
             "  FINISHED_AT(x, {} + batch * (i64)C_BATCH + C_OFFSET(row, column), row, column)\n",
             parameters, binds, epilogue.call("(x)", "at", "row", "column"), first);
}

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

std::vector<GpuLaunch::Argument> gemm_arguments(std::initializer_list<GpuLaunch::Argument> inputs,
                                                const GemmProblem& p, bool finishes,
                                                GpuLaunch::Argument output) {
  std::vector<GpuLaunch::Argument> result = inputs;
  if (finishes)
    for (const Parameter& extra : p.epilogue.parameters()) result.push_back(extra.argument);
  result.push_back(output);
  return result;
}

GpuLaunch::Argument GemmScratch::take(int64_t floats) {
  const GpuLaunch::Argument result{buffer, static_cast<int64_t>(bytes)};
  bytes += static_cast<size_t>(floats) * sizeof(float);
  bytes = (bytes + 255) / 256 * 256;
  return result;
}

std::string vectors_text(DType dtype, int64_t width, bool by_registers) {
  std::string text = fmt::format(
      "typedef f32x{0} vector;\n"
      "#define MULTIPLY_ADD(a, b, c) VFMA({0}, a, b, c)\n",
      width);
  if (dtype == DType::f32) return text + fmt::format("#define LOAD_VECTOR(p, i) VLOAD({}, p, i)\n", width);
  const std::string_view name = language_name(dtype);
  Code code;
  code.open(fmt::format("DEVICE vector load_vector(GLOBAL const {} *p)", stored(dtype)));
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
  return text + code.text() + "#define LOAD_VECTOR(p, i) load_vector((p) + (i))\n";
}

int64_t a_pitch(const GemmPoint& point) {
  return point.tile_m() + (point.group_x * point.group_y > 1 ? 4 : 0);
}

std::string gemm_prelude(const GemmProblem& p, bool finishes, Defines defines) {
  defines.set_dtype("DTYPE", p.dtype)
      .set("DTYPE_IS_F32", p.dtype == DType::f32)
      .set_dtype("FACTOR", p.factors.value_or(p.dtype))
      .set("INDEX", index_type(p))
      .set("BATCH", p.batch)
      .set("M", p.m)
      .set("N", p.n)
      .set("K", p.k)
      .set("A_BATCH", p.a.batch)
      .set("A_ROW", p.a.row)
      .set("A_K", p.a.column)
      .set("B_BATCH", p.b.batch)
      .set("B_K", p.b.row)
      .set("B_COLUMN", p.b.column)
      .set("C_BATCH", p.c.batch)
      .set("C_ROW", p.c.row)
      .set("C_COLUMN", p.c.column);
  return defines.text() + epilogue_text(p, finishes) + matrices_of(p).text;
}

GemmMatrices matrices_of(const GemmProblem& p) {
  if (p.matrices) return *p.matrices;
  GemmMatrices strided{.text = std::string(template_text("gemm_strided")),
                       .a_along_k = p.a.column == 1,
                       .b_along_k = p.b.row == 1 && p.b.column != 1,
                       .c_run = p.c.column == 1 ? 0 : 1};
  if (p.b.column == 1)
    strided.stage_b = [n = p.n](Code& code, int64_t tile) {
      const auto copy = [&](const std::string& element) {
        code.line(fmt::format("for (int n = 0; n < {0}; ++n) b_tile[k * {0} + n] = {1};", tile, element));
        code.close();
      };
      code.open("for (int k = 0; k < k_count; ++k)");
      code.open(fmt::format("if (n0 + {} <= {})", tile, n));
      copy("B_AT(k0 + k, n0 + n)");
      code.open("else");
      copy(fmt::format("n0 + n < {} ? B_AT(k0 + k, n0 + n) : 0", n));
      code.close();
    };
  return strided;
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
  return {.name = "gemm_sum",
          .source =
              gemm_prelude(p, true, Defines().set("SPLITS", splits)) + std::string(template_text("gemm_sum")),
          .groups = {ceil_div(p.batch * p.m * p.n, helping_items), 1, 1},
          .group_size = {helping_items, 1, 1},
          .arguments = gemm_arguments({parts}, p, true, {p.c.buffer, p.c.start})};
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
  candidate.launches.push_back(
      {.name = "gemm",
       .source = gemm_prelude(p, finishes) + vectors_text(p.dtype, point.width) + gemm_kernel(p, point),
       .groups = {ceil_div(p.m, point.tile_m()) * ceil_div(p.n, point.tile_n()) * p.batch * point.splits, 1,
                  1},
       .group_size = {point.group_x, point.group_y, 1},
       .local_bytes = staged_bytes(point, k_step),
       .arguments = gemm_arguments({a, b}, p, finishes, c)});
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
