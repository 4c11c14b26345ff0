// The parts of an examination.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "athanor/kernels/trust.h"

namespace athanor {

struct ExaminationPart {
  std::string name;  // "convolutions", "conv2d"
  std::function<void(Device, Examination&)> run;
  double work = 0;  // seconds in which PoCL compiles its kernels on one core; 0: not measured
  std::string shares_kernels_with = {};  // the name of an earlier part
};

std::vector<ExaminationPart> examination_parts(bool whole);

/// A training step of a small net with a convolution, pooling, a product and a loss: its loss, its gradients
/// and the updated parameters, on the device and on the host.
void examine_training_step(Device device, Examination& verdict);

}  // namespace athanor
