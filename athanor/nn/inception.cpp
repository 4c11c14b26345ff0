#include "athanor/nn/inception.h"

#include <string>

#include "athanor/nn/conv.h"
#include "athanor/nn/function.h"
#include "athanor/nn/init.h"
#include "athanor/nn/linear.h"
#include "athanor/nn/norm.h"
#include "athanor/ops/activations.h"
#include "athanor/ops/movement.h"
#include "athanor/ops/pool.h"
#include "athanor/ops/reduction.h"

namespace athanor::nn {
namespace {

/// A convolution with batch norm and ReLU, under a name of torchvision's.
struct Unit {
  const char* name;
  int64_t outputs;
  Pair kernel = 1;
  Pair padding = 0;
  int64_t stride = 1;
};

enum class Pool { none, average, largest };

/// One of the parallel ways through a block: a pool, units one after the other, then perhaps several side by
/// side.
struct Branch {
  Pool pool = Pool::none;
  std::vector<Unit> chain = {}, fork = {};
};

class BasicConv2d : public Module {
 public:
  BasicConv2d(int64_t inputs, const Unit& unit, double deviation = 0.1)
      : conv_(add("conv", Conv2d(inputs, unit.outputs, unit.kernel,
                                 {.stride = unit.stride, .padding = unit.padding, .bias = false}))),
        bn_(add("bn", BatchNorm2d(unit.outputs, {.eps = 0.001}))) {
    conv_.weight.assign(init::trunc_normal(conv_.weight.shape(), 0, deviation));
  }
  Tensor forward(const Tensor& x) override { return relu(bn_(conv_(x))); }
  std::string describe() const override { return "BasicConv2d"; }

 private:
  Conv2d& conv_;
  Module& bn_;
};

Linear inception_fc(int64_t inputs, int64_t classes, double deviation) {
  Linear layer(inputs, classes);
  layer.weight.assign(init::trunc_normal(layer.weight.shape(), 0, deviation));
  return layer;
}

class Mixed : public Module {
 public:
  Mixed(int64_t inputs, const std::vector<Branch>& branches) {
    for (const Branch& branch : branches) {
      Way way{.pool = branch.pool, .chain = {}, .fork = {}};
      int64_t channels = inputs;
      for (const Unit& unit : branch.chain) {
        way.chain.push_back(&add(unit.name, BasicConv2d(channels, unit)));
        channels = unit.outputs;
      }
      for (const Unit& unit : branch.fork) {
        way.fork.push_back(&add(unit.name, BasicConv2d(channels, unit)));
        outputs += unit.outputs;
      }
      if (branch.fork.empty()) outputs += channels;
      ways_.push_back(std::move(way));
    }
  }
  Tensor forward(const Tensor& x) override {
    std::vector<Tensor> results;
    for (const Way& way : ways_) {
      Tensor y = x;
      if (way.pool == Pool::average) y = avg_pool2d(y, 3, {.stride = 1, .padding = 1});
      if (way.pool == Pool::largest) y = max_pool2d(y, 3, {.stride = 2});
      for (Module* unit : way.chain) y = (*unit)(y);
      for (Module* unit : way.fork) results.push_back((*unit)(y));
      if (way.fork.empty()) results.push_back(y);
    }
    return concat(results, 1);
  }
  std::string describe() const override { return "Mixed"; }

  int64_t outputs = 0;

