#include "athanor/backends/cpu/loops/code.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "athanor/base/error.h"

namespace athanor::loops {

using Kind = Instruction::Kind;

int CodeBuilder::add(Node fresh) {
  for (size_t i = 0; i < nodes_.size(); ++i)
    if (nodes_[i].same_value(fresh)) return static_cast<int>(i);
  nodes_.push_back(std::move(fresh));
  return static_cast<int>(nodes_.size()) - 1;
}

int CodeBuilder::constant(DType type, double value, int64_t int_value) {
  Node n;
  n.kind = Kind::constant;
  n.type = type;
  n.uniform = n.invariant = true;
  switch (type) {
    case DType::f64:
      n.bits = std::bit_cast<uint64_t>(value);
      break;
    case DType::f32:
      n.bits = std::bit_cast<uint32_t>(static_cast<float>(value));
      break;
    case DType::b8:
      n.bits = int_value != 0;
      break;
    default:
      n.bits = static_cast<uint64_t>(int_value);
  }
  return add(std::move(n));
}

int CodeBuilder::walker(Walker w) {
  walkers_.push_back(std::move(w));
  return static_cast<int>(walkers_.size()) - 1;
}

int CodeBuilder::load(const LoopOperand& operand, DType type) {
  Walker w = make_walker(tiling_, operand.buffer, static_cast<int64_t>(size_of(operand.dtype)),
                         operand.offset, operand.strides);
  Node n;
  n.type = operand.dtype;
  n.uniform = w.form == Walker::Form::uniform;
  n.invariant = n.uniform &&
                std::all_of(w.loop_strides.begin(), w.loop_strides.end(), [](int64_t s) { return s == 0; });
  n.kind = n.uniform ? Kind::splat : w.form == Walker::Form::contiguous ? Kind::point : Kind::gather;
  const auto known = std::find_if(walkers_.begin(), walkers_.end(), [&](const Walker& other) {
    return other.buffer == w.buffer && other.same_place(w);
  });
  n.walker = known != walkers_.end() ? static_cast<int>(known - walkers_.begin()) : walker(std::move(w));
  return convert(add(std::move(n)), type);
}

int CodeBuilder::index(int64_t offset, const Ints& strides) {
  Walker w = make_walker(tiling_, -1, 1, offset, strides);
  Node n;
  n.kind = Kind::index;
  n.type = DType::i64;
  n.uniform = w.form == Walker::Form::uniform;
  n.invariant = n.uniform &&
                std::all_of(w.loop_strides.begin(), w.loop_strides.end(), [](int64_t s) { return s == 0; });
  n.walker = walker(std::move(w));
  return add(std::move(n));
}

int CodeBuilder::external(DType type) {
  Node n;
  n.kind = Kind::point;
  n.type = type;
  n.external = true;
  return add(std::move(n));
}

int CodeBuilder::apply(Opcode op, DType type, std::vector<int> sources) {
  Node n;
  n.op = op;
  n.type = type;
  const auto all = [&](auto flag) {
    return std::all_of(sources.begin(), sources.end(), [&](int s) { return node(s).*flag; });
  };
  n.uniform = all(&Node::uniform);
  n.invariant = all(&Node::invariant);
  n.sources = std::move(sources);
  return add(std::move(n));
}

int CodeBuilder::convert(int value, DType type) {
  const DType from = node(value).type;
  if (from == type) return value;
  if ((is_narrow_float(from) && type != DType::f32) || (is_narrow_float(type) && from != DType::f32))
    return convert(convert(value, DType::f32), type);
  return apply(Opcode::cast, type, {value});
}

bool CodeBuilder::is_constant(int value, double number) const {
  const Node& n = node(value);
  if (n.kind != Kind::constant) return false;
  if (n.type == DType::f32)
    return std::bit_cast<float>(static_cast<uint32_t>(n.bits)) == static_cast<float>(number);
  return n.type == DType::f64 && std::bit_cast<double>(n.bits) == number;
}

int CodeBuilder::primitive(Prim prim, DType type, const std::vector<int>& sources) {
  const auto refuse = [&](DType t) {
    throw Error(ErrorCode::dtype, fmt::format("'{}' has no meaning for {}", to_string(prim), to_string(t)));
  };
  if (!is_elementwise(prim))
    throw Error(ErrorCode::internal, fmt::format("'{}' is not an elementwise primitive", to_string(prim)));
  if (prim == Prim::cast) return convert(sources[0], type);
  if (prim == Prim::random_uniform) return apply(Opcode::random_uniform, type, sources);
  const DType in = node(sources.back()).type;
  if (find_step(op_of(prim), in, type) == nullptr) refuse(in);
  if (prim == Prim::pow && is_float(type)) {  // what libm computes for these, without its cost
    if (is_constant(sources[1], 1)) return sources[0];
    if (is_constant(sources[1], 2)) return apply(Opcode::mul, type, {sources[0], sources[0]});
    if (is_constant(sources[1], -1)) return apply(Opcode::div, type, {constant(type, 1, 1), sources[0]});
  }
  return apply(op_of(prim), type, sources);
}

int CodeBuilder::step(const LoopStep& s, const std::vector<LoopOperand>& operands,
                      const std::vector<int>& values) {
  switch (s.kind) {
    case LoopStep::Kind::load:
      return load(operands[static_cast<size_t>(s.operand)], s.type);
    case LoopStep::Kind::constant:
      return constant(s.type, s.value, s.int_value);
    case LoopStep::Kind::index:
      return index(s.index_offset, s.index_strides);
    case LoopStep::Kind::primitive:
      break;
  }
  std::vector<int> sources;
  for (int r : {s.a, s.b, s.c})
    if (r >= 0) sources.push_back(values[static_cast<size_t>(r)]);
  return primitive(s.prim, s.type, sources);
}

int CodeBuilder::full_tile(int value) {
  if (!node(value).uniform || tiling_.tile_size() == 1) return value;
  Node n;
  n.type = node(value).type;
  n.sources = {value};
  return add(std::move(n));
}

void CodeBuilder::store(int value, const LoopOperand& operand) {
  Walker w = make_walker(tiling_, operand.buffer, static_cast<int64_t>(size_of(operand.dtype)),
                         operand.offset, operand.strides);
  value = full_tile(convert(value, operand.dtype));
  stores_.push_back({value, walker(std::move(w))});
}

size_t CodeBuilder::keep(int value) {
  kept_.push_back({full_tile(value)});
  return kept_.size() - 1;
}

size_t CodeBuilder::keep_product(int value) {
  const size_t wish = keep(value);
  kept_[wish].product = true;
  return wish;
}

}  // namespace athanor::loops
