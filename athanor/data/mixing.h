// MixUp (Zhang et al. 2017) and CutMix (Yun et al. 2019), given their parameters, as in torchvision.
#pragma once
#include <optional>

#include "athanor/data/picture.h"
#include "athanor/data/random_stream.h"
#include "athanor/graph/host_array.h"

namespace athanor {

/// Each image of a batch f32 [B, C, H, W] becomes `share` of itself and the rest of the one before it.
void mix_up(HostArray& inputs, double share);
/// The window of each image becomes that of the one before it.
void cut_mix(HostArray& inputs, const Window& window);
/// Labels i64 [B] as probabilities, f32 [B, classes]: `share` of an image's own, the rest of the one before
/// it.
HostArray mixed_labels(const HostArray& labels, int64_t classes, double share);

/// How a batch is mixed: by cutmix, or without a window by mixup.
struct Mixing {
  std::optional<Window> window;
  double share = 1;  // of an image's own label, and with mixup of its own pixels
};

/// A random number from Beta(alpha, alpha).
double random_beta(double alpha, RandomStream& random);
/// CutMix's window for a share: the image outside the window has about that share.
Window random_window(double share, int64_t height, int64_t width, RandomStream& random);

}  // namespace athanor
