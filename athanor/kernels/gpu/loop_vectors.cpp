#include "athanor/kernels/gpu/loop_vectors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/index_code.h"

namespace athanor::gpu {
namespace {

bool lies_together(const LoopOperand& o) { return o.strides.back() == 1; }
bool is_broadcast(const LoopOperand& o) { return o.strides.back() == 0; }

// Steps for which a compiler writes a long routine. A loop with one is not bound by memory, and several
// copies of the routine take long to compile.
bool is_long(const LoopStep& step) {
  switch (step.prim) {
    case Prim::sin:
    case Prim::cos:
    case Prim::pow:
    case Prim::mod:
      return true;
    case Prim::div:
      return !is_float(step.type);
    case Prim::exp:
    case Prim::log:
    case Prim::tanh:
    case Prim::erf:
      return step.type == DType::f64;
    default:
      return false;
  }
}

// Whether each element's own index is needed: to move elements that are in no vector, or as a value.
bool needs_index(const LoopProgram& program) {
  return std::ranges::any_of(program.operands,
                             [](const auto& o) { return !lies_together(o) && !is_broadcast(o); }) ||
         std::ranges::any_of(program.body,
                             [](const LoopStep& s) {
                               return s.kind == LoopStep::Kind::index && s.index_strides.back() != 0;
                             }) ||
         std::ranges::any_of(program.reductions, [](const auto& r) { return r.prim == Prim::argmax; });
}

int64_t registers(const LoopOperand& o, int64_t width) {
  return width * static_cast<int64_t>(size_of(o.dtype)) / 4;
}

std::string vector(const LoopOperand& o, int64_t width, const std::string& name) {
  const int64_t count = registers(o, width);
  return count == 1 ? fmt::format("u32 {}[1];", name) : fmt::format("u32x{} {};", count, name);
}

// Loads the elements of an operand that lie together. Returns element e of them.
std::string read_vector(Code& code, const LoopOperand& o, int number, int64_t width,
                        const std::string& place) {
  constexpr int64_t most = 4;  // registers of one access
  const int64_t pieces = ceil_div(registers(o, width), most), part = width / pieces;
  const std::string name = fmt::format("in{}", number);
  if (pieces > 1) {
    code.line(fmt::format("u32x{} {}[{}];", most, name, pieces));
    for (int64_t p = 0; p < pieces; ++p)
      code.line(fmt::format("READ_ALIGNED({}, {}[{}], m{} + ({}));", most, name, p, o.buffer,
                            plus(place, p * part)));
    return fmt::format("ELEMENT({}, {}[e / {}], e % {})", language_name(o.dtype), name, part, part);
  }
  code.line(vector(o, width, name));
  code.line(fmt::format("READ_ALIGNED({}, {}, m{} + ({}));", registers(o, width), name, o.buffer, place));
  return fmt::format("ELEMENT({}, {}, e)", language_name(o.dtype), name);
}

// The same for one element that all of a vector have.
std::string read_broadcast(Code& code, const LoopOperand& o, int number, const std::string& place) {
  std::string name = fmt::format("in{}", number);
  code.line(fmt::format("const {} {} = LOAD({}, m{}, {});", language_name(computed_in(o.dtype)), name,
                        language_name(o.dtype), o.buffer, place));
  return name;
}

// The numbers of elements that vectors may hold, most first.
std::vector<int64_t> widths_of(const LoopProgram& program, const GpuTraits& traits,
                               const std::vector<bool>& held) {
  if (!traits.registers || program.space.empty()) return {};
  constexpr int64_t near = 4;          // with longer strides, neighbouring vectors share no sectors of memory
  constexpr int64_t most_steps = 512;  // of an item
  int64_t narrowest = 0, widest = 0;
  for (size_t i = 0; i < program.operands.size(); ++i) {
    const LoopOperand& o = program.operands[i];
    if (std::abs(o.strides.back()) > near) return {};
    if (!lies_together(o)) continue;
    const auto size = static_cast<int64_t>(size_of(o.dtype));
    narrowest = narrowest == 0 ? size : std::min(narrowest, size);
    if (i >= held.size() || !held[i]) widest = std::max(widest, size);
  }
  if (widest == 0 || std::ranges::any_of(program.body, is_long)) return {};
  std::vector<int64_t> widths;
  for (int64_t width = traits.grain->loop_vector / widest; width > 1 && width * narrowest >= 4; width /= 2)
    if (width * std::ssize(program.body) <= most_steps) widths.push_back(width);
  return widths;
}

// None if operands are aligned at different elements of a row, or if too many vectors would be cut off.
std::optional<VectorRows> rows_of(const LoopProgram& program, int64_t width) {
  std::optional<VectorRows> rows;
  for (const LoopOperand& o : program.operands) {
    if (!lies_together(o)) continue;
    const auto rest = [&](int64_t number) { return (number % width + width) % width; };
    Ints strides;
    for (size_t d = 0; d + 1 < o.strides.size(); ++d) strides.push_back(rest(o.strides[d]));
    strides.push_back(0);
    if (!rows)
      rows = {.width = width, .offset = rest(o.offset), .strides = std::move(strides)};
    else if (rows->offset != rest(o.offset) || rows->strides != strides)
      return std::nullopt;
  }
  const int64_t inner = program.space.back();
  const bool before = rows->begins_before(), single = program.iterations() == inner;
  rows->whole = !before && inner % width == 0;
  rows->blocks = ceil_div(inner + (before ? width - 1 : 0), width);
  constexpr int64_t few_edges = 64;  // of a row's vectors, at most two are cut off
  if (!rows->whole && inner < (single ? 1 : few_edges) * width) return std::nullopt;
  return rows;
}

void write_whole(Code& code, const LoopProgram& program, int64_t width, std::string_view index_type,
                 const std::vector<std::string>& index, const WithElement& also,
                 const std::vector<std::string>& known) {
  const auto operand = [&](int number) -> const LoopOperand& {
    return program.operands[static_cast<size_t>(number)];
  };
  const auto place = [&](const LoopOperand& o) { return affine(o.offset, o.strides, index); };
  std::vector<std::string> held = known;
  held.resize(program.operands.size());
  for (const LoopStep& s : program.body) {
    if (s.kind != LoopStep::Kind::load || !held[static_cast<size_t>(s.operand)].empty()) continue;
    const LoopOperand& o = operand(s.operand);
    std::string& value = held[static_cast<size_t>(s.operand)];
    if (lies_together(o))
      value = read_vector(code, o, s.operand, width, place(o));
    else if (is_broadcast(o))
      value = read_broadcast(code, o, s.operand, place(o));
  }
  const auto result = [&](const LoopStore& s) { return fmt::format("out{}", s.operand); };
  // Two floats of 16 bits are rounded together, once all are computed.
  const auto is_packed = [](DType type) { return type == DType::f16 || type == DType::bf16; };
  std::vector<LoopStore> single;
  for (const LoopStore& s : program.stores)
    if (const LoopOperand& o = operand(s.operand); lies_together(o)) {
      code.line(vector(o, width, result(s)));
      if (is_packed(o.dtype)) code.line(fmt::format("f32 {}_floats[{}];", result(s), width));
    } else {
      single.push_back(s);
    }
  declare_random(code, program.body, 0);
  code.open(fmt::format("UNROLL for (int e = 0; e < {}; ++e)", width));
  std::vector<std::string> inside = index;
  inside.back() = "x";
  if (needs_index(program)) code.line(fmt::format("const {} x = {} + e;", index_type, index.back()));
  write_steps(code, program, program.body, 0, inside, held, true);
  for (const LoopStore& s : program.stores) {
    const LoopOperand& o = operand(s.operand);
    if (!lies_together(o)) continue;
    code.line(is_packed(o.dtype)
                  ? fmt::format("{}_floats[e] = r{};", result(s), s.source)
                  : fmt::format("SET_ELEMENT({}, {}, e, r{});", language_name(o.dtype), result(s), s.source));
  }
  write_stores(code, program, single, inside);
  if (also) also(inside);
  code.close();
  for (const LoopStore& s : program.stores)
    if (const LoopOperand& o = operand(s.operand); lies_together(o)) {
      const int64_t count = registers(o, width);
      if (is_packed(o.dtype))
        code.line(
            fmt::format("UNROLL for (int r = 0; r < {0}; ++r) {1}[r] = PACKED({2}, {1}_floats[2 * r], "
                        "{1}_floats[2 * r + 1]);",
                        count, result(s), language_name(o.dtype)));
      code.line(fmt::format("WRITE_GLOBAL({}, m{} + ({}), {}{});", count, o.buffer, place(o), result(s),
                            count == 1 ? "[0]" : ""));
    }
}

}  // namespace

bool VectorRows::begins_before() const {
  return offset != 0 || std::ranges::any_of(strides, [](int64_t stride) { return stride != 0; });
}

std::vector<VectorRows> vector_rows(const LoopProgram& program, const GpuTraits& traits,
                                    const std::vector<bool>& held) {
  std::vector<VectorRows> all;
  for (const int64_t width : widths_of(program, traits, held))
    if (std::optional<VectorRows> rows = rows_of(program, width)) all.push_back(*std::move(rows));
  return all;
}

std::vector<std::string> write_loads(Code& code, const LoopProgram& program, int64_t width,
                                     const std::vector<std::string>& index, const std::vector<bool>& held) {
  std::vector<std::string> known(program.operands.size());
  for (size_t i = 0; i < known.size(); ++i) {
    if (!held[i]) continue;
    const LoopOperand& o = program.operands[i];
    const std::string place = affine(o.offset, o.strides, index);
    known[i] = lies_together(o) ? read_vector(code, o, static_cast<int>(i), width, place)
                                : read_broadcast(code, o, static_cast<int>(i), place);
  }
  return known;
}

void write_block(Code& code, const LoopProgram& program, const VectorRows& rows, std::string_view index_type,
                 std::vector<std::string> index, const std::string& block, const WithElement& also,
                 const std::vector<std::string>& known) {
  index.back().clear();
  const bool before = rows.begins_before();
  const std::string shift =
      before ? fmt::format(" - (({}) & {})", affine(rows.offset, rows.strides, index), rows.width - 1) : "";
  code.line(fmt::format("const {} at = {} * {}{};", index_type, block, rows.width, shift));
  index.back() = "at";
  write_vector(code, program, {rows.width, std::to_string(program.space.back()), before, !rows.whole},
               index_type, std::move(index), also, known);
}

void write_vector(Code& code, const LoopProgram& program, const VectorPlace& place,
                  std::string_view index_type, std::vector<std::string> index, const WithElement& also,
                  const std::vector<std::string>& known) {
  const auto& [width, extent, before, behind] = place;
  if (!behind) return write_whole(code, program, width, index_type, index, also, known);
  const std::string at = index.back();
  code.open(fmt::format("if ({}{} + {} <= {})", before ? at + " >= 0 && " : "", at, width, extent));
  write_whole(code, program, width, index_type, index, also, known);
  code.close();
  code.open(fmt::format("else for ({} x = {}; x < MIN({} + {}, {}); ++x)", index_type,
                        before ? fmt::format("MAX({}, 0)", at) : at, at, width, extent));
  index.back() = "x";
  write_steps(code, program, program.body, 0, index, known);
  write_stores(code, program, program.stores, index);
  if (also) also(index);
  code.close();
}

}  // namespace athanor::gpu
