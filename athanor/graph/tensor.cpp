#include "athanor/graph/tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/graph/op.h"

namespace athanor {
namespace {

constexpr size_t most_kept = size_t{1} << 20;  // the most bytes of a tensor's integers that the host keeps

thread_local bool recording = true;
thread_local const std::source_location* scope = nullptr;
thread_local std::source_location scope_location;
thread_local PartName part;
thread_local std::vector<WeakNodePtr> pending;
std::atomic<uint64_t> next_id{1};
Evaluator evaluator = nullptr;

/// The memory of a placeholder: none is allocated.
class NoElements final : public Storage {
 public:
  explicit NoElements(const TensorType& type) : Storage(type.device, type.bytes(), nullptr) {}
  void read(void*, size_t, size_t) const override { refuse(); }
  void write(const void*, size_t, size_t) override { refuse(); }

 private:
  [[noreturn]] static void refuse() {
    throw Error(ErrorCode::value, "a placeholder has no elements", {},
                "It stands for an input of a plan: give a tensor of numbers to compute with");
  }
};

NodePtr make_leaf(const TensorType& type, std::shared_ptr<Storage> value) {
  static const Op& input = find_op("input");
  NodePtr node = NodePtr::make();
  node->op = &input;
  node->type = type;
  node->value = std::move(value);
  node->id = next_id++;
  return node;
}

// A number as a constant of this dtype, or of f32 if that is an integer and the number has a fraction.
NodePtr number(const Operand& operand, DType dtype, Device device) {
  static const Op& constant = find_op("constant");
  if (!operand.integral() && !is_float(dtype)) dtype = DType::f32;
  NodePtr node = NodePtr::make();
  node->op = &constant;
  node->attrs = {{"value", operand.number()}, {"dtype", dtype}};
  node->type = {dtype, {}, device};
  node->id = next_id++;
  return node;
}

// The types of an op's operands. Few of them take no memory of the heap.
class TypesOf {
 public:
  explicit TypesOf(size_t count) {
    if (count > few_.size()) many_.reserve(count);
  }
  void add(const TensorType& type) {
    if (many_.capacity() > 0) return many_.push_back(type);
    few_[count_++] = type;
  }
  operator std::span<const TensorType>() const {
    return many_.empty() ? std::span(few_).first(count_) : std::span(many_);
  }

