// Parameters and buffers: the values of a model that outlive a step.
#pragma once
#include <memory>
#include <string>

#include "athanor/graph/tensor.h"

namespace athanor::nn {

/// A named place that holds a tensor, and another one later: tensors never change, places do.
///
/// Copies are handles on the same place. Use one wherever a tensor is expected. Values are lazy like all
/// tensors: an initial value costs nothing when load_state_dict() replaces it before it was asked for.
class Variable {
 public:
  const Tensor& value() const { return cell_->value; }
  // Implicit on purpose: `linear(x, weight, bias)` reads as in the papers.
  operator const Tensor&() const { return cell_->value; }
  operator Operand() const { return Operand(cell_->value); }

  const Shape& shape() const { return value().shape(); }
  DType dtype() const { return value().dtype(); }
  int64_t size() const { return value().size(); }
  /// The path from the root of the model: "layer1.0.conv1.weight". Set as modules are put together.
  const std::string& name() const { return cell_->name; }
  bool defined() const { return cell_ != nullptr; }
  /// Whether both are the same place.
  bool operator==(const Variable& other) const { return cell_ == other.cell_; }

  /// Puts `value`, without its history, in place of the present one. Steps that are built from now on see it;
  /// what was built before keeps the old one. Do not keep `value` elsewhere: memory that only the place
  /// refers to is updated where it lies. Throws Error(shape|dtype|device) when its type differs.
  void assign(Tensor value) const;

 protected:
  struct Cell {
    Tensor value;
    std::string name;
    std::shared_ptr<GradSlot> slot;  // of parameters
  };
  Variable() = default;
  explicit Variable(std::shared_ptr<Cell> cell) : cell_(std::move(cell)) {}
  void adopt(Tensor value) const;

  std::shared_ptr<Cell> cell_;

 private:
  friend class Module;
  void set_name(std::string name) const { cell_->name = std::move(name); }
  void move_to(Device device) const;
};

/// A variable that is trained: a leaf that gathers gradients, whatever its value.
class Parameter : public Variable {
 public:
  /// Empty, to be assigned a handle later: `Parameter bias;`
  Parameter() = default;
  /// Throws Error(dtype) unless the value is a float.
  explicit Parameter(Tensor initial);

  /// The gathered gradient; empty before backward() and after an optimizer's step().
  const Tensor& grad() const { return cell_->slot->grad; }
  void set_grad(Tensor gradient) const { cell_->slot->grad = std::move(gradient); }
  /// The gradient, which is then no longer held here.
  Tensor take_grad() const { return std::exchange(cell_->slot->grad, Tensor()); }
};

/// A variable that is saved with the model and not trained: running statistics, tables.
class Buffer : public Variable {
 public:
  Buffer() = default;
  explicit Buffer(Tensor initial);
};

}  // namespace athanor::nn
