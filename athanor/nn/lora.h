// LoRA: small adapters beside the dense layers of a trained model.
//
// Hu and others: LoRA: Low-Rank Adaptation of Large Language Models (2022).
#pragma once
#include <string>

#include "athanor/nn/module.h"

namespace athanor::nn {

struct LoraOptions {
  int64_t rank = 8;
  double alpha = 0;  // adapters are scaled by alpha / rank; 0: by 1
};

/// A layer x W^T that can have an adapter: x W^T + alpha / rank (x A^T) B^T, with parameters lora_A [rank,
/// inputs], uniform in ± 1 / sqrt(inputs), and lora_B [outputs, rank], zero. So at first it computes what the
/// layer alone does (to rounding).
class LoraLayer : public Module {
 public:
  /// Throws Error(value) unless the rank is from 1 up to the layer's own, and Error(usage) if the layer has
  /// an adapter.
  void add_adapter(const LoraOptions& options);
  /// Adds the adapter to the weight, and removes the adapter. Does nothing if there is none.
  void merge_adapter();

 protected:
  /// The layer's weight: [outputs, inputs], or [inputs, outputs] if transposed().
  virtual const Parameter& adapted_weight() const = 0;
  virtual bool transposed() const { return false; }
  /// The layer's own result y plus the adapter's result for x.
  Tensor with_adapter(const Tensor& y, const Tensor& x) const;

 private:
  Parameter a_, b_;
  double scale_ = 0;
};

/// Adds an adapter to each LoraLayer of a model except the classification layer, which is trained as it is.
/// Call this first, then make an optimizer of the parameters for which is_lora() is true. Throws Error(value)
/// if a layer is smaller than the rank. Returns the number of layers with an adapter.
int64_t add_lora(Module& model, const LoraOptions& options = {});
/// LoraLayer::merge_adapter() for all layers. The model computes the same (to rounding) and has no adapters.
void merge_lora(Module& model);

/// Whether a parameter is part of an adapter, by its name.
bool is_lora(const std::string& parameter);
/// Whether a parameter belongs to the classification layer of an image model, by its name: "fc",
/// "AuxLogits.fc" or "heads.head".
bool is_of_classes(const std::string& parameter);

}  // namespace athanor::nn