 private:
  struct Way {
    Pool pool;
    std::vector<Module*> chain, fork;
  };
  std::vector<Way> ways_;
};

// The letters are those of torchvision's InceptionA to InceptionE.
const Pair wide(1, 7), tall(7, 1), beside(0, 3), above(3, 0);

std::vector<Branch> block_a(int64_t pooled) {
  return {{.chain = {{"branch1x1", 64}}},
          {.chain = {{"branch5x5_1", 48}, {"branch5x5_2", 64, 5, 2}}},
          {.chain = {{"branch3x3dbl_1", 64}, {"branch3x3dbl_2", 96, 3, 1}, {"branch3x3dbl_3", 96, 3, 1}}},
          {.pool = Pool::average, .chain = {{"branch_pool", pooled}}}};
}

std::vector<Branch> block_b() {
  return {{.chain = {{"branch3x3", 384, 3, 0, 2}}},
          {.chain = {{"branch3x3dbl_1", 64}, {"branch3x3dbl_2", 96, 3, 1}, {"branch3x3dbl_3", 96, 3, 0, 2}}},
          {.pool = Pool::largest}};
}

std::vector<Branch> block_c(int64_t width) {
  return {{.chain = {{"branch1x1", 192}}},
          {.chain = {{"branch7x7_1", width},
                     {"branch7x7_2", width, wide, beside},
                     {"branch7x7_3", 192, tall, above}}},
          {.chain = {{"branch7x7dbl_1", width},
                     {"branch7x7dbl_2", width, tall, above},
                     {"branch7x7dbl_3", width, wide, beside},
                     {"branch7x7dbl_4", width, tall, above},
                     {"branch7x7dbl_5", 192, wide, beside}}},
          {.pool = Pool::average, .chain = {{"branch_pool", 192}}}};
}

std::vector<Branch> block_d() {
  return {{.chain = {{"branch3x3_1", 192}, {"branch3x3_2", 320, 3, 0, 2}}},
          {.chain = {{"branch7x7x3_1", 192},
                     {"branch7x7x3_2", 192, wide, beside},
                     {"branch7x7x3_3", 192, tall, above},
                     {"branch7x7x3_4", 192, 3, 0, 2}}},
          {.pool = Pool::largest}};
}

std::vector<Branch> block_e() {
  const Pair row(1, 3), column(3, 1), sides(0, 1), ends(1, 0);
  return {{.chain = {{"branch1x1", 320}}},
          {.chain = {{"branch3x3_1", 384}},
           .fork = {{"branch3x3_2a", 384, row, sides}, {"branch3x3_2b", 384, column, ends}}},
          {.chain = {{"branch3x3dbl_1", 448}, {"branch3x3dbl_2", 384, 3, 1}},
           .fork = {{"branch3x3dbl_3a", 384, row, sides}, {"branch3x3dbl_3b", 384, column, ends}}},
          {.pool = Pool::average, .chain = {{"branch_pool", 192}}}};
}

class InceptionAux : public Module {
 public:
  InceptionAux(int64_t inputs, int64_t classes)
      : conv0_(add("conv0", BasicConv2d(inputs, {"conv0", 128}))),
        conv1_(add("conv1", BasicConv2d(128, {"conv1", 768, 5}, 0.01))),
        fc_(add("fc", inception_fc(768, classes, 0.001))) {}
  Tensor forward(const Tensor& x) override {
    constexpr int64_t published = 17;  // pixels here for images of 299
    const bool fits = x.size(2) >= published && x.size(3) >= published;
    const Tensor y = fits ? avg_pool2d(x, 5, {.stride = 3}) : adaptive_avg_pool2d(x, 5);
    return fc_(mean(conv1_(conv0_(y)), {2, 3}));
  }
  std::string describe() const override { return "InceptionAux"; }

 private:
  Module &conv0_, &conv1_, &fc_;
};

}  // namespace

Inception3::Inception3(int64_t channels, int64_t classes) {
  const auto unit = [&](const Unit& what) {
    stem_.push_back(&add(what.name, BasicConv2d(channels, what)));
    channels = what.outputs;
  };
  const auto block = [&](std::vector<Module*>& where, const char* name, const std::vector<Branch>& branches) {
    Mixed& mixed = add(name, Mixed(channels, branches));
    where.push_back(&mixed);
    channels = mixed.outputs;
  };
  const auto pool = [&](const char* name) { stem_.push_back(&add(name, MaxPool2d(3, {.stride = 2}))); };
  unit({"Conv2d_1a_3x3", 32, 3, 0, 2});
  unit({"Conv2d_2a_3x3", 32, 3});
  unit({"Conv2d_2b_3x3", 64, 3, 1});
  pool("maxpool1");
  unit({"Conv2d_3b_1x1", 80});
  unit({"Conv2d_4a_3x3", 192, 3});
  pool("maxpool2");
  block(before_, "Mixed_5b", block_a(32));
  block(before_, "Mixed_5c", block_a(64));
  block(before_, "Mixed_5d", block_a(64));
  block(before_, "Mixed_6a", block_b());
  block(before_, "Mixed_6b", block_c(128));
  block(before_, "Mixed_6c", block_c(160));
  block(before_, "Mixed_6d", block_c(160));
  block(before_, "Mixed_6e", block_c(192));
  aux_ = &add("AuxLogits", InceptionAux(channels, classes));
  block(after_, "Mixed_7a", block_d());
  block(after_, "Mixed_7b", block_e());
  block(after_, "Mixed_7c", block_e());
  dropout_ = &add("dropout", Dropout(0.5));
  fc_ = &add("fc", inception_fc(channels, classes, 0.1));
}

Tensor Inception3::forward(const Tensor& x) {
  Tensor y = x;
  for (Module* part : stem_) y = (*part)(y);
  for (Module* part : before_) y = (*part)(y);
  auxiliary_ = training() ? (*aux_)(y) : Tensor();
  for (Module* part : after_) y = (*part)(y);
  return (*fc_)((*dropout_)(mean(y, {2, 3})));
}

}  // namespace athanor::nn