 private:
  std::array<TensorType, 3> few_;
  size_t count_ = 0;
  std::vector<TensorType> many_;
};

TensorType infer(const Op& op, std::span<const TensorType> types, const Attrs& attrs) {
  if (op.arity >= 0 && static_cast<int>(types.size()) != op.arity)
    throw Error(ErrorCode::usage,
                fmt::format("{} takes {} tensors, {} were given", op.name, op.arity, types.size()));
  if (op.arity < 0 && types.empty()) throw Error(ErrorCode::usage, op.name + " takes at least one tensor");
  for (const auto& type : types)
    if (type.device != types.front().device)
      throw Error(ErrorCode::device,
                  fmt::format("tensors on {} and {} together", to_string(types.front().device),
                              to_string(type.device)),
                  {}, "Move one of them: x.to(device)");
  return op.infer(types, attrs);
}

constexpr const char* undefined_hint =
    "A Tensor that was given no value is undefined, and so is grad() before backward()";

std::string describe(std::span<const TensorType> types) {
  std::vector<std::string> texts;
  for (const auto& type : types) texts.push_back(to_string(type));
  return fmt::format("({})", fmt::join(texts, ", "));
}

}  // namespace

void Tensor::release() {
  Node* const node = std::exchange(node_.node_, nullptr);
  if (!node->slot) return NodePtr::drop(node, NodeCounts::reference + NodeCounts::handle);
  // A leaf's gradient may refer back to it, and must not keep it alive without handles.
  const NodePtr leaf = NodePtr::adopt(node);
  const bool was_last = node->remove(NodeCounts::handle) >> 32 == 1;
  if (was_last && node->slot.use_count() == 1) Tensor(std::move(node->slot->grad));
}

Tensor Tensor::from(const HostArray& array, Device device) {
  auto storage = allocate(device, array.bytes.size());
  storage->write(array.bytes.data(), 0, array.bytes.size());
  NodePtr leaf = make_leaf({array.dtype, array.shape, device}, std::move(storage));
  if (device != Device{} && is_int(array.dtype) && array.bytes.size() <= most_kept)
    leaf->known = std::make_shared<const HostArray>(array);
  return Tensor(std::move(leaf));
}

Tensor Tensor::placeholder(const TensorType& type) {
  return Tensor(make_leaf(type, std::make_shared<NoElements>(type)));
}

Tensor Tensor::scalar(double value, DType dtype, Device device) {
  return from(from_doubles(dtype, {}, std::span(&value, 1)), device);
}

Tensor Tensor::scalar(int64_t value, DType dtype, Device device) {
  if (dtype == DType::i64)
    return from(HostArray::of<int64_t>({}, std::span<const int64_t>(&value, 1)), device);
  return scalar(static_cast<double>(value), dtype, device);
}

void Tensor::refuse_undefined(const char* method, const Line& line) {
  throw Error(ErrorCode::value, std::string(method) + "() of an undefined tensor",
              to_string(scope ? *scope : line), undefined_hint);
}

bool Tensor::ready(Line line) const {
  const std::shared_ptr<Storage>& value = known("ready", line).value;
  return value != nullptr && (value->ready() == nullptr || value->ready()->passed());
}

const Tensor& Tensor::eval(Line line) const {
  if (!known("eval", line).value) athanor::eval({*this});
  return *this;
}

double Tensor::item(Line line) const {
  if (known("item", line).type.shape.size() != 1)
    throw Error(ErrorCode::shape,
                fmt::format("item() of a tensor {} with {} elements", to_string(type()), size()), {},
                "It needs exactly one: reduce it first, or use to_vector()");
  return to_doubles(to_host())[0];
}

HostArray Tensor::to_host(Line line) const {
  known("to_host", line);
  eval();
  HostArray array(dtype(), shape());
  node_->value->read(array.bytes.data(), 0, array.bytes.size());
  return array;
}

std::optional<std::vector<int64_t>> Tensor::known_integers() const {
  if (!is_int(dtype()) || (!node_->known && (!node_->value || device() != Device{}))) return std::nullopt;
  HostArray host;
  if (!node_->known) {
    if (node_->value->address() == nullptr) return std::nullopt;  // a placeholder
    host = HostArray(dtype(), shape());
    node_->value->read(host.bytes.data(), 0, host.bytes.size());
  }
  const HostArray& array = node_->known ? *node_->known : host;
  std::vector<int64_t> integers;
  integers.reserve(static_cast<size_t>(array.size()));
  visit_dtype(array.dtype, [&](auto tag) {
    using T = decltype(tag);
    if constexpr (std::is_integral_v<T>)
      for (const T value : array.as<T>()) integers.push_back(static_cast<int64_t>(value));
  });
  return integers;
}

Tensor& Tensor::requires_grad(bool on, Line line) {
  known("requires_grad", line);
  if (on && !is_float(dtype()))
    throw Error(ErrorCode::dtype, fmt::format("a tensor of {} cannot have a gradient", to_string(dtype())),
                {}, "Only floats can");
  // Changes the node, so every handle on this value is a leaf from now on.
  node_->requires_grad = on;
  if (on && !node_->slot) node_->slot = std::make_shared<GradSlot>();
  if (!on) node_->slot = nullptr;
  return *this;
}

Tensor Tensor::grad(Line line) const {
  const Node& node = known("grad", line);
  return node.slot ? node.slot->grad : Tensor();
}

void Tensor::set_grad(Tensor value, Line line) const {
  if (!known("set_grad", line).slot)
    throw Error(ErrorCode::value, "set_grad on a tensor that gathers no gradient", {},
                "Call requires_grad() first");
  node_->slot->grad = std::move(value);
}

Tensor Tensor::detach(Line line) const {
  if (!known("detach", line).requires_grad) return *this;
  static const Op& identity = find_op("detach");
  return apply(identity, {*this});
}

Tensor Tensor::to(Device device, Line line) const {
  if (known("to", line).type.device == device) return *this;
  static const Op& to_device = find_op("to");
  const SourceScope scope_of_call(line);
  Tensor moved = apply(to_device, {*this}, {{"device", device}});
  moved.node_->known = node_->known;
  return moved;
}

void Tensor::check_count(size_t values, const Shape& shape) {
  if (static_cast<int64_t>(values) != shape.size())
    throw Error(ErrorCode::shape, fmt::format("{} values were given for shape {}", values, to_string(shape)),
                {}, fmt::format("It needs {}", shape.size()));
}

void Tensor::check_dtype(DType wanted) const {
  if (wanted != dtype())
    throw Error(ErrorCode::dtype,
                fmt::format("a tensor of {} was read as {}", to_string(dtype()), to_string(wanted)), {},
                fmt::format("Cast it first: cast(x, DType::{})", to_string(wanted)));
}

std::string to_string(const Operand& operand) {
  if (operand.is_number()) return fmt::format("{}", operand.number());
  return operand.defined() ? to_string(operand.tensor().type()) : "undefined";
}

void check_defined(std::string_view name, std::span<const Operand* const> operands) {
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i]->defined()) continue;
    std::vector<std::string> types;
    for (const Operand* operand : operands) types.push_back(to_string(*operand));
    throw Error(ErrorCode::value,
                fmt::format("{}({}): its input{} is undefined", name, fmt::join(types, ", "),
                            operands.size() == 1 ? "" : fmt::format(" {} of {}", i + 1, operands.size())),
                to_string(scope ? *scope : operands[i]->where()), undefined_hint);
  }
}

