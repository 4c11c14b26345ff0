#include "athanor/compile/emit.h"

#include <algorithm>
#include <map>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/graph/op.h"
#include "athanor/graph/whole_number.h"

namespace athanor {
namespace {

class Emitter {
 public:
  Emitter(const Graph& graph, const std::vector<View>& views, const Fusion& fusion, const LoopGroup& group)
      : graph_(graph), views_(views), fusion_(fusion), group_(group) {}

  EmittedLoop run() {
    find_block();
    set_space();
    auto& program = result_.program;
    for (int id : group_.body)
      if (stored(id)) store(id, value_of(id), program.stores);
    for (int id : group_.reductions) {
      if (!needed_reduction(id)) continue;
      const int source = value_of(node(id).inputs[0]);
      program.reductions.push_back({node(id).op->prim, source, computed_in(node(id).type.dtype)});
      result_.computed.push_back(id);
    }
    // Registers are numbered in this order: body, reductions, epilogue.
    const int first_reduction = static_cast<int>(program.body.size());
    int k = 0;
    epilogue_ = true;
    registers_.clear();
    for (int id : group_.reductions) {
      if (!needed_reduction(id)) continue;
      registers_[id] = first_reduction + k++;
      if (stored(id)) store(id, registers_[id], program.epilogue_stores);
    }
    for (int id : group_.epilogue)
      if (stored(id)) store(id, value_of(id), program.epilogue_stores);
    if (program.reductions.empty()) program.reduced.assign(program.space.size(), false);
    number_buffers();
    return std::move(result_);
  }

 private:
  const GraphNode& node(int id) const { return graph_[id]; }
  const View& view(int id) const { return views_[static_cast<size_t>(id)]; }
  bool stored(int id) const { return fusion_.stored[static_cast<size_t>(id)]; }

  // Whether a reduction is needed: it is stored, or a stored epilogue value reads it.
  bool needed_reduction(int id) const {
    if (stored(id)) return true;
    return std::any_of(group_.epilogue.begin(), group_.epilogue.end(),
                       [&](int e) { return stored(e) && reads(e, id); });
  }
  bool reads(int id, int base) const {
    for (int input : node(id).inputs) {
      const int b = view(input).base;
      if (b == base) return true;
      if (b >= 0 && std::find(group_.epilogue.begin(), group_.epilogue.end(), b) != group_.epilogue.end() &&
          reads(b, base))
        return true;
    }
    return false;
  }

  // The block size of the first blocked operand; the layout pass made all of them agree.
  void find_block() {
    if (group_.space.rank() != 4) return;
    const auto look = [&](int id) {
      if (block_ == 0 && view(id).kind == View::Kind::memory && node(id).type.shape == group_.space &&
          node(view(id).base).type.shape == group_.space)
        block_ = node(view(id).base).layout.together(group_.space[1]);
    };
    for (const auto* list : {&group_.body, &group_.reductions})
      for (int id : *list) {
        if (is_elementwise(node(id).op->prim)) look(id);
        for (int input : node(id).inputs) look(input);
      }
  }

  void set_space() {
    auto& program = result_.program;
    program.space = blocked(group_.space.to_ints(), true);
    Ints reduced(static_cast<size_t>(group_.space.rank()), 0);
    for (int64_t axis : group_.axes) reduced[static_cast<size_t>(axis)] = 1;
    if (block_ != 0) reduced.push_back(reduced[1]);
    for (int64_t r : reduced) program.reduced.push_back(r != 0);
  }

  // Turns extents or strides of [N, C, H, W] into extents or strides of [N, C/block, H, W, block].
  Ints blocked(Ints v, bool extents) const {
    if (block_ == 0) return v;
    const int64_t channel = v[1];
    v[1] = extents ? channel / block_ : channel * block_;
    v.push_back(extents ? block_ : channel);
    return v;
  }

  // Strides over the program's space for reading or writing `id` through its view.
  Ints strides_over_space(int id, const View& v) const {
    const Layout layout = v.kind == View::Kind::memory ? node(v.base).layout : Layout{};
    if (layout.block > 0) {
      if (layout.block != block_)
        throw Error(ErrorCode::internal, "two blocked layouts meet in one loop", to_string(node(id).where));
      const Shape& s = group_.space;
      return contiguous_strides(Shape{s[0], s[1] / block_, s[2], s[3], block_});
    }
    const Shape& shape = node(id).type.shape;
    if (shape == group_.space) return blocked(v.strides, false);
    // A reduced value has the axes of the space that are not reduced, except for axes of extent 1.
    Ints strides(static_cast<size_t>(group_.space.rank()), 0);
    int axis = 0;
    for (int d = 0; d < group_.space.rank(); ++d) {
      const bool is_reduced = std::find(group_.axes.begin(), group_.axes.end(), d) != group_.axes.end();
      if (is_reduced || group_.space[d] == 1) continue;
      while (shape[axis] == 1) ++axis;
      strides[static_cast<size_t>(d)] = v.strides[static_cast<size_t>(axis++)];
    }
    return blocked(std::move(strides), false);
  }

