// Tensor: a lazy, typed handle on a graph node.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/graph/host_array.h"
#include "athanor/graph/node.h"

namespace athanor {

/// A value of known shape, dtype and device, computed when it is needed.
///
/// Copying a Tensor copies the handle. Operations on tensors (athanor/ops/) return new tensors and never
/// change one in place. A default-constructed Tensor is undefined, and so is grad() before backward():
/// `defined()` is false, and any other use throws Error(value) with the caller's line.
class Tensor {
 public:
  /// The line of a call. Callers leave this argument out.
  using Line = std::source_location;

  Tensor() = default;
  explicit Tensor(NodePtr node) : node_(std::move(node)) {
    if (node_) node_->add(NodeCounts::handle);
  }
  Tensor(const Tensor& other) {
    if (!other.node_) return;
    other.node_->add(NodeCounts::reference + NodeCounts::handle);
    node_ = NodePtr::adopt(other.node_.get());
  }
  Tensor(Tensor&& other) noexcept = default;
  Tensor& operator=(Tensor other) noexcept {
    std::swap(node_, other.node_);
    return *this;
  }
  ~Tensor() {
    if (node_) release();
  }

  /// A tensor holding a copy of the array, on `device`.
  static Tensor from(const HostArray& array, Device device = {});
  /// A tensor of the given values; there must be shape.size() of them.
  template <class T>
  static Tensor from(const std::vector<T>& values, const Shape& shape, Device device = {}) {
    check_count(values.size(), shape);
    return from(HostArray::of<T>(shape, std::span<const T>(values)), device);
  }
  /// A scalar that is an input of plans, so a new value does not need a new plan (a learning rate, a random
  /// key).
  static Tensor scalar(double value, DType dtype = DType::f32, Device device = {});
  static Tensor scalar(int64_t value, DType dtype, Device device = {});

  /// An input of plans without memory or elements. Values that depend on it can be planned (plan_for) but not
  /// evaluated.
  static Tensor placeholder(const TensorType& type);

  bool defined() const { return node_ != nullptr; }
  const Shape& shape(Line line = Line::current()) const { return known("shape", line).type.shape; }
  /// The extent of an axis; negative axes count from the end. Throws Error(shape) when out of range.
  int64_t size(int axis, Line line = Line::current()) const {
    const Shape& extents = known("size", line).type.shape;
    return extents[normalize_axis(axis, extents.rank())];
  }
  int64_t size(Line line = Line::current()) const { return known("size", line).type.shape.size(); }
  int rank(Line line = Line::current()) const { return known("rank", line).type.shape.rank(); }
  DType dtype(Line line = Line::current()) const { return known("dtype", line).type.dtype; }
  Device device(Line line = Line::current()) const { return known("device", line).type.device; }
  const TensorType& type(Line line = Line::current()) const { return known("type", line).type; }

  /// Whether reading the value would neither compute nor wait. False too if the device has failed, which
  /// reading it reports: do not wait for it in a loop.
  bool ready(Line line = Line::current()) const;
  /// Computes the value now, together with everything pending. Devices other than the host may still be
  /// computing when this returns; reading the value waits for them.
  const Tensor& eval(Line line = Line::current()) const;
  /// The integers of a value, if the host can read them without waiting for a device.
  std::optional<std::vector<int64_t>> known_integers() const;
  /// The only element. Throws Error(shape) when there is not exactly one.
  double item(Line line = Line::current()) const;
  /// The elements, row-major, on the host.
  HostArray to_host(Line line = Line::current()) const;
  template <class T>
  std::vector<T> to_vector(Line line = Line::current()) const {
    const HostArray host = to_host(line);
    check_dtype(dtype_of<T>);
    const auto values = host.as<T>();
    return {values.begin(), values.end()};
  }

  /// Makes this value a leaf that collects gradients. Throws Error(dtype) unless it is a float.
  Tensor& requires_grad(bool on = true, Line line = Line::current());
  bool needs_grad(Line line = Line::current()) const { return known("needs_grad", line).requires_grad; }
  /// Adds the gradients of this scalar to every leaf that it depends on. This consumes the graph: inner
  /// values are not kept for another backward().
  void backward(Line line = Line::current()) const;
  /// The accumulated gradient of a leaf; undefined before backward().
  Tensor grad(Line line = Line::current()) const;
  void set_grad(Tensor value, Line line = Line::current()) const;
  /// The same value without its history.
  Tensor detach(Line line = Line::current()) const;
  /// The same value in another device's memory, copied when it is computed; this tensor if it is there
  /// already. Gradients go back to the value's own device.
  Tensor to(Device device, Line line = Line::current()) const;

