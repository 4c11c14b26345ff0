#include "athanor/kernels/joined_walk.h"

#include <algorithm>
#include <map>

#include "athanor/kernels/common_space.h"
#include "athanor/kernels/memory_order.h"

namespace athanor {
namespace {

/// The same loop with its dimensions in the order in which an operand's elements lie, longest strides first.
LoopProgram in_order_of(LoopProgram program, size_t operand) {
  const Ints order = memory_order(program.operands[operand].strides);
  const auto turn = [&](auto& values) {
    if (values.size() != order.size()) return;
    auto turned = values;
    for (size_t d = 0; d < order.size(); ++d) turned[d] = values[static_cast<size_t>(order[d])];
    values = std::move(turned);
  };
  turn(program.space);
  turn(program.reduced);
  for (LoopOperand& one : program.operands) turn(one.strides);
  for (auto* steps : {&program.body, &program.epilogue})
    for (LoopStep& step : *steps) turn(step.index_strides);
  return program;
}

/// The second loop, with its dimensions in the order in which a result of the first one that it reads lies.
LoopProgram in_order_of_first(const LoopProgram& first, LoopProgram second) {
  const bool ordered = std::ranges::any_of(second.reductions, [](const LoopReduction& r) {
    return r.prim == Prim::argmax;  // the first of equals
  });
  for (size_t i = 0; i < second.operands.size() && !ordered; ++i)
    for (const LoopStore& store : first.stores)
      if (first.operands[static_cast<size_t>(store.operand)].buffer == second.operands[i].buffer)
        return in_order_of(std::move(second), i);
  return second;
}

class Joiner {
 public:
  Joiner(LoopProgram first, LoopProgram second) : all_(std::move(first)), second_(std::move(second)) {}

  std::optional<LoopProgram> run() {
    if (!second_.reductions.empty()) {
      if (!all_.reductions.empty() && all_.reduced != second_.reduced) return std::nullopt;
      all_.reduced = second_.reduced;
    }
    const auto body = static_cast<int>(all_.body.size()),
               reductions = static_cast<int>(all_.reductions.size());
    find_stored();
    for (size_t i = 0; i < second_.body.size(); ++i)
      if (!add(all_.body, second_.body[i], static_cast<int>(i), 0)) return std::nullopt;
    for (const LoopStore& store : second_.stores)
      all_.stores.push_back({numbers_.at(store.source), operand(store.operand)});
    // The first's reductions and the steps after them follow the new steps, so their numbers grow.
    const int more = static_cast<int>(all_.body.size()) - body;
    const auto moved = [&](int& r, int by_reductions) {
      if (r >= body + reductions)
        r += more + by_reductions;
      else if (r >= body)
        r += more;
    };
    const auto added = static_cast<int>(second_.reductions.size());
    for (LoopStep& step : all_.epilogue)
      for (int* r : {&step.a, &step.b, &step.c}) moved(*r, added);
    for (LoopStore& store : all_.epilogue_stores) moved(store.source, added);
    auto number = static_cast<int>(second_.body.size());
    for (const LoopReduction& r : second_.reductions) {
      numbers_[number++] = static_cast<int>(all_.body.size() + all_.reductions.size());
      all_.reductions.push_back({r.prim, numbers_.at(r.source), r.type});
    }
    const auto before = static_cast<int>(all_.body.size() + all_.reductions.size());
    for (const LoopStep& step : second_.epilogue)
      if (!add(all_.epilogue, step, number++, before)) return std::nullopt;
    for (const LoopStore& store : second_.epilogue_stores)
      all_.epilogue_stores.push_back({numbers_.at(store.source), operand(store.operand)});
    if (all_.reductions.empty()) all_.reduced.assign(all_.space.size(), false);
    return std::move(all_);
  }

 private:
  void find_stored() {
    for (const LoopStore& store : all_.stores) {
      const LoopOperand& to = all_.operands[static_cast<size_t>(store.operand)];
      stored_[to.buffer] = store;
    }
    for (const LoopStore& store : all_.epilogue_stores)
      reduced_results_.push_back(all_.operands[static_cast<size_t>(store.operand)].buffer);
  }

  int operand(int number) {
    all_.operands.push_back(second_.operands[static_cast<size_t>(number)]);
    return static_cast<int>(all_.operands.size()) - 1;
  }

  bool same_operand(int a, int b) const {
    return a < 0 || b < 0 ? a == b
                          : all_.operands[static_cast<size_t>(a)] == all_.operands[static_cast<size_t>(b)];
  }

  /// Adds a step of the second, unless a register already has its value.
  bool add(std::vector<LoopStep>& to, LoopStep step, int number, int before) {
    if (step.kind == LoopStep::Kind::load) {
      const LoopOperand from = second_.operands[static_cast<size_t>(step.operand)];
      if (std::ranges::count(reduced_results_, from.buffer) > 0) return false;
      if (const auto found = stored_.find(from.buffer); found != stored_.end()) {
        const LoopOperand& place = all_.operands[static_cast<size_t>(found->second.operand)];
        if (before > 0 || place != from) return false;
        numbers_[number] = found->second.source;
        return true;
      }
      step.operand = operand(step.operand);
    }
    for (int* r : {&step.a, &step.b, &step.c}) {
      if (*r < 0) continue;
      // A loop without reductions has no epilogue; an epilogue that reads the body does so at index 0.
      if (before > 0 && *r < static_cast<int>(second_.body.size())) return false;
      *r = numbers_.at(*r);
    }
    for (size_t i = 0; i < to.size(); ++i) {
      LoopStep same = to[i];
      if (!same_operand(same.operand, step.operand)) continue;
      same.operand = step.operand;
      if (same != step) continue;
      if (step.kind == LoopStep::Kind::load) all_.operands.pop_back();
      numbers_[number] = before + static_cast<int>(i);
      return true;
    }
    to.push_back(std::move(step));
    numbers_[number] = before + static_cast<int>(to.size()) - 1;
    return true;
  }

  LoopProgram all_, second_;
  std::map<int, LoopStore> stored_;   // by buffer
  std::vector<int> reduced_results_;  // buffers
  std::map<int, int> numbers_;        // of the second's registers
};

}  // namespace

std::optional<LoopProgram> joined_walk(const LoopProgram& first, const LoopProgram& second,
                                       const std::vector<int>& numbers, int buffers) {
  LoopProgram renamed = second;
  for (LoopOperand& operand : renamed.operands) operand.buffer = numbers[static_cast<size_t>(operand.buffer)];
  renamed = in_order_of_first(first, std::move(renamed));
  const auto space = common_space(first.space, renamed.space);
  if (!space || first.iterations() == 0) return std::nullopt;
  auto joined = Joiner(over(first, *space), over(std::move(renamed), *space)).run();
  if (joined) joined->buffers = buffers;
  return joined;
}

}  // namespace athanor
