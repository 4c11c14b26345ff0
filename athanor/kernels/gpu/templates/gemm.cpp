// The launches of matrix products.
#include "athanor/kernels/gpu/templates/gemm.h"

#include <fmt/format.h>

#include "athanor/base/ceil_div.h"
#include "athanor/base/error.h"

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

/// Buffers in the order of the templates' parameters.
std::vector<GpuLaunch::Argument> arguments(std::initializer_list<GpuLaunch::Argument> inputs,
                                           const GemmProblem& p, bool finishes, GpuLaunch::Argument output) {
  std::vector<GpuLaunch::Argument> result = inputs;
  if (finishes)
    for (const Parameter& extra : p.epilogue.parameters()) result.push_back(extra.argument);
  result.push_back(output);
  return result;
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

// Scratch memory, assigned part after part.
struct Scratch {
  int buffer;
  size_t bytes = 0;
  GpuLaunch::Argument take(int64_t floats) {
    const GpuLaunch::Argument result{buffer, static_cast<int64_t>(bytes)};
    bytes += static_cast<size_t>(floats) * sizeof(float);
    bytes = (bytes + 255) / 256 * 256;
    return result;
  }
};

// The items of a group that packs matrices or adds up parts.
constexpr int64_t helping_items = 64;

GpuLaunch pack_launch(const GemmProblem& p, bool packs_a, int64_t panel, bool one_item,
                      GpuLaunch::Argument to) {
  const int64_t chunk = std::min<int64_t>(p.k, 64);
  const int64_t extent = packs_a ? p.m : p.n;
  const GemmProblem::Operand& x = packs_a ? p.a : p.b;
  GemmProblem packed = p;
  packed.batch = x.batch == 0 ? 1 : p.batch;
  const Defines defines = Defines().set("PACKS_A", packs_a).set("PANEL", panel).set("PACK_K", chunk);
  return {.name = "gemm_pack",
          .source = gemm_prelude(packed, false, defines) + std::string(template_text("gemm_pack")),
          .groups = {packed.batch * ceil_div(extent, panel) * ceil_div(p.k, chunk), 1, 1},
          .group_size = {one_item ? 1 : helping_items, 1, 1},
          .arguments = {{x.buffer, x.start}, to}};
}

std::string_view to_string(GemmSource source) {
  constexpr std::string_view names[] = {"direct", "packed", "staged"};
  return names[static_cast<int>(source)];
}

int64_t a_pitch(const GemmPoint& point) {
  return point.tile_m() + (point.group_x * point.group_y > 1 ? 4 : 0);
}

int64_t staged_bytes(const GemmPoint& point, int64_t k_step) {
  constexpr int64_t alignment = 64;  // of each tile in gemm.kernel
  const auto tile = [&](int64_t floats) { return ceil_div(floats * 4, alignment) * alignment; };
  int64_t bytes = 0;
  if (point.a == GemmSource::staged) bytes += tile(k_step * a_pitch(point));
  if (point.b == GemmSource::staged) bytes += tile(k_step * point.tile_n());
  return bytes;
}

}  // namespace

std::string gemm_prelude(const GemmProblem& p, bool finishes, Defines defines) {
  defines.set_dtype("DTYPE", p.dtype)
      .set("DTYPE_IS_F32", p.dtype == DType::f32)
      .set_dtype("FACTOR", p.factors.value_or(p.dtype))
      .set("FACTOR_IS_BYTE", size_of(p.factors.value_or(p.dtype)) == 1)
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
  return defines.text() + epilogue_text(p, finishes) +
         (p.matrices.empty() ? std::string(template_text("gemm_strided")) : p.matrices);
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
          .arguments = arguments({parts}, p, true, {p.c.buffer, p.c.start})};
}

