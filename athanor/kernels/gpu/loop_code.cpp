#include "athanor/kernels/gpu/loop_code.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "athanor/base/error.h"
#include "athanor/kernels/gpu/gpu_kernel.h"

namespace athanor::gpu {
namespace {

std::string reg(int number) { return fmt::format("r{}", number); }

// Integers wrap: they are added as unsigned numbers; small ones as int, and the cast drops the upper bits.
std::string wrapping(DType type, const std::string& a, const char* op, const std::string& b) {
  switch (type) {
    case DType::i64:
      return fmt::format("(i64)((u64){} {} (u64){})", a, op, b);
    case DType::i32:
      return fmt::format("(i32)((u32){} {} (u32){})", a, op, b);
    case DType::b8:
      return fmt::format("(b8)((({} {} {}) & 255) != 0)", a, op, b);
    default:
      return fmt::format("({})({} {} {})", language_name(type), a, op, b);
  }
}

std::string divide(DType type, const char* name, const std::string& a, const std::string& b) {
  if (type == DType::i64) return fmt::format("{}_i64({}, {})", name, a, b);
  return fmt::format("({}){}_i32({}, {})", language_name(type), name, a, b);
}

std::string less(DType type, const std::string& a, const std::string& b) {
  return type == DType::i64 ? fmt::format("LESS_I64({}, {})", a, b) : fmt::format("({} < {})", a, b);
}
std::string larger(DType type, const std::string& a, const std::string& b) {
  if (type == DType::i64) return fmt::format("({} ? {} : {})", less(type, b, a), a, b);
  return fmt::format("{}({}, {})", is_float(type) ? "MAX_FLOAT" : "MAX", a, b);
}
std::string smaller(DType type, const std::string& a, const std::string& b) {
  if (type == DType::i64) return fmt::format("({} ? {} : {})", less(type, a, b), a, b);
  return fmt::format("{}({}, {})", is_float(type) ? "MIN_FLOAT" : "MIN", a, b);
}

std::string cast(DType from, DType to, const std::string& a) {
  if (to == DType::b8) return fmt::format("(b8)({} != 0)", a);
  if (is_float(from) && to == DType::i64) return fmt::format("i64_of_{}({})", language_name(from), a);
  if (is_float(from) && !is_float(to))
    return fmt::format("({})i64_of_{}({})", language_name(to), language_name(from), a);
  return fmt::format("({}){}", language_name(to), a);
}

std::string function(Prim prim, DType type, const std::string& a) {
  return fmt::format("{}_{}({})", to_string(prim), language_name(type), a);
}

// `type` is that of the first operand, `to` that of the result.
std::string expression(const LoopStep& s, DType type, const std::string& a, const std::string& b,
                       const std::string& c) {
  switch (s.prim) {
    case Prim::neg:
      return is_float(type) ? "-" + a : wrapping(type, "0", "-", a);
    case Prim::abs:
      if (is_float(type)) return function(s.prim, type, a);
      return type == DType::u8 || type == DType::b8
                 ? a
                 : fmt::format("({} ? {} : {})", less(type, a, "0"), wrapping(type, "0", "-", a), a);
    case Prim::exp:
    case Prim::log:
    case Prim::sin:
    case Prim::cos:
    case Prim::tanh:
    case Prim::erf:
    case Prim::sqrt:
      return function(s.prim, type, a);
    case Prim::floor:
      return is_float(type) ? function(s.prim, type, a) : a;
    case Prim::cast:
      return cast(type, s.type, a);
    case Prim::add:
      return is_float(type) ? a + " + " + b : wrapping(type, a, "+", b);
    case Prim::sub:
      return is_float(type) ? a + " - " + b : wrapping(type, a, "-", b);
    case Prim::mul:
      return is_float(type) ? a + " * " + b : wrapping(type, a, "*", b);
    case Prim::div:
      return is_float(type) ? a + " / " + b : divide(type, "div", a, b);
    case Prim::mod:
      return is_float(type) ? fmt::format("mod_{}({}, {})", language_name(type), a, b)
                            : divide(type, "mod", a, b);
    case Prim::pow:
      return is_float(type) ? fmt::format("pow_{}({}, {})", language_name(type), a, b)
                            : fmt::format("({})pow_i64({}, {})", language_name(type), a, b);
    case Prim::max:
      return larger(type, a, b);
    case Prim::min:
      return smaller(type, a, b);
    case Prim::less:
      return "(b8)" + less(type, a, b);
    case Prim::equal:
      return fmt::format("(b8)({} == {})", a, b);
    case Prim::bit_and:
      return a + " & " + b;
    case Prim::bit_or:
      return a + " | " + b;
    case Prim::bit_xor:
      return a + " ^ " + b;
    case Prim::where:
      return fmt::format("{} ? {} : {}", a, b, c);
    case Prim::random_uniform:
      return fmt::format("random_uniform({}, {})", a, b);
    default:
      throw Error(ErrorCode::internal, fmt::format("{} in a loop", to_string(s.prim)));
  }
}

}  // namespace

std::string affine(int64_t offset, const Ints& strides, const std::vector<std::string>& index) {
  std::string text;
  for (size_t d = 0; d < strides.size(); ++d) {
    if (strides[d] == 0 || index[d].empty()) continue;
    if (!text.empty()) text += " + ";
    text += strides[d] == 1 ? index[d] : fmt::format("{} * {}", strides[d], index[d]);
  }
  if (text.empty()) return std::to_string(offset);
  return offset == 0 ? text : fmt::format("{} + {}", offset, text);
}

std::string literal(double value, DType type) {
  if (std::isfinite(value) && !(value == 0 && std::signbit(value))) {
    if (type == DType::f32) {
      const auto f = static_cast<float>(value);
      if (std::isfinite(f)) {
        std::string text = fmt::format("{}", f);
        if (text.find_first_of(".e") == std::string::npos) text += ".0";
        return f < 0 ? "(" + text + "f)" : text + "f";
      }
    } else {
      std::string text = fmt::format("{}", value);
      if (text.find_first_of(".e") == std::string::npos) text += ".0";
      return value < 0 ? "(" + text + ")" : text;
    }
  }
  return fmt::format("({})F32_OF_BITS({:#x}u)", language_name(type),
                     std::bit_cast<uint32_t>(static_cast<float>(value)));
}

std::string literal(int64_t value, DType type) {
  if (type != DType::i64) return std::to_string(value);
  if (value == INT64_MIN) return "(-9223372036854775807L - 1)";
  return fmt::format("((i64){}L)", value);
}

std::vector<DType> register_types(const LoopProgram& program) {
  std::vector<DType> types;
  for (const LoopStep& s : program.body) types.push_back(s.type);
  for (const LoopReduction& r : program.reductions) types.push_back(r.type);
  for (const LoopStep& s : program.epilogue) types.push_back(s.type);
  return types;
}

std::vector<DType> buffer_types(const LoopProgram& program) {
  std::vector<DType> types(static_cast<size_t>(program.buffers), DType::u8);
  for (const LoopOperand& o : program.operands) types[static_cast<size_t>(o.buffer)] = o.dtype;
  return types;
}

void write_steps(Code& code, const LoopProgram& program, const std::vector<LoopStep>& steps, int first,
                 const std::vector<std::string>& index, const std::vector<std::string>& held,
                 bool keeps_random) {
  const std::vector<DType> types = register_types(program);
  int number = first;
  for (const LoopStep& s : steps) {
    std::string value;
    switch (s.kind) {
      case LoopStep::Kind::load: {
        const auto which = static_cast<size_t>(s.operand);
        const LoopOperand& o = program.operands[which];
        value = which < held.size() && !held[which].empty()
                    ? held[which]
                    : fmt::format("LOAD({}, m{}, {})", language_name(o.dtype), o.buffer,
                                  affine(o.offset, o.strides, index));
        break;
      }
      case LoopStep::Kind::constant:
        value = is_float(s.type) ? literal(s.value, s.type) : literal(s.int_value, s.type);
        break;
      case LoopStep::Kind::index:
        value = affine(s.index_offset, s.index_strides, index);
        break;
      case LoopStep::Kind::primitive:
        value = keeps_random && s.prim == Prim::random_uniform
                    ? fmt::format("random_of(&block{}, {}, {})", number, reg(s.a), reg(s.b))
                    : expression(s, types[static_cast<size_t>(s.a)], reg(s.a), reg(s.b), reg(s.c));
        break;
    }
    code.line(fmt::format("const {} r{} = {};", language_name(s.type), number++, value));
  }
}

void declare_random(Code& code, const std::vector<LoopStep>& steps, int first) {
  for (size_t i = 0; i < steps.size(); ++i)
    if (steps[i].kind == LoopStep::Kind::primitive && steps[i].prim == Prim::random_uniform) {
      code.line(fmt::format("random_block block{};", first + static_cast<int>(i)));
      code.line(fmt::format("block{}.number = NO_BLOCK;", first + static_cast<int>(i)));
    }
}

void write_stores(Code& code, const LoopProgram& program, const std::vector<LoopStore>& stores,
                  const std::vector<std::string>& index) {
  for (const LoopStore& s : stores) {
    const LoopOperand& o = program.operands[static_cast<size_t>(s.operand)];
    code.line(fmt::format("STORE({}, m{}, {}, r{});", language_name(o.dtype), o.buffer,
                          affine(o.offset, o.strides, index), s.source));
  }
}

std::string reduction_identity(const LoopReduction& r) {
  const bool lowest = r.prim == Prim::reduce_max;
  if (r.prim == Prim::sum || r.prim == Prim::prod) {
    const int64_t value = r.prim == Prim::prod;
    return is_float(r.type) ? literal(static_cast<double>(value), r.type) : literal(value, r.type);
  }
  switch (r.type) {
    case DType::i64:
      return literal(lowest ? INT64_MIN : INT64_MAX, r.type);
    case DType::i32:
      return lowest ? "(-2147483647 - 1)" : "2147483647";
    case DType::i8:
      return lowest ? "-128" : "127";
    case DType::u8:
      return lowest ? "0" : "255";
    case DType::b8:
      return lowest ? "0" : "1";
    default:
      return literal(lowest ? -HUGE_VAL : HUGE_VAL, r.type);
  }
}

std::string combine(const LoopReduction& r, const std::string& a, const std::string& b) {
  switch (r.prim) {
    case Prim::sum:
      return is_float(r.type) ? a + " + " + b : wrapping(r.type, a, "+", b);
    case Prim::prod:
      return is_float(r.type) ? a + " * " + b : wrapping(r.type, a, "*", b);
    case Prim::reduce_max:
      return larger(r.type, a, b);
    default:
      return smaller(r.type, a, b);
  }
}

}  // namespace athanor::gpu
