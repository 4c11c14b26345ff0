#include "athanor/kernels/epilogue.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace athanor {
namespace {

/// Recognises what a register of an epilogue holds.
class Reader {
 public:
  explicit Reader(const KernelRequest& request) : request_(request), p_(request.epilogue) {}

  std::optional<SimpleEpilogue> read() const {
    if (p_.stores.size() != 1 || p_.body.empty()) return {};
    const int result = p_.stores[0].source;
    for (const Activation activation :
         {Activation::none, Activation::relu, Activation::tanh, Activation::sigmoid})
      if (const int x = argument(result, activation); x >= 0) {
        if (is_product(x)) return SimpleEpilogue{false, activation};
        const LoopStep& sum = step(x);
        if (!is(sum, Prim::add)) continue;
        if ((is_product(sum.a) && is_bias(sum.b)) || (is_bias(sum.a) && is_product(sum.b)))
          return SimpleEpilogue{true, activation};
      }
    return {};
  }

 private:
  const LoopStep& step(int reg) const { return p_.body[static_cast<size_t>(reg)]; }
  static bool is(const LoopStep& s, Prim prim) {
    return s.kind == LoopStep::Kind::primitive && s.prim == prim;
  }
  bool is_number(int reg, double value) const {
    return step(reg).kind == LoopStep::Kind::constant && step(reg).value == value;
  }
  const LoopOperand* loaded(int reg) const {
    return step(reg).kind == LoopStep::Kind::load ? &p_.operands[static_cast<size_t>(step(reg).operand)]
                                                  : nullptr;
  }
  bool is_product(int reg) const { return loaded(reg) != nullptr && loaded(reg)->buffer == 0; }

  /// x, if `reg` holds activation(x); else -1.
  int argument(int reg, Activation activation) const {
    const LoopStep& s = step(reg);
    switch (activation) {
      case Activation::none:
        return reg;
      case Activation::relu:
        if (!is(s, Prim::max)) return -1;
        return is_number(s.b, 0) ? s.a : is_number(s.a, 0) ? s.b : -1;
      case Activation::tanh:
        return is(s, Prim::tanh) ? s.a : -1;
      case Activation::sigmoid:
        break;
    }
    if (!is(s, Prim::div) || !is_number(s.a, 1) || !is(step(s.b), Prim::add)) return -1;
    const LoopStep& sum = step(s.b);
    const int power = is_number(sum.a, 1) ? sum.b : is_number(sum.b, 1) ? sum.a : -1;
    if (power < 0 || !is(step(power), Prim::exp) || !is(step(step(power).a), Prim::neg)) return -1;
    return step(step(power).a).a;
  }

  /// Whether the elements lie one behind the other. Along an axis of extent 1 any stride means that.
  static bool lies_dense(const OperandDesc& operand) {
    const Ints dense = contiguous_strides(operand.shape);
    for (int axis = 0; axis < operand.shape.rank(); ++axis)
      if (operand.shape[axis] != 1 &&
          operand.strides[static_cast<size_t>(axis)] != dense[static_cast<size_t>(axis)])
        return false;
    return true;
  }

  bool is_bias(int reg) const {
    const LoopOperand* operand = loaded(reg);
    if (operand == nullptr || operand->buffer != 1 || p_.buffers != 3 || operand->offset != 0) return false;
    const OperandDesc &bias = request_.inputs.back(), &result = request_.output();
    const bool images = result.shape.rank() == 4;
    const int64_t channels = result.shape[images ? 1 : -1];
    if (bias.dtype != result.dtype || !lies_dense(bias) || bias.shape.size() != channels) return false;
    const int block = result.layout.block;
    Ints expected(p_.space.size(), 0);
    if (images) {
      if (p_.space.size() != (block == 0 ? 4U : 5U)) return false;
      expected[1] = block == 0 ? 1 : block;
      if (block != 0) expected[4] = 1;
    } else {
      if (p_.space.empty() || p_.space.back() != channels) return false;
      expected.back() = 1;
    }
    for (size_t d = 0; d < p_.space.size(); ++d)
      if (p_.space[d] != 1 && operand->strides[d] != expected[d]) return false;
    return true;
  }

  const KernelRequest& request_;
  const LoopProgram& p_;
};

}  // namespace

std::string_view to_string(Activation activation) {
  constexpr std::string_view names[] = {"", "relu", "tanh", "sigmoid"};
  return names[static_cast<int>(activation)];
}

std::optional<SimpleEpilogue> simple_epilogue(const KernelRequest& request) {
  if (!request.has_epilogue()) return SimpleEpilogue{};
  if (has_further_results(request)) return {};
  return Reader(request).read();
}

bool has_further_results(const KernelRequest& request) {
  const LoopProgram& p = request.epilogue;
  return request.has_epilogue() && (request.unstored || p.stores.size() != 1 || !p.reductions.empty());
}

std::vector<std::string> epilogue_names(const KernelRequest& request) {
  std::vector<std::string> names;
  if (const auto simple = simple_epilogue(request)) {
    if (simple->bias) names.emplace_back("bias");
    if (simple->activation != Activation::none) names.emplace_back(to_string(simple->activation));
    return names;
  }
  const auto add = [&](const std::vector<LoopStep>& steps) {
    for (const LoopStep& s : steps)
      if (s.kind == LoopStep::Kind::primitive) names.emplace_back(to_string(s.prim));
  };
  add(request.epilogue.body);
  for (const LoopReduction& r : request.epilogue.reductions) names.emplace_back(to_string(r.prim));
  add(request.epilogue.epilogue);
  return names;
}

std::string epilogue_key(const KernelRequest& request) {
  if (!request.has_epilogue()) return {};
  if (const auto simple = simple_epilogue(request)) {
    std::string text = simple->bias ? " +bias" : "";
    if (simple->activation != Activation::none) text += " " + std::string(to_string(simple->activation));
    return text;
  }
  std::string text = to_string(request.epilogue);
  std::ranges::replace(text, '\n', ';');
  return " then " + text;
}

KernelRequest without_epilogue(const KernelRequest& request) {
  KernelRequest plain = request;
  plain.inputs.resize(request.own_inputs());
  plain.outputs = {request.output()};
  const auto with = request.outputs.begin() + static_cast<std::ptrdiff_t>(request.first_with());
  plain.outputs.insert(plain.outputs.end(), with, with + std::ssize(request.with));
  plain.epilogue = {};
  plain.unstored = {};
  return plain;
}

}  // namespace athanor