GpuCandidate gemm_candidate(const GemmProblem& p, const GemmPoint& point) {
  GpuCandidate candidate;
  Scratch scratch{p.scratch_buffer, p.scratch_start};
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
  Defines defines;
  defines.set("A_SOURCE", static_cast<int64_t>(point.a))
      .set("B_SOURCE", static_cast<int64_t>(point.b))
      .set("A_SHARED", p.a.batch == 0)
      .set("B_SHARED", p.b.batch == 0)
      .set("ROWS", point.rows)
      .set("VECTORS", point.vectors)
      .set("WIDTH", std::to_string(point.width))
      .set("SUBTILES", point.subtiles)
      .set("K_STEP", k_step)
      .set("SPLITS", point.splits)
      .set("A_PITCH", a_pitch(point));
  candidate.launches.push_back(
      {.name = "gemm",
       .source = gemm_prelude(p, finishes, defines) + std::string(template_text("vectors")) +
                 std::string(template_text("gemm")),
       .groups = {ceil_div(p.m, point.tile_m()) * ceil_div(p.n, point.tile_n()) * p.batch * point.splits, 1,
                  1},
       .group_size = {point.group_x, point.group_y, 1},
       .local_bytes = staged_bytes(point, k_step),
       .arguments = arguments({a, b}, p, finishes, c)});
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

bool dot_reads_registers(const GemmProblem& p) {
  if ((p.dtype != DType::f16 && p.dtype != DType::bf16) || p.k < 8) return false;
  const auto aligned = [&](const GemmProblem::Operand& x, int64_t along_k, int64_t across, int64_t extent) {
    return along_k == 1 && (extent == 1 || across % 8 == 0) && (p.batch == 1 || x.batch % 8 == 0) &&
           x.start % 16 == 0 && x.alignment % 16 == 0;
  };
  return aligned(p.a, p.a.column, p.a.row, p.m) && aligned(p.b, p.b.row, p.b.column, p.n);
}

GpuCandidate dot_candidate(const GemmProblem& p, int64_t rows, int64_t columns, int64_t width, int64_t items,
                           bool by_registers) {
  GpuCandidate candidate;
  Scratch scratch{p.scratch_buffer, p.scratch_start};
  // A matrix that is not contiguous along k is packed so that it is.
  const bool pack_a = p.a.column != 1, pack_b = p.b.row != 1;
  const auto source = [&](bool packs_a) {
    const GemmProblem::Operand& x = packs_a ? p.a : p.b;
    if (!(packs_a ? pack_a : pack_b)) return GpuLaunch::Argument{x.buffer, x.start};
    const GpuLaunch::Argument to = scratch.take((x.batch == 0 ? 1 : p.batch) * (packs_a ? p.m : p.n) * p.k);
    candidate.launches.push_back(pack_launch(p, packs_a, 1, items == 1, to));
    return to;
  };
  const GpuLaunch::Argument a = source(true), b = source(false);
  const Defines defines = Defines()
                              .set("ROWS", rows)
                              .set("COLUMNS", columns)
                              .set("WIDTH", std::to_string(width))
                              .set("A_PACKED", pack_a)
                              .set("B_PACKED", pack_b)
                              .set("BY_REGISTERS", by_registers)
                              .set("A_SHARED", p.a.batch == 0)
                              .set("B_SHARED", p.b.batch == 0);
  candidate.launches.push_back(
      {.name = "gemm_dot",
       .source = gemm_prelude(p, true, defines) + std::string(template_text("gemm_dot")),
       .groups = {ceil_div(p.m, rows) * ceil_div(p.n, columns) * p.batch, 1, 1},
       .group_size = {items, 1, 1},
       .local_bytes = items > 1 ? rows * columns * items * 4 : 0,
       .arguments = arguments({a, b}, p, true, {p.c.buffer, p.c.start})});
  candidate.name =
      fmt::format("dot {}x{} by {}{}", rows, columns, width * items, pack_a || pack_b ? " packed" : "");
  candidate.parameters = {{"rows", rows}, {"columns", columns}, {"width", width}, {"items", items}};
  candidate.scratch_bytes = scratch.bytes;
  return candidate;
}

bool is_of_few_rows(const GemmProblem& p, const GpuTraits& traits) {
  constexpr int64_t most_rows = 4, least_k = 64;
  const auto vector = 16 / static_cast<int64_t>(size_of(p.dtype));
  return traits.registers && traits.grain->side_by_side > 1 && p.m <= most_rows && p.k >= least_k &&
         p.b.column == 1 && p.b.row % vector == 0 && p.n % vector == 0 &&
         (p.batch == 1 || p.b.batch % vector == 0) && p.b.start % 16 == 0 && p.b.alignment % 16 == 0 &&
         p.matrices.empty() && !p.factors;
}

GpuCandidate few_rows_candidate(const GemmProblem& p, const GpuTraits& traits) {
  const auto vector = 16 / static_cast<int64_t>(size_of(p.dtype));
  // A group reads whole lines of memory of each row, or less if there would be too few groups. An item has
  // 128 bytes in flight. If there are fewer groups than compute units, groups have more items, so that as
  // many bytes are in flight.
  int64_t beside = 8;
  while (beside > 2 && 4 * ceil_div(p.n, beside * vector) * p.batch < 3 * traits.compute_units) beside /= 2;
  int64_t items = ceil_div(p.n, beside * vector) * p.batch < traits.compute_units ? 512 : 256;
  while (items > traits.max_group_size || items * p.m * vector * 4 > traits.local_bytes) items /= 2;
  const int64_t groups = ceil_div(p.n, beside * vector) * p.batch;
  const Defines defines = Defines().set("VECTOR", vector).set("COLUMNS_BESIDE", beside);
  GpuLaunch launch{.name = "gemm_rows",
                   .source = gemm_prelude(p, true, defines) + std::string(template_text("gemm_rows")),
                   .groups = {groups, 1, 1},
                   .group_size = {items, 1, 1},
                   .local_bytes = items * p.m * vector * 4,
                   .arguments = arguments({{p.a.buffer, p.a.start}, {p.b.buffer, p.b.start}}, p, true,
                                          {p.c.buffer, p.c.start})};
  return {.name = fmt::format("rows {}x{} by {}", p.m, beside * vector, items),
          .parameters = {{"rows", p.m}, {"columns", beside * vector}, {"items", items}},
          .launches = {std::move(launch)}};
}

GpuCandidate plain_gemm_candidate(const GemmProblem& p, int64_t rows, int64_t columns, int64_t group_x,
                                  int64_t group_y) {
  const Defines defines = Defines().set("ROWS", rows).set("COLUMNS", columns);
  GpuLaunch launch{
      .name = "gemm_plain",
      .source = gemm_prelude(p, true, defines) + std::string(template_text("gemm_plain")),
      .groups = {ceil_div(p.m, rows * group_y) * ceil_div(p.n, columns * group_x) * p.batch, 1, 1},
      .group_size = {group_x, group_y, 1},
      .arguments =
          arguments({{p.a.buffer, p.a.start}, {p.b.buffer, p.b.start}}, p, true, {p.c.buffer, p.c.start})};
  return {.name = fmt::format("plain gemm {}x{}", rows * group_y, columns * group_x),
          .parameters = {{"rows", rows}, {"columns", columns}, {"group_x", group_x}, {"group_y", group_y}},
          .launches = {std::move(launch)}};
}

}  // namespace athanor::gpu
