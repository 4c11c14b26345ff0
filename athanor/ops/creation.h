// Tensors without inputs: constants and indices. They take no memory until a kernel needs them.
//
// Numbers are rounded to `dtype` as by cast(). All functions throw Error(shape) for a negative extent.
#pragma once
#include <source_location>

#include "athanor/graph/tensor.h"

namespace athanor {

Tensor full(const Shape& shape, double value, DType dtype = DType::f32, Device device = {},
            std::source_location where = std::source_location::current());
Tensor zeros(const Shape& shape, DType dtype = DType::f32, Device device = {},
             std::source_location where = std::source_location::current());
Tensor ones(const Shape& shape, DType dtype = DType::f32, Device device = {},
            std::source_location where = std::source_location::current());
/// Tensors with the shape, dtype and device of x.
Tensor full_like(Operand x, double value);
Tensor zeros_like(Operand x);
Tensor ones_like(Operand x);

/// i64[shape]: each element's index along an axis.
Tensor iota(const Shape& shape, int axis, Device device = {},
            std::source_location where = std::source_location::current());
/// start, start + step, ... up to but not including stop. Throws Error(value) if the step is 0 or a bound is
/// not finite, and Error(dtype) for fractions with an integer dtype.
Tensor arange(double start, double stop, double step = 1, DType dtype = DType::i64, Device device = {},
              std::source_location where = std::source_location::current());
/// 0, 1, ..., count - 1
Tensor arange(int64_t count, DType dtype = DType::i64, Device device = {},
              std::source_location where = std::source_location::current());
/// `count` values evenly from start to stop, both included.
Tensor linspace(double start, double stop, int64_t count, DType dtype = DType::f32, Device device = {},
                std::source_location where = std::source_location::current());
/// The identity matrix [rows, columns]; columns < 0: as many as rows.
Tensor eye(int64_t rows, int64_t columns = -1, DType dtype = DType::f32, Device device = {},
           std::source_location where = std::source_location::current());
/// Integers [...] to [..., classes]: 1 at the label, 0 elsewhere. The row of a label outside [0, classes) is
/// all zeros.
Tensor one_hot(Operand labels, int64_t classes, DType dtype = DType::f32);
/// x [..., M, N] with zeros above (below) the k-th diagonal. Throws Error(shape) for less than two axes.
Tensor tril(Operand x, int64_t k = 0);
Tensor triu(Operand x, int64_t k = 0);

}  // namespace athanor
