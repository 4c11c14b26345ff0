// Your own model for the program. Compile it as a shared library, then:
//
//     athanor train --model ./own_model.so --data fashion-mnist
//
// explain, fit, tune, eval and predict take it as well.
#include "athanor/nn/nn.h"
#include "athanor/ops/ops.h"

using namespace athanor;

namespace {

// Two convolutions, the second with a shortcut around it, and the mean of each channel.
class OwnModel : public nn::Module {
 public:
  OwnModel(int64_t channels, int64_t classes)
      : first_(add("first", nn::Conv2d(channels, 16, 3, {.padding = 1}))),
        second_(add("second", nn::Conv2d(16, 16, 3, {.padding = 1}))),
        last_(add("last", nn::Linear(16, classes))) {}
  Tensor forward(const Tensor& x) override {
    const Tensor y = relu(first_(x));
    return last_(mean(relu(y + second_(y)), {2, 3}));
  }
  std::string describe() const override { return "OwnModel"; }

 private:
  nn::Conv2d &first_, &second_;
  nn::Linear& last_;
};

/// `input` is [channels, height, width].
std::unique_ptr<nn::Module> make(const Shape& input, int64_t classes) {
  return std::make_unique<OwnModel>(input[0], classes);
}

}  // namespace

ATHANOR_MODEL(make, .smallest = 3)
