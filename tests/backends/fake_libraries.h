// Helpers for tests of vendors' libraries: a device in host memory, and libraries that compute there in place
// of the vendors' (tests/support/fake_libraries).
#pragma once
#include <array>

#include "athanor/backends/gpu/storage.h"
#include "tests/kernels/gpu_kernels.h"
#include "tests/support/host_driver.h"

namespace athanor::testing {

inline os::Library fake_library(const std::string& file) {
  return os::Library({std::string(ATHANOR_FAKE_LIBRARIES) + "/" + file});
}

/// Sets an environment variable while this exists.
class Variable {
 public:
  Variable(std::string name, const std::string& value) : name_(std::move(name)) {
    setenv(name_.c_str(), value.c_str(), 1);
  }
  ~Variable() { unsetenv(name_.c_str()); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  std::string name_;
};

/// The result of a library's kernel after two runs, on poisoned output and scratch memory.
inline std::vector<double> run_library(gpu::GpuDevice& device, const Candidate& candidate,
                                       const std::vector<TestOperand>& inputs, const OperandDesc& output) {
  constexpr size_t margin = 64;
  std::vector<std::shared_ptr<Storage>> storage;
  std::vector<Binding> buffers;
  const auto add = [&](const std::vector<std::byte>& bytes, size_t offset) {
    storage.push_back(
        std::make_shared<gpu::GpuStorage>(device, device.pool.take(bytes.size()), bytes.size()));
    storage.back()->write(bytes.data(), 0, bytes.size());
    buffers.push_back({storage.back().get(), static_cast<int64_t>(offset)});
  };
  for (const TestOperand& input : inputs) add(input.memory, input.offset);
  HostArray host(output.dtype, output.shape);
  add(std::vector<std::byte>(host.bytes.size() + margin, std::byte{0x7f}), 0);
  if (candidate.scratch_bytes > 0)
    add(std::vector<std::byte>(candidate.scratch_bytes + margin, std::byte{0x7f}), 0);
  for (int launch = 0; launch < 2; ++launch) candidate.kernel->enqueue(device.kernels(), buffers);
  device.kernels().finish();
  const auto read_back = [&](size_t which, size_t bytes) {
    std::vector<std::byte> memory(bytes + margin);
    storage[which]->read(memory.data(), 0, memory.size());
    EXPECT_TRUE(std::all_of(memory.end() - margin, memory.end(), [](auto b) { return b == std::byte{0x7f}; }))
        << candidate.name << " wrote beyond "
        << (which == inputs.size() ? "its output" : "its scratch memory");
    return memory;
  };
  if (candidate.scratch_bytes > 0) read_back(inputs.size() + 1, candidate.scratch_bytes);
  const auto memory = read_back(inputs.size(), host.bytes.size());
  const size_t size = size_of(output.dtype);
  for (int64_t i = 0; i < output.shape.size(); ++i)
    std::memcpy(host.bytes.data() + static_cast<size_t>(i) * size,
                memory.data() + static_cast<size_t>(offset_of(output, i)) * size, size);
  return to_doubles(host);
}

/// Compares every kernel of the library for the request with the op's reference.
inline void check_library(gpu::GpuDevice& device, gpu::KernelLibrary& library, const KernelRequest& request,
                          const std::vector<TestOperand>& inputs, size_t kernels, double tolerance) {
  std::vector<Run> runs;
  for (gpu::LibraryKernel& kernel : library.kernels(request)) {
    if (!kernel.problem.empty()) continue;
    const std::string name = kernel.name;
    const Candidate candidate = gpu::library_candidate(device, name, std::move(kernel));
    runs.push_back({name, run_library(device, candidate, inputs, request.output())});
  }
  EXPECT_EQ(runs.size(), kernels) << request.key();
  expect_all_near(runs, reference_of(request, inputs), tolerance, request.key());
}

inline KernelRequest request_of(const std::string& op, const Attrs& attrs,
                                const std::vector<TestOperand>& inputs, const Shape& shape,
                                const Epilogue& epilogue = {}) {
  return request_of(find_op(op), attrs, inputs, inputs[0].desc.dtype, shape, {}, epilogue);
}

}  // namespace athanor::testing