  std::vector<LoopStep>& steps() { return epilogue_ ? result_.program.epilogue : result_.program.body; }
  int first_register() const {
    const auto& p = result_.program;
    return epilogue_ ? static_cast<int>(p.body.size() + p.reductions.size()) : 0;
  }
  int push(LoopStep step) {
    steps().push_back(std::move(step));
    return first_register() + static_cast<int>(steps().size()) - 1;
  }

  // The register that holds an element of node `id`; emits the steps that compute it.
  int value_of(int id) {
    if (auto found = registers_.find(id); found != registers_.end()) return found->second;
    const View& v = view(id);
    if (v.kind == View::Kind::memory && v.base != id && epilogue_)
      if (auto found = registers_.find(v.base); found != registers_.end())
        return found->second;  // a reshape of a reduced value
    int reg = -1;
    if (v.kind == View::Kind::constant) {
      reg = push(constant_step(v.value, computed_in(node(id).type.dtype)));
    } else if (v.kind == View::Kind::index) {
      LoopStep step;
      step.kind = LoopStep::Kind::index;
      step.type = DType::i64;
      step.index_offset = v.offset;
      step.index_strides = strides_over_space(id, v);
      reg = push(std::move(step));
    } else if (computes_here(id)) {
      reg = emit_op(id);
    } else {
      reg = load(id);
    }
    return registers_[id] = reg;
  }

  bool computes_here(int id) const {
    if (!is_elementwise(node(id).op->prim)) return false;
    const auto& list = epilogue_ ? group_.epilogue : group_.body;
    if (std::find(list.begin(), list.end(), id) != list.end()) return true;
    // The epilogue cannot compute a value of the loop's body, which has another shape. Other values may be
    // recomputed.
    return fusion_.recomputed[static_cast<size_t>(id)] && !stored(id);
  }

  static LoopStep constant_step(double value, DType type) {
    LoopStep step;
    step.kind = LoopStep::Kind::constant;
    step.type = type;
    step.value = value;
    step.int_value = is_float(type)      ? 0
                     : type == DType::b8 ? static_cast<int64_t>(value != 0)
                                         : whole_number(value);
    return step;
  }

  int emit_op(int id) {
    LoopStep step;
    step.kind = LoopStep::Kind::primitive;
    step.prim = node(id).op->prim;
    step.type = computed_in(node(id).type.dtype);
    int* const slots[] = {&step.a, &step.b, &step.c};
    for (size_t i = 0; i < node(id).inputs.size(); ++i) *slots[i] = value_of(node(id).inputs[i]);
    result_.computed.push_back(id);
    const bool same = computed_in(node(node(id).inputs[0]).type.dtype) == step.type;
    if (step.prim == Prim::cast && same) return step.a;  // a copy, or a change of storage type only
    return push(std::move(step));
  }

  int load(int id) {
    LoopStep step;
    step.kind = LoopStep::Kind::load;
    step.type = computed_in(node(id).type.dtype);
    step.operand = operand(id, false);
    return push(std::move(step));
  }

  void store(int id, int reg, std::vector<LoopStore>& stores) { stores.push_back({reg, operand(id, true)}); }

  int operand(int id, bool write) {
    const View& v = view(id);
    LoopOperand o;
    o.dtype = node(id).type.dtype;
    o.offset = v.offset;
    o.strides = strides_over_space(id, v);
    o.buffer = v.base;  // the node's number until number_buffers()
    result_.program.operands.push_back(std::move(o));
    is_write_.push_back(write);
    return static_cast<int>(result_.program.operands.size()) - 1;
  }

  void number_buffers() {
    auto& program = result_.program;
    std::map<std::pair<int, bool>, int> numbers;
    for (const bool write : {false, true})
      for (size_t i = 0; i < program.operands.size(); ++i) {
        if (is_write_[i] != write) continue;
        const int id = program.operands[i].buffer;
        auto [it, fresh] = numbers.emplace(std::pair(id, write), static_cast<int>(numbers.size()));
        if (fresh) (write ? result_.writes : result_.reads).push_back(id);
      }
    for (size_t i = 0; i < program.operands.size(); ++i)
      program.operands[i].buffer = numbers.at({program.operands[i].buffer, is_write_[i]});
    program.buffers = static_cast<int>(numbers.size());
  }

  const Graph& graph_;
  const std::vector<View>& views_;
  const Fusion& fusion_;
  const LoopGroup& group_;
  EmittedLoop result_;
  int64_t block_ = 0;
  bool epilogue_ = false;
  std::map<int, int> registers_;
  std::vector<bool> is_write_;
};

}  // namespace

EmittedLoop emit_loop(const Graph& graph, const std::vector<View>& views, const Fusion& fusion,
                      const LoopGroup& group) {
  return Emitter(graph, views, fusion, group).run();
}

}  // namespace athanor
