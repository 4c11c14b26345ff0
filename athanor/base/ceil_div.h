#pragma once
#include <cstdint>

namespace athanor {

/// a / b, rounded up: the number of blocks of b that cover a. For a >= 0, b > 0.
constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace athanor
