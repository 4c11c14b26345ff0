// RandAugment (Cubuk et al. 2019) and TrivialAugment Wide (Müller, Hutter 2021), as in torchvision: with 31
// strengths and nearest interpolation.
#pragma once
#include <string_view>
#include <vector>

#include "athanor/data/picture.h"
#include "athanor/data/random_stream.h"

namespace athanor {

/// One operation: "ShearX", "Rotate", "Equalize", ...; torchvision's _apply_image_or_video_transform.
Picture auto_operation(const Picture& picture, std::string_view name, double magnitude);

/// One operation of RandAugment, `magnitude` from 0 to 30.
Picture rand_augment_step(const Picture& picture, int magnitude, RandomStream& random);
Picture trivial_augment(const Picture& picture, RandomStream& random);

/// The names of all operations, in torchvision's order.
const std::vector<std::string_view>& auto_operations();
/// The magnitude of an operation at strength `bin`, from 0 to 30; `wide` for TrivialAugment.
double auto_magnitude(std::string_view name, int bin, bool wide, int64_t height, int64_t width);

}  // namespace athanor
