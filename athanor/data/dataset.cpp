#include "athanor/data/dataset.h"

#include "athanor/base/error.h"

namespace athanor {

HostArray Dataset::picture(int64_t /*index*/, int64_t& /*label_out*/) const {
  throw Error(ErrorCode::usage, "these examples are not images: they cannot be augmented or shown");
}

PictureAndMask Dataset::picture_and_mask(int64_t /*index*/) const {
  throw Error(ErrorCode::usage, "the pixels of these examples have no classes");
}

void Dataset::numbers(int64_t /*index*/, float* /*out*/) const {
  throw Error(ErrorCode::usage, "the targets of these examples are not numbers");
}

int64_t Dataset::label(int64_t index) const {
  std::vector<float> input(static_cast<size_t>(spec().input.size()));
  int64_t label = 0;
  read(index, input.data(), label);
  return label;
}

}  // namespace athanor
