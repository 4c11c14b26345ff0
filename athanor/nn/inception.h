// Inception v3: blocks of parallel convolutions, with a second head that helps in training.
//
// Szegedy, Vanhoucke, Ioffe, Shlens, Wojna: Rethinking the Inception Architecture for Computer Vision (2016).
#pragma once
#include <utility>
#include <vector>

#include "athanor/nn/auxiliary.h"
#include "athanor/nn/module.h"

namespace athanor::nn {

/// Images [N, C, H, W] of at least 75 x 75 pixels (published: 299) -> logits [N, classes].
///
/// Parameters have torchvision's names ("Mixed_5b.branch1x1.conv.weight", "AuxLogits.fc.weight"). There are
/// 27,161,264 of them for three channels and 1000 classes. Training also computes the logits of the auxiliary
/// head, whose loss has the weight 0.4, as in torchvision's recipe; evaluation does not compute that head.
/// For images below 299 pixels the auxiliary head's windows are smaller, so that it still sees 5 x 5 of them.
class Inception3 : public Module, public AuxiliaryLogits {
 public:
  Inception3(int64_t channels, int64_t classes);
  Tensor forward(const Tensor& x) override;
  Tensor take_auxiliary() override { return std::exchange(auxiliary_, Tensor()); }
  double auxiliary_weight() const override { return 0.4; }
  std::string describe() const override { return "Inception3"; }

 private:
  std::vector<Module*> stem_, before_, after_;  // the last two: relative to the auxiliary head
  Module *aux_ = nullptr, *dropout_ = nullptr, *fc_ = nullptr;
  Tensor auxiliary_;
};

}  // namespace athanor::nn
