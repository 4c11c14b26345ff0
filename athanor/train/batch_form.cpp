#include "athanor/train/batch_form.h"

#include "athanor/nn/models.h"
#include "athanor/train/language_modelling.h"
#include "athanor/train/segmentation.h"

namespace athanor {

BatchForm batch_form(const std::string& model, const Shape& input, int64_t batch_size, Device device) {
  const Shape inputs = input.insert(0, batch_size);
  switch (nn::objective_of(model)) {
    case nn::Objective::next_token:
    case nn::Objective::masked_tokens:
      return {{DType::i64, inputs, device}, {DType::i64, inputs, device}, name_tokens};
    case nn::Objective::pixels:
      return {
          {DType::f32, inputs, device}, {DType::i64, {batch_size, input[1], input[2]}, device}, name_pixels};
    case nn::Objective::classes:
      break;
  }
  return {{DType::f32, inputs, device}, {DType::i64, {batch_size}, device}, {}};
}

}  // namespace athanor
