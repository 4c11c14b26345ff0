// ATHANOR_TEST_REDUCED: tests that compile a kernel for each shape, dtype and candidate run one of each kind,
// always the same ones. tools/virtual-gpus sets it, because a kernel's first launch takes a second there.
#pragma once
#include <cctype>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "athanor/graph/dtype.h"

namespace athanor::testing {

inline bool is_reduced() { return std::getenv("ATHANOR_TEST_REDUCED") != nullptr; }

/// Dtypes of one kind are loaded, stored and computed alike: f64, f32, 16-bit floats, integers, bool.
inline int kind_of(DType dtype) {
  if (dtype == DType::bf16) return static_cast<int>(DType::f16);
  return static_cast<int>(is_int(dtype) ? DType::i64 : dtype);
}

/// The first dtype of each kind.
inline std::vector<DType> one_of_each_kind(const std::vector<DType>& dtypes) {
  std::vector<DType> result;
  std::set<int> kinds;
  for (const DType dtype : dtypes)
    if (kinds.insert(kind_of(dtype)).second) result.push_back(dtype);
  return result;
}

/// Whether a candidate is the first of its kind in this process: its op, kind of dtype, and name without
/// numbers ("split gemm 4x64" becomes "split gemm x").
inline bool is_first_of_kind(const std::string& op, DType dtype, const std::string& name) {
  static std::set<std::string> known;
  std::string kind = op + ' ' + std::to_string(kind_of(dtype)) + ' ';
  for (const char letter : name)
    if (std::isdigit(static_cast<unsigned char>(letter)) == 0) kind += letter;
  return known.insert(kind).second;
}

}  // namespace athanor::testing
