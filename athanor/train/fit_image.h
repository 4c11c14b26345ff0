// Any picture, made into what a model sees.
#pragma once
#include "athanor/data/dataset.h"
#include "athanor/graph/host_array.h"

namespace athanor {

/// A picture as read_image() gives it, u8 [height, width, 1 or 3], as f32 [C, H, W] of `spec.input`: cut to
/// the aspect ratio around its middle, scaled (each new pixel a mean weighted by distance over the pixels it
/// covers, as Pillow's BILINEAR), made grey (ITU-R BT.601) or three alike channels where needed, and
/// normalised as the training pictures were. With `invert`, light and dark are exchanged first.
HostArray fit_image(const HostArray& picture, const ExampleSpec& spec, bool invert);

/// The mean brightness of the picture's outermost pixels, 0 to 255: what its background looks like.
double border_brightness(const HostArray& picture);

}  // namespace athanor
