// Every candidate of the problems of training_problems.h, with what its time depends on.
#include <utility>

#include "athanor/base/ceil_div.h"
#include "athanor/ops/conv_problem.h"
#include "tests/support/candidates/candidates.h"
#include "tests/support/training_problems.h"

namespace athanor {
namespace {

/// Rows of odd length are as far apart as plans have them.
void add_problem(Writer& writer, const testing::TrainingProduct& p, DType dtype) {
  const auto matrix = [&](int64_t rows, int64_t columns, bool turned) {
    const int64_t run = turned ? rows : columns, lines = turned ? columns : rows,
                  apart = run % 8 == 0 ? run : ceil_div(run, 64) * 64;
    OperandDesc operand{dtype, {p.batch, rows, columns}, {}, {lines * apart, apart, 1}};
    if (turned) std::swap(operand.strides[1], operand.strides[2]);
    operand.padding = apart - run;
    return operand;
  };
  writer.begin_problem({{"problem", p.name}, {"batch", p.batch}, {"m", p.m}, {"n", p.n}, {"k", p.k}});
  writer.add({&find_op("batch_matmul"),
              {},
              {matrix(p.m, p.k, p.a_turned), matrix(p.k, p.n, p.b_turned)},
              {matrix(p.m, p.n, false)},
              {}},
             to_string(dtype));
}

/// A convolution and its gradients.
void add_problem(Writer& writer, const testing::TrainingConvolution& p, DType dtype) {
  const Shape x{p.images, p.channels, p.pixels, p.pixels}, w{p.results, p.channels, p.taps, p.taps},
      y{p.images, p.results, p.pixels, p.pixels};
  Attrs attrs = conv_attrs({.padding = p.taps / 2});
  const int64_t pixels = p.images * p.pixels * p.pixels, taps = p.taps * p.taps;
  const auto begin = [&](const char* direction, int64_t m, int64_t n, int64_t k) {
    writer.begin_problem(
        {{"problem", p.name + std::string(direction)}, {"batch", 1}, {"m", m}, {"n", n}, {"k", k}});
  };
  begin("", p.results, pixels, p.channels * taps);
  writer.add("conv2d", attrs, dtype, {x, w}, y, {}, "conv ");
  begin(" dw", p.results, p.channels * taps, pixels);
  Attrs weights = attrs;
  weights.set("weight_shape", w.to_ints());
  writer.add("conv2d_weight_grad", weights, dtype, {x, y}, w, {}, "conv ");
  begin(" dx", p.channels, pixels, p.results * taps);
  attrs.set("input_shape", x.to_ints());
  writer.add("conv2d_input_grad", attrs, dtype, {y, w}, x, {}, "conv ");
}

}  // namespace

void write_guesses(const char* folder, GpuTarget target, std::string_view architecture) {
  Writer writer(folder, target, architecture, false);
  for (const testing::TrainingProduct& product : testing::training_products) {
    add_problem(writer, product, DType::f16);
    if (product.in_f32) add_problem(writer, product, DType::f32);
  }
  for (const testing::TrainingConvolution& one : testing::training_convolutions)
    add_problem(writer, one, dtype_of_convolutions(target, architecture));
  writer.finish();
}

}  // namespace athanor
