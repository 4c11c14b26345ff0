// Turns an image of any size into a model's input.
#pragma once
#include "athanor/data/dataset.h"
#include "athanor/data/picture.h"
#include "athanor/graph/host_array.h"

namespace athanor {

/// Writes the image to `out`, normalised.
void normalize(const Picture& picture, const Normalization& normalization, float* out);

/// Turns an image of read_image(), u8 [height, width, 1 or 3], into f32 [C, H, W] of `spec.input`: cropped
/// around its centre to the aspect ratio, scaled (each new pixel is a mean, weighted by distance, of the
/// pixels it covers, as in Pillow's BILINEAR), made grey (ITU-R BT.601) or three equal channels if needed,
/// and normalised like the training images. With `invert`, light and dark are swapped first.
HostArray fit_image(const HostArray& picture, const ExampleSpec& spec, bool invert);

/// The mean brightness of the image's outermost pixels, 0 to 255. This shows its background.
double border_brightness(const HostArray& picture);

}  // namespace athanor
