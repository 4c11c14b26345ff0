// Compares with PyTorch's results: see make_reference.py.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "athanor/formats/safetensors.h"
#include "athanor/graph/tensor.h"

namespace athanor::testing {

/// Reads tests/nn/data/NAME.safetensors.
inline std::map<std::string, HostArray> read_reference(const std::string& name) {
  return read_safetensors(std::string(ATHANOR_SOURCE_DIR) + "/tests/nn/data/" + name + ".safetensors")
      .tensors;
}

/// Expects each element within tolerance * (1 + |expected|).
inline void expect_near(const HostArray& actual, const HostArray& expected, double tolerance,
                        const std::string& what) {
  ASSERT_EQ(to_string(actual.shape), to_string(expected.shape)) << what;
  const auto a = to_doubles(actual), b = to_doubles(expected);
  for (size_t i = 0; i < a.size(); ++i)
    ASSERT_TRUE(std::abs(a[i] - b[i]) <= tolerance * (1 + std::abs(b[i])))
        << what << ", element " << i << ": " << a[i] << " instead of " << b[i];
}
inline void expect_near(const Tensor& actual, const HostArray& expected, double tolerance,
                        const std::string& what) {
  expect_near(actual.to_host(), expected, tolerance, what);
}

/// The entries whose names start with `prefix`, which is removed.
inline std::map<std::string, HostArray> under(const std::map<std::string, HostArray>& all,
                                              const std::string& prefix) {
  std::map<std::string, HostArray> found;
  for (const auto& [name, array] : all)
    if (name.starts_with(prefix)) found.emplace(name.substr(prefix.size()), array);
  return found;
}

}  // namespace athanor::testing
