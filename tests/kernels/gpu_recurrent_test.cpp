#include "gpu_kernels.h"

namespace athanor::testing {
namespace {

struct RecurrentCase {
  int64_t batch, times, h;
};

// Strides {}: dense.
void check(const RecurrentCase& c, DType dtype, const Ints& gate_strides = {},
           const Ints& weight_strides = {}) {
  const double tolerance = dtype == DType::f32 ? 1e-5 : 4 * tolerance_of(dtype);
  const auto [n, t, h] = c;
  const auto given = [&](const Shape& shape, unsigned seed) { return view(dtype, shape, seed); };
  const auto gates = [&](int64_t count) { return view(dtype, {n, t, count * h}, 1, gate_strides); };
  const auto weight = [&](int64_t count) { return view(dtype, {count * h, h}, 2, weight_strides); };
  check_candidates("lstm", {}, {gates(4), weight(4), given({n, h}, 3), given({n, h}, 4)}, {n, t, 2 * h},
                   tolerance);
  check_candidates("gru", {}, {gates(3), weight(3), given({3 * h}, 3), given({n, h}, 4)}, {n, t, h},
                   tolerance);
  check_candidates("lstm_grad", {},
                   {gates(4), weight(4), given({n, h}, 3), given({n, t, 2 * h}, 4), given({n, t, 2 * h}, 5)},
                   {n, t, 5 * h}, 4 * tolerance);
  check_candidates("gru_grad", {},
                   {gates(3), given({n, t, 3 * h}, 6), weight(3), given({n, h}, 3), given({n, t, h}, 4),
                    given({n, t, h}, 5)},
                   {n, t, 5 * h}, 4 * tolerance);
}

// Examples that fill no group, features that fill no vector, and more features than a group has items.
TEST(GpuRecurrent, OddShapes) {
  ATHANOR_NEEDS_GPU();
  for (const RecurrentCase& c : {RecurrentCase{5, 3, 21}, {1, 7, 1}, {3, 2, 300}}) check(c, DType::f32);
}

TEST(GpuRecurrent, OtherTypes) {
  ATHANOR_NEEDS_GPU();
  for (const DType dtype : {DType::f16, DType::bf16, DType::f64}) check({3, 4, 17}, dtype);
}

TEST(GpuRecurrent, Strides) {
  ATHANOR_NEEDS_GPU();
  check({2, 3, 4}, DType::f32, {1, 2, -6}, {1, 16});
}

}  // namespace
}  // namespace athanor::testing
