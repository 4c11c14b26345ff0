#include "athanor/doctor/self_test.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "athanor/base/os/child.h"
#include "athanor/base/text.h"
#include "athanor/compile/options.h"
#include "athanor/device/device.h"
#include "athanor/ops/linalg.h"
#include "athanor/ops/loss.h"

namespace athanor::doctor {
namespace {

constexpr double list_seconds = 20;
// Kernels are compiled on the way.
constexpr double device_seconds = 300;

using Values = std::vector<double>;

// Values between -1 and 1, the same in every run, as `dtype` can hold them.
HostArray noise(DType dtype, const Shape& shape, uint32_t seed) {
  Values values(static_cast<size_t>(shape.size()));
  uint32_t state = seed * 2654435761U + 1;
  for (double& value : values) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<double>(state >> 8) / (1U << 23) - 1;
  }
  return from_doubles(dtype, shape, values);
}

// [M, K] x [K, N]
Values product(const Values& a, const Values& b, size_t m, size_t k, size_t n) {
  Values c(m * n, 0.0);
  for (size_t i = 0; i < m; ++i)
    for (size_t x = 0; x < k; ++x)
      for (size_t j = 0; j < n; ++j) c[i * n + j] += a[i * k + x] * b[x * n + j];
  return c;
}

void softmax_rows(Values& values, size_t columns) {
  for (size_t row = 0; row < values.size(); row += columns) {
    const auto first = values.begin() + static_cast<ptrdiff_t>(row),
               last = first + static_cast<ptrdiff_t>(columns);
    const double largest = *std::max_element(first, last);
    double sum = 0;
    for (auto value = first; value != last; ++value) sum += * value = std::exp(*value - largest);
    for (auto value = first; value != last; ++value) *value /= sum;
  }
}

// The largest difference, in units of the largest value; infinite where a result is none.
double difference(const HostArray& result, const Values& expected) {
  const Values values = to_doubles(result);
  double largest = 0, worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!std::isfinite(values[i])) return INFINITY;
    largest = std::max(largest, std::abs(expected[i]));
    worst = std::max(worst, std::abs(values[i] - expected[i]));
  }
  return worst / largest;
}

double matmul_error(Device device, DType dtype) {
  constexpr int64_t m = 67, k = 129, n = 70;  // no multiples of any tile
  const HostArray a = noise(dtype, {m, k}, 1), b = noise(dtype, {k, n}, 2);
  const Tensor c = matmul(Tensor::from(a, device), Tensor::from(b, device));
  return difference(c.to_host(), product(to_doubles(a), to_doubles(b), m, k, n));
}

double softmax_error(Device device, DType dtype) {
  constexpr int64_t rows = 33, columns = 257;
  const HostArray x = noise(dtype, {rows, columns}, 3);
  Values expected = to_doubles(x);
  softmax_rows(expected, columns);
  return difference(softmax(Tensor::from(x, device)).to_host(), expected);
}

double attention_error(Device device, DType dtype) {
  constexpr int64_t length = 37, width = 16;
  const HostArray q = noise(dtype, {length, width}, 4), k = noise(dtype, {length, width}, 5),
                  v = noise(dtype, {length, width}, 6);
  const Values keys = to_doubles(k);
  Values turned(keys.size());
  for (size_t i = 0; i < length; ++i)
    for (size_t j = 0; j < width; ++j) turned[j * length + i] = keys[i * width + j];
  Values scores = product(to_doubles(q), turned, length, width, length);
  for (double& score : scores) score /= std::sqrt(static_cast<double>(width));
  softmax_rows(scores, length);
  const Tensor result =
      scaled_dot_product_attention(Tensor::from(q, device), Tensor::from(k, device), Tensor::from(v, device));
  return difference(result.to_host(), product(scores, to_doubles(v), length, length, width));
}

struct Case {
  const char* name;
  double (*error)(Device, DType);
  DType dtype;
  double allowed;  // a few times what rounding the result to the dtype can do
};

// What is wrong with a device, or "".
std::string test(Device device) {
  // The first guess of a kernel: this asks whether the device computes, not how fast.
  const ScopedDisable no_tuning("tune");
  // Attention has softmax in it. In one dtype: each plan's kernels are compiled first, which takes most of
  // the time.
  for (const Case& one :
       {Case{"matmul", matmul_error, DType::f32, 2e-5}, Case{"matmul", matmul_error, DType::f16, 5e-3},
        Case{"matmul", matmul_error, DType::bf16, 4e-2}, Case{"softmax", softmax_error, DType::f16, 5e-3},
        Case{"attention", attention_error, DType::f32, 2e-5}}) {
    const double error = one.error(device, one.dtype);
    if (!(error <= one.allowed))
      return fmt::format("{} in {}: {:.2g} (allowed: {:.0e})", one.name, to_string(one.dtype), error,
                         one.allowed);
  }
  return {};
}

}  // namespace

Finding device_self_test() {
  // In child processes, drivers' libraries too: a hang or crash there is an answer.
  os::Child lister([] {
    std::string lines;
    for (const DeviceInfo& info : list_devices())
      lines += fmt::format("{} {}\n", to_string(info.device), info.name);
    return lines;
  });
  const os::ChildAnswer devices = lister.wait(list_seconds);
  if (!devices.problem.empty())
    return fail()
        .seen("devices", devices.problem)
        .with("device", "athanor detect")
        .with("what", devices.problem);
  Finding finding = pass();
  for (const std::string& line : split(devices.text, '\n')) {
    const size_t space = line.find(' ');
    if (space == std::string::npos) continue;
    const std::string name = line.substr(space + 1), id = line.substr(0, space);
    os::Child tester([id] { return test(parse_device(id)); });
    const os::ChildAnswer answer = tester.wait(device_seconds);
    const std::string wrong = answer.problem.empty() ? answer.text : answer.problem;
    if (answer.late) return warn().seen(name, wrong).with("device", name).with("what", wrong);
    if (!wrong.empty()) return fail().seen(name, wrong).with("device", name).with("what", wrong);
    finding.seen(name, "matmul f32, f16, bf16; softmax f16; attention f32");
  }
  return finding;
}

}  // namespace athanor::doctor
