#include "athanor/compile/split_loop.h"

#include <algorithm>
#include <map>
#include <set>

namespace athanor {
namespace {

/// Copies from a loop what some stores need.
class PartMaker {
 public:
  explicit PartMaker(const LoopProgram& whole) : whole_(whole) {
    part_.program.space = whole.space;
    part_.program.reduced = whole.reduced;
  }

  LoopPart run(const std::vector<const LoopStore*>& stores) {
    std::vector<int> sources;
    for (const LoopStore* store : stores) sources.push_back(needed(store->source));
    for (size_t i = 0; i < stores.size(); ++i)
      part_.program.stores.push_back({sources[i], operand(stores[i]->operand)});
    part_.program.buffers = static_cast<int>(part_.buffers.size());
    return std::move(part_);
  }

 private:
  int needed(int r) {
    if (const auto found = registers_.find(r); found != registers_.end()) return found->second;
    LoopStep step = whole_.body[static_cast<size_t>(r)];
    for (int* source : {&step.a, &step.b, &step.c})
      if (*source >= 0) *source = needed(*source);
    if (step.kind == LoopStep::Kind::load) step.operand = operand(step.operand);
    part_.program.body.push_back(std::move(step));
    return registers_[r] = static_cast<int>(part_.program.body.size()) - 1;
  }

  int operand(int number) {
    LoopOperand o = whole_.operands[static_cast<size_t>(number)];
    auto& buffers = part_.buffers;
    const auto found = std::find(buffers.begin(), buffers.end(), o.buffer);
    const auto place = static_cast<int>(found - buffers.begin());
    if (found == buffers.end()) buffers.push_back(o.buffer);
    o.buffer = place;
    part_.program.operands.push_back(std::move(o));
    return static_cast<int>(part_.program.operands.size()) - 1;
  }

  const LoopProgram& whole_;
  LoopPart part_;
  std::map<int, int> registers_;
};

// The buffers of which a store needs other elements at other indices.
std::set<int> own_buffers(const LoopProgram& program, const LoopStore& store) {
  std::set<int> buffers;
  const auto add = [&](int operand) {
    const LoopOperand& o = program.operands[static_cast<size_t>(operand)];
    if (std::ranges::any_of(o.strides, [](int64_t stride) { return stride != 0; })) buffers.insert(o.buffer);
  };
  add(store.operand);
  std::set<int> seen;
  std::vector<int> open{store.source};
  while (!open.empty()) {
    const int r = open.back();
    open.pop_back();
    if (!seen.insert(r).second) continue;
    const LoopStep& step = program.body[static_cast<size_t>(r)];
    if (step.kind == LoopStep::Kind::load) add(step.operand);
    for (int source : {step.a, step.b, step.c})
      if (source >= 0) open.push_back(source);
  }
  return buffers;
}

}  // namespace

LoopPart whole_loop(const LoopProgram& program) {
  std::vector<const LoopStore*> stores;
  for (const LoopStore& store : program.stores) stores.push_back(&store);
  return PartMaker(program).run(stores);
}

std::vector<LoopPart> independent_parts(const LoopProgram& program) {
  if (program.space.empty()) return {whole_loop(program)};
  struct Bundle {
    std::set<int> buffers;
    std::vector<const LoopStore*> stores;
  };
  std::vector<Bundle> bundles;
  for (const LoopStore& store : program.stores) {
    Bundle bundle{own_buffers(program, store), {}};
    // Whatever shares a buffer with the store comes along, in the order of the stores.
    std::vector<Bundle> others;
    for (Bundle& other : bundles) {
      const bool shares =
          std::ranges::any_of(other.buffers, [&](int b) { return bundle.buffers.contains(b); });
      if (!shares) {
        others.push_back(std::move(other));
        continue;
      }
      bundle.buffers.merge(other.buffers);
      bundle.stores.insert(bundle.stores.end(), other.stores.begin(), other.stores.end());
    }
    std::ranges::sort(bundle.stores);  // they lie in one array
    bundle.stores.push_back(&store);
    bundles = std::move(others);
    bundles.push_back(std::move(bundle));
  }
  std::vector<LoopPart> parts;
  for (const Bundle& bundle : bundles) parts.push_back(PartMaker(program).run(bundle.stores));
  return parts;
}

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
