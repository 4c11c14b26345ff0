// The error of a memory limit that is too low for a step, whatever is computed again.
#pragma once
#include <cstdint>
#include <string>

#include "athanor/base/error.h"

namespace athanor {

/// Error(usage) for --memory-limit, with the least limit in bytes.
class LowMemoryLimit : public Error {
 public:
  LowMemoryLimit(const std::string& problem, int64_t least);
  int64_t least() const { return least_; }

 private:
  int64_t least_;
};

/// Bytes as --memory-limit takes them, rounded up, so that this limit is enough: "75MiB".
std::string limit_from(int64_t least);

}  // namespace athanor