SourceScope::SourceScope(const std::source_location& where) : outermost_(scope == nullptr) {
  if (outermost_) {
    scope_location = where;
    scope = &scope_location;
  }
}

SourceScope::~SourceScope() {
  if (outermost_) scope = nullptr;
}

const std::source_location* SourceScope::current() { return scope; }

PartScope::PartScope(PartName name) : before_(std::exchange(part, std::move(name))) {}
PartScope::~PartScope() { part = std::move(before_); }
const PartName& PartScope::current() { return part; }

GradMode::GradMode(bool record) : before_(recording) { recording = record; }
GradMode::~GradMode() { recording = before_; }
bool grad_enabled() { return recording; }

Tensor apply(const Op& op, std::span<const Operand> inputs, Attrs attrs) {
  const std::source_location where = scope            ? *scope
                                     : inputs.empty() ? std::source_location::current()
                                                      : inputs.front().where();
  if (!std::ranges::all_of(inputs, &Operand::defined)) {
    std::vector<const Operand*> operands;
    for (const Operand& input : inputs) operands.push_back(&input);
    check_defined(op.name, operands);
  }
  const auto first = std::ranges::find_if_not(inputs, &Operand::is_number);
  const DType dtype = first == inputs.end() ? DType::f32 : first->tensor().dtype();
  const Device device = first == inputs.end() ? Device{} : first->tensor().device();
  NodePtr node = NodePtr::make();
  node->inputs.reserve(inputs.size());
  TypesOf types(inputs.size());
  for (const Operand& input : inputs) {
    node->inputs.push_back(input.is_number() ? number(input, dtype, device) : input.tensor().node());
    types.add(node->inputs.back()->type);
  }
  try {
    node->type = infer(op, types, attrs);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}{}: {}", op.name, describe(types), error.problem()),
                error.where().empty() ? to_string(where) : error.where(), error.hint());
  }
  if (attrs.has("device"))
    node->type.device = attrs.device("device");
  else if (!inputs.empty())
    node->type.device = node->inputs.front()->type.device;
  node->op = &op;
  node->attrs = std::move(attrs);
  node->where = where;
  node->part = part;
  node->precision = Autocast::current();
  node->segment = SegmentScope::current();
  node->id = next_id++;
  for (const NodePtr& input : node->inputs) node->requires_grad |= input->requires_grad;
  node->requires_grad = node->requires_grad && recording && op.differentiable && is_float(node->type.dtype);
  pending.emplace_back(node);
  return Tensor(std::move(node));
}

Tensor call(const std::string& op, const std::vector<Operand>& inputs, Attrs attrs) {
  return apply(find_op(op), inputs, std::move(attrs));
}

std::vector<NodePtr> pending_nodes() {
  std::vector<NodePtr> live;
  std::vector<WeakNodePtr> still;
  for (auto& weak : pending) {
    NodePtr node = weak.lock();
    if (!node || node->value || node->lost) continue;
    still.push_back(std::move(weak));
    if (node->handles() > 0) live.push_back(std::move(node));
  }
  pending = std::move(still);
  return live;
}

void set_evaluator(Evaluator e) { evaluator = e; }

void eval(const std::vector<Tensor>& values) {
  std::vector<NodePtr> nodes;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i].defined())
      throw Error(ErrorCode::value,
                  fmt::format("eval() of {} tensors: number {} is undefined", values.size(), i + 1),
                  scope ? to_string(*scope) : std::string(), undefined_hint);
    nodes.push_back(values[i].node());
  }
  evaluator(nodes);
}

}  // namespace athanor
