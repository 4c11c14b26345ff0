#include "athanor/compile/canonical_loop.h"

#include <algorithm>
#include <map>

namespace athanor {
namespace {

/// Copies a loop, starting from its stores, or from its reductions.
class Writer {
 public:
  explicit Writer(const LoopProgram& from) : from_(from) {
    to_.program.space = from.space;
    to_.program.reduced = from.reduced;
  }

  CanonicalLoop run() {
    std::vector<int> sources;
    for (const LoopStore& store : from_.stores) sources.push_back(needed(store.source));
    for (size_t i = 0; i < sources.size(); ++i)
      to_.program.stores.push_back({sources[i], operand(from_.stores[i].operand)});
    for (LoopReduction reduction : from_.reductions) {
      reduction.source = needed(reduction.source);
      to_.program.reductions.push_back(reduction);
    }
    for (const LoopStep& step : from_.epilogue)
      for (const int source : {step.a, step.b, step.c})
        if (is_in_body(source)) needed(source);
    for (const LoopStore& store : from_.epilogue_stores)
      if (is_in_body(store.source)) needed(store.source);
    for (LoopStep step : from_.epilogue) {
      for (int* source : {&step.a, &step.b, &step.c})
        if (*source >= 0) *source = behind_body(*source);
      if (step.kind == LoopStep::Kind::load) step.operand = operand(step.operand);
      to_.program.epilogue.push_back(std::move(step));
    }
    for (const LoopStore& store : from_.epilogue_stores)
      to_.program.epilogue_stores.push_back({behind_body(store.source), operand(store.operand)});
    to_.program.buffers = static_cast<int>(to_.buffers.size());
    return std::move(to_);
  }

 private:
  int needed(int r) {
    if (const auto found = registers_.find(r); found != registers_.end()) return found->second;
    LoopStep step = from_.body[static_cast<size_t>(r)];
    for (int* source : {&step.a, &step.b, &step.c})
      if (*source >= 0) *source = needed(*source);
    if (step.kind == LoopStep::Kind::load) step.operand = operand(step.operand);
    to_.program.body.push_back(std::move(step));
    return registers_[r] = static_cast<int>(to_.program.body.size()) - 1;
  }

  bool is_in_body(int r) const { return r >= 0 && r < static_cast<int>(from_.body.size()); }

  /// A register of the epilogue, when the body is complete. All reductions and steps behind the body stay.
  int behind_body(int r) {
    if (is_in_body(r)) return needed(r);
    return r - static_cast<int>(from_.body.size()) + static_cast<int>(to_.program.body.size());
  }

  int operand(int number) {
    LoopOperand o = from_.operands[static_cast<size_t>(number)];
    auto& buffers = to_.buffers;
    const auto found = std::find(buffers.begin(), buffers.end(), o.buffer);
    const auto place = static_cast<int>(found - buffers.begin());
    if (found == buffers.end()) buffers.push_back(o.buffer);
    o.buffer = place;
    to_.program.operands.push_back(std::move(o));
    return static_cast<int>(to_.program.operands.size()) - 1;
  }

  const LoopProgram& from_;
  CanonicalLoop to_;
  std::map<int, int> registers_;
};

}  // namespace

CanonicalLoop canonical(const LoopProgram& program) { return Writer(program).run(); }

bool same_program(const LoopProgram& a, const LoopProgram& b) {
  if (a.operands.size() != b.operands.size() || a.body.size() != b.body.size()) return false;
  LoopProgram c = b;
  c.space = a.space;
  c.reduced = a.reduced;
  if (b.space.empty()) {
    for (size_t i = 0; i < c.operands.size(); ++i) c.operands[i].strides = a.operands[i].strides;
    for (size_t i = 0; i < c.body.size(); ++i) c.body[i].index_strides = a.body[i].index_strides;
  }
  return a == c;
}

}  // namespace athanor
