// Parameters and buffers: the values of a model that last longer than a step.
#pragma once
#include <memory>
#include <string>

#include "athanor/graph/tensor.h"

namespace athanor::nn {

/// The present value of a variable, to restore it later. It does not prevent updates of that memory in place,
/// so it is valid only until such an update.
class ValueMark {
 public:
  explicit ValueMark(const Tensor& value) : node_(value.node()) {}
  /// Undefined when the value is gone.
  Tensor value() const { return Tensor(node_.lock()); }

 private:
  WeakNodePtr node_;
};

/// A named place for a tensor. Tensors never change, but the place can hold another tensor later.
///
/// Copies are handles on the same place. Use a Variable wherever a tensor is expected. Its value is lazy like
/// all tensors: an initial value costs nothing if load_state_dict() replaces it before it is used.
class Variable {
 public:
  /// Undefined for a handle that was not assigned yet.
  const Tensor& value() const { return cell_ ? cell_->value : nothing(); }
  // Implicit on purpose: `linear(x, weight, bias)` reads as in the papers.
  operator const Tensor&() const { return value(); }
  operator Operand() const { return Operand(value()); }

  const Shape& shape() const { return value().shape(); }
  DType dtype() const { return value().dtype(); }
  int64_t size() const { return value().size(); }
  /// The path from the root of the model: "layer1.0.conv1.weight". Set when modules are put together.
  const std::string& name() const { return cell_->name; }
  bool defined() const { return cell_ != nullptr; }
  /// Whether both are the same place.
  bool operator==(const Variable& other) const { return cell_ == other.cell_; }

  /// Replaces the present value by `value`, without its history. Steps built from now on use the new value;
  /// steps built before keep the old one. Do not keep `value` elsewhere: memory that only the place refers to
  /// can be updated in place. Throws Error(shape|dtype|device) if the type differs.
  void assign(Tensor value) const;
  /// Restores the value from before a step that was built but given up before it ran.
  void go_back(const Tensor& before) const { cell_->value = before; }

 protected:
  struct Cell {
    Tensor value;
    std::string name;
    std::shared_ptr<GradSlot> slot;  // only for parameters
  };
  Variable() = default;
  explicit Variable(std::shared_ptr<Cell> cell) : cell_(std::move(cell)) {}
  void adopt(Tensor value) const;
  static const Tensor& nothing();

  std::shared_ptr<Cell> cell_;

 private:
  friend class Module;
  void set_name(std::string name) const { cell_->name = std::move(name); }
  void move_to(Device device) const;
};

/// A variable that is trained: a leaf that collects gradients, whatever its value is.
class Parameter : public Variable {
 public:
  /// Empty until a handle is assigned: `Parameter bias;`
  Parameter() = default;
  /// Throws Error(dtype) unless the value is a float.
  explicit Parameter(Tensor initial);

  /// The collected gradient; undefined before backward() and after an optimizer's step().
  const Tensor& grad() const { return cell_->slot->grad; }
  void set_grad(Tensor gradient) const { cell_->slot->grad = std::move(gradient); }
  /// Returns the gradient and clears it here.
  Tensor take_grad() const { return std::exchange(cell_->slot->grad, Tensor()); }
};

/// A variable that is saved with the model and not trained: running statistics, tables.
class Buffer : public Variable {
 public:
  Buffer() = default;
  explicit Buffer(Tensor initial);
};

}  // namespace athanor::nn
