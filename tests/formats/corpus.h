// The reference files in tests/fuzz/corpus, written by NumPy, safetensors, cjpeg and others (make_corpus.py
// there).
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "athanor/base/file.h"
#include "athanor/graph/host_array.h"

namespace athanor::testing {

inline std::filesystem::path corpus_path(const std::string& name) {
  return std::filesystem::path(ATHANOR_SOURCE_DIR) / "tests/fuzz/corpus" / name;
}

inline std::vector<std::byte> corpus_file(const std::string& name) { return read_file(corpus_path(name)); }

/// A copy of `data` with one byte replaced.
inline std::vector<std::byte> with_byte(std::vector<std::byte> data, size_t at, int value) {
  data.at(at) = static_cast<std::byte>(value);
  return data;
}

/// The values in make_corpus.py's arrays: -3, -2, ... 8, times `factor`, plus `offset`.
inline std::vector<double> ramp(double factor = 1, double offset = 0) {
  std::vector<double> values;
  for (int i = -3; i < 9; ++i) values.push_back(i * factor + offset);
  return values;
}

}  // namespace athanor::testing