  /// Null when undefined.
  const NodePtr& node() const { return node_; }

 private:
  // The node; throws Error(value), naming `method`, if the tensor is undefined.
  Node& known(const char* method, const Line& line) const {
    if (!node_) refuse_undefined(method, line);
    return *node_;
  }
  [[noreturn]] static void refuse_undefined(const char* method, const Line& line);
  static void check_count(size_t values, const Shape& shape);
  void check_dtype(DType wanted) const;
  void release();
  NodePtr node_;
};

struct GradSlot {
  Tensor grad;
};

/// An argument of an operation: a tensor or a number, with the caller's line, which errors and `explain`
/// show. A number takes the dtype of the other operand (f32 if that is an integer and the number has a
/// fraction).
class Operand {
 public:
  // Implicit on purpose: this is how `relu(x)` and `2 * x` know their line.
  Operand(const Tensor& tensor, std::source_location where = std::source_location::current())
      : tensor_(tensor), where_(where) {}
  Operand(Tensor&& tensor, std::source_location where = std::source_location::current())
      : tensor_(std::move(tensor)), where_(where) {}
  Operand(double number, std::source_location where = std::source_location::current())
      : number_(number), is_number_(true), where_(where) {}
  Operand(int number, std::source_location where = std::source_location::current())
      : number_(number), is_number_(true), integral_(true), where_(where) {}
  Operand(int64_t number, std::source_location where = std::source_location::current())
      : number_(static_cast<double>(number)), is_number_(true), integral_(true), where_(where) {}

  bool is_number() const { return is_number_; }
  /// False for an undefined tensor.
  bool defined() const { return is_number_ || tensor_.defined(); }
  const Tensor& tensor() const { return tensor_; }
  double number() const { return number_; }
  bool integral() const { return integral_; }
  const std::source_location& where() const { return where_; }
  const Tensor* operator->() const { return &tensor_; }
  operator const Tensor&() const { return tensor_; }

 private:
  Tensor tensor_;
  double number_ = 0;
  bool is_number_ = false, integral_ = false;
  std::source_location where_;
};

/// "f32[2, 3]", a number, or "undefined".
std::string to_string(const Operand& operand);

/// Throws Error(value) "NAME(TYPES): its input 2 of 3 is undefined" with the caller's line if an operand is
/// undefined.
void check_defined(std::string_view name, std::span<const Operand* const> operands);

/// While a SourceScope exists, nodes made on this thread carry its line. A library function that builds many
/// nodes opens one with the user's line. The outermost scope wins.
class SourceScope {
 public:
  explicit SourceScope(const std::source_location& where);
  ~SourceScope();
  SourceScope(const SourceScope&) = delete;
  SourceScope& operator=(const SourceScope&) = delete;
  /// The line of the outermost scope on this thread, or null.
  static const std::source_location* current();

 private:
  bool outermost_;
};

/// While a PartScope exists, nodes made on this thread belong to its part of a model. The innermost scope
/// wins.
class PartScope {
 public:
  explicit PartScope(PartName part);
  ~PartScope();
  PartScope(const PartScope&) = delete;
  PartScope& operator=(const PartScope&) = delete;
  /// The part of the innermost scope on this thread, or null.
  static const PartName& current();

 private:
  PartName before_;
};

/// While a GradMode exists, it decides whether history for gradients is recorded on this thread.
class GradMode {
 public:
  explicit GradMode(bool record);
  ~GradMode();
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;

 private:
  bool before_;
};
struct NoGrad : GradMode {
  NoGrad() : GradMode(false) {}
};
struct WithGrad : GradMode {
  WithGrad() : GradMode(true) {}
};
bool grad_enabled();

/// The gradients of `outputs` with respect to `inputs`, as graph values that can be differentiated again.
/// `seeds` are the weights of the outputs, with the same types; {} means ones. If no output depends on an
/// input, its gradient is zeros.
std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const std::vector<Tensor>& seeds = {});

/// Computes these values, and everything pending with them, as one plan.
void eval(const std::vector<Tensor>& values);

/// Computes the given nodes. The runtime provides it, once, when the program starts.
using Evaluator = void (*)(const std::vector<NodePtr>& nodes);
void set_evaluator(Evaluator evaluator);

/// Nodes made on this thread that a Tensor still refers to and that have no value yet, oldest first.
std::vector<NodePtr> pending_nodes();

}  // namespace athanor
