// The header of a NumPy .npy file, a Python dictionary in text:
// {'descr': '<f4', 'fortran_order': False, 'shape': (60000, 28, 28), }
#pragma once
#include <string>
#include <string_view>

#include "athanor/base/file.h"
#include "athanor/graph/shape.h"

namespace athanor {

struct NpyHeader {
  std::string descr;           // "<f4": byte order, kind, bytes of an element
  bool fortran_order = false;  // the first axis is the fastest
  Shape shape;
  size_t data_offset = 0;  // bytes before the elements
};

/// The header at the start of `data`, versions 1.0, 2.0 and 3.0 of NEP 1. Throws Error(format) for anything
/// that NumPy would not have written.
NpyHeader parse_npy_header(Bytes data, const std::string& name);

/// The bytes before the elements: version 1.0, row-major, padded so that the elements start at a multiple
/// of 64.
std::string format_npy_header(std::string_view descr, const Shape& shape);

}  // namespace athanor
