// Helpers for tests of CPU kernels: they build requests by hand, and run and compare every candidate.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <span>

#include "athanor/backends/cpu/cpu_backend.h"
#include "athanor/backends/cpu/function_kernel.h"
#include "athanor/graph/host_array.h"
#include "athanor/ops/define.h"
#include "tests/support/epilogues.h"

namespace athanor::testing {

/// An operand in memory (a strided row-major view or a blocked tensor), and its values in row-major order.
struct TestOperand {
  OperandDesc desc;
  std::vector<double> values;  // row-major, rounded to the dtype
  std::vector<std::byte> memory;
  size_t offset = 0;  // of the first element, in bytes
  void* address() { return memory.data() + offset; }
};

inline int64_t offset_of(const OperandDesc& desc, int64_t index) {
  const Shape& shape = desc.shape;
  if (desc.layout.block != 0) {
    const int64_t block = desc.layout.block, w = index % shape[3], h = index / shape[3] % shape[2];
    const int64_t c = index / (shape[3] * shape[2]) % shape[1], n = index / (shape[3] * shape[2] * shape[1]);
    return (((n * (shape[1] / block) + c / block) * shape[2] + h) * shape[3] + w) * block + c % block;
  }
  int64_t offset = 0;
  for (int axis = shape.rank(); axis-- > 0; index /= shape[axis])
    offset += index % shape[axis] * desc.strides[static_cast<size_t>(axis)];
  return offset;
}

/// An operand with the given elements. `strides` {}: dense.
inline TestOperand make_value(DType dtype, const Shape& shape, const std::vector<double>& values,
                              Layout layout = {}, const Ints& strides = {}) {
  TestOperand result{
      {dtype, shape, layout, strides.empty() ? contiguous_strides(shape) : strides}, {}, {}, 0};
  const HostArray rounded = from_doubles(dtype, shape, values);
  result.values = to_doubles(rounded);
  int64_t low = 0, high = 0;
  for (int64_t i = 0; i < shape.size(); ++i) {
    low = std::min(low, offset_of(result.desc, i));
    high = std::max(high, offset_of(result.desc, i));
  }
  const size_t element = size_of(dtype);
  result.memory.resize(static_cast<size_t>(high - low + 1) * element);
  result.offset = static_cast<size_t>(-low) * element;
  for (int64_t i = 0; i < shape.size(); ++i)
    std::memcpy(
        static_cast<std::byte*>(result.address()) + offset_of(result.desc, i) * static_cast<int64_t>(element),
        rounded.bytes.data() + static_cast<size_t>(i) * element, element);
  return result;
}

inline std::vector<double> random_values(int64_t count, unsigned seed, double low = -1, double high = 1) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> uniform(low, high);
  std::vector<double> values(static_cast<size_t>(count));
  for (double& value : values) value = uniform(generator);
  return values;
}

inline TestOperand random_value(DType dtype, const Shape& shape, unsigned seed, Layout layout = {},
                                const Ints& strides = {}) {
  const double reach = is_float(dtype) ? 1 : 10;
  return make_value(dtype, shape, random_values(shape.size(), seed, dtype == DType::u8 ? 0 : -reach, reach),
                    layout, strides);
}

inline CpuBackend& cpu() { return dynamic_cast<CpuBackend&>(backend_of(parse_device("cpu"))); }

inline Op make_op(const std::string& name, Prim prim = Prim::none) {
  Op op;
  op.name = name;
  op.prim = prim;
  return op;
}

struct Run {
  std::string candidate;
  std::vector<double> values;  // row-major
};

/// Runs one candidate with poisoned output and scratch memory.
inline std::vector<double> run_candidate(const Candidate& candidate, std::vector<TestOperand>& inputs,
                                         const OperandDesc& output) {
  TestOperand result =
      make_value(output.dtype, output.shape, std::vector<double>(static_cast<size_t>(output.shape.size())),
                 output.layout);
  std::memset(result.memory.data(), 0x7f, result.memory.size());
  std::vector<std::byte> scratch(candidate.scratch_bytes + 64, std::byte{0x7f});
  void* aligned = scratch.data();
  size_t space = scratch.size();
  std::align(64, candidate.scratch_bytes, aligned, space);
  std::vector<void*> buffers;
  for (TestOperand& input : inputs) buffers.push_back(input.address());
  buffers.push_back(result.address());
  if (candidate.scratch_bytes > 0) buffers.push_back(aligned);
  const auto& kernel = dynamic_cast<const cpu::CpuKernel&>(*candidate.kernel);
  for (int launch = 0; launch < 2; ++launch) kernel.run(buffers);  // the first must leave nothing behind
  HostArray host(output.dtype, output.shape);
  const size_t element = size_of(output.dtype);
  for (int64_t i = 0; i < output.shape.size(); ++i)
    std::memcpy(host.bytes.data() + static_cast<size_t>(i) * element,
                result.memory.data() + static_cast<size_t>(offset_of(result.desc, i)) * element, element);
  return to_doubles(host);
}

inline KernelRequest request_of(const Op& op, const Attrs& attrs, const std::vector<TestOperand>& inputs,
                                DType dtype, const Shape& shape, Layout layout = {},
                                const Epilogue& epilogue = {}) {
  KernelRequest request{&op, attrs, {}, {{dtype, shape, layout, contiguous_strides(shape)}}, {}};
  for (const TestOperand& input : inputs) request.inputs.push_back(input.desc);
  request.epilogue = program_of(epilogue, request);
  return request;
}

/// The results of all candidates of a request.
inline std::vector<Run> run_all(const Op& op, const Attrs& attrs, std::vector<TestOperand>& inputs,
                                DType dtype, const Shape& shape, Layout layout = {},
                                const Epilogue& epilogue = {}) {
  const KernelRequest request = request_of(op, attrs, inputs, dtype, shape, layout, epilogue);
  std::vector<Run> runs;
  for (const Candidate& candidate : cpu().candidates(0, request))
    runs.push_back({candidate.name, run_candidate(candidate, inputs, request.output())});
  EXPECT_FALSE(runs.empty()) << request.key();
  return runs;
}

/// Every run equals `expected` within `tolerance` of the largest magnitude; NaN equals NaN.
inline void expect_all_near(const std::vector<Run>& runs, const std::vector<double>& expected,
                            double tolerance, const std::string& what = {}) {
  double scale = 1;
  for (const double value : expected)
    if (std::isfinite(value)) scale = std::max(scale, std::abs(value));
  for (const Run& run : runs) {
    ASSERT_EQ(run.values.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      const double got = run.values[i], want = expected[i];
      const bool same =
          got == want || (std::isnan(got) && std::isnan(want)) || std::abs(got - want) <= tolerance * scale;
      ASSERT_TRUE(same) << run.candidate << " " << what << ": element " << i << " is " << got << ", not "
                        << want;
    }
  }
}

inline double tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 1e-13;
    case DType::f32:
      return 2e-6;
    case DType::f16:
      return 1e-3;
    case DType::bf16:
      return 8e-3;
    case DType::f8e4m3:
      return 0.0625;
    case DType::f8e5m2:
      return 0.125;
    default:
      return 0;
  }
}

}  // namespace athanor::testing
