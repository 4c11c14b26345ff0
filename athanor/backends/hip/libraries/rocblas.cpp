// rocBLAS: products of matrices on AMD's GPUs.
#include "athanor/backends/hip/libraries/rocblas.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "athanor/backends/gpu/libraries/blas.h"
#include "athanor/backends/gpu/libraries/load.h"
#include "athanor/base/error.h"

namespace athanor::hip {
namespace {

using gpu::BlasProduct;

// With some scratch memory of ours, rocBLAS never allocates its own.
constexpr size_t least_workspace = 4096, most_rocblas_workspace = size_t{32} << 20U;  // bytes

void check_rocblas(int code, const char* doing) {
  if (code != 0)
    throw Error(ErrorCode::device, fmt::format("rocBLAS cannot {} (status {})", doing, code), {},
                "ATHANOR_DISABLE=libraries computes without it");
}

int rocblas_type(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return rocblas_f16;
    case DType::f32:
      return rocblas_f32;
    case DType::f64:
      return rocblas_f64;
    case DType::bf16:
      return rocblas_bf16;
    default:
      return -1;
  }
}

class Rocblas final : public gpu::KernelLibrary {
 public:
  explicit Rocblas(const RocblasApi& api) : api_(api) {
    check_rocblas(api_.create(&handle_), "be used with this device");
    check_rocblas(api_.set_atomics(handle_, rocblas_no_atomics),
                  "be told to give the same numbers each time");
  }

  std::string version() const override { return api_.version; }

  std::vector<gpu::LibraryKernel> kernels(const KernelRequest& request) override {
    const DType dtype = request.output().dtype;
    if (rocblas_type(dtype) < 0 || request.compute != ComputeType::by_dtypes || request.has_epilogue())
      return {};
    const auto product = gpu::blas_product(request);
    if (!product) return {};
    size_t workspace = 0;
    {
      const std::scoped_lock lock(mutex_);
      check_rocblas(api_.begin_size_query(handle_), "say how much memory it needs");
      multiply(*product, dtype, {});
      check_rocblas(api_.end_size_query(handle_, &workspace), "say how much memory it needs");
    }
    if (std::string problem = gpu::scratch_problem(workspace, most_rocblas_workspace); !problem.empty())
      return {{"gemm", workspace, nullptr, nullptr, std::move(problem)}};
    workspace = std::max(workspace, least_workspace);
    return {
        {"gemm", workspace,
         [this, product = *product, dtype, workspace](gpu::Stream stream, std::span<void* const> buffers) {
           const std::scoped_lock lock(mutex_);
           check_rocblas(api_.set_stream(handle_, stream), "use a stream");
           check_rocblas(api_.set_workspace(handle_, buffers.back(), workspace), "use scratch memory");
           check_rocblas(multiply(product, dtype, buffers), "multiply");
         }}};
  }

 private:
  // `buffers` is empty in a query for the memory that the product needs.
  int multiply(const BlasProduct& p, DType dtype, std::span<void* const> buffers) const {
    constexpr double one = 1, zero = 0;
    constexpr float one_f32 = 1, zero_f32 = 0;
    const bool f64 = dtype == DType::f64;
    const int type = rocblas_type(dtype), compute = rocblas_type(f64 ? DType::f64 : DType::f32);
    const auto data = [&](const BlasProduct::Matrix& x) {
      return buffers.empty() ? nullptr : buffers[static_cast<size_t>(x.buffer)];
    };
    const auto narrow = [](int64_t value) { return static_cast<int>(value); };
    return api_.multiply(handle_, p.a.transposed ? rocblas_transpose : rocblas_plain,
                         p.b.transposed ? rocblas_transpose : rocblas_plain, narrow(p.m), narrow(p.n),
                         narrow(p.k), f64 ? static_cast<const void*>(&one) : &one_f32, data(p.a), type,
                         narrow(p.a.leading), p.a.batch, data(p.b), type, narrow(p.b.leading), p.b.batch,
                         f64 ? static_cast<const void*>(&zero) : &zero_f32, data(p.c), type,
                         narrow(p.c.leading), p.c.batch, data(p.c), type, narrow(p.c.leading), p.c.batch,
                         narrow(p.batch), compute, rocblas_standard_algorithm, 0, 0);
  }

  const RocblasApi& api_;
  void* handle_ = nullptr;    // lives as long as the process
  mutable std::mutex mutex_;  // the handle has one stream and one workspace at a time
};

std::unique_ptr<gpu::KernelLibrary> open_rocblas(const gpu::Facts& device) {
  static const os::Library library = gpu::load_kernel_library("rocBLAS", device.release);
  static const RocblasApi api = read_rocblas(library);
  gpu::require_kernels_for(device, library, "rocblas/library", "ROCBLAS_TENSILE_LIBPATH");
  return make_rocblas(api);
}

[[maybe_unused]] const bool rocblas_registered =
    gpu::register_library({"rocBLAS", GpuTarget::hip, {"batch_matmul"}, open_rocblas});

}  // namespace

RocblasApi read_rocblas(const os::Library& library) {
  RocblasApi api;
  int (*version)(char*, size_t) = nullptr;
  gpu::Finder finder(library);
  finder.find(version, "rocblas_get_version_string")
      .find(api.create, "rocblas_create_handle")
      .find(api.set_stream, "rocblas_set_stream")
      .find(api.set_atomics, "rocblas_set_atomics_mode")
      .find(api.set_workspace, "rocblas_set_workspace")
      .find(api.begin_size_query, "rocblas_start_device_memory_size_query")
      .find(api.end_size_query, "rocblas_stop_device_memory_size_query")
      .find(api.multiply, "rocblas_gemm_strided_batched_ex");
  gpu::require_functions(finder, library);
  std::array<char, 256> text{};
  check_rocblas(version(text.data(), text.size()), "say its version");
  int major = 0, minor = 0, patch = 0;                                   // of "4.2.0.0ad0c37"
  if (std::sscanf(text.data(), "%d.%d.%d", &major, &minor, &patch) < 2)  // NOLINT(cert-err34-c)
    throw Error(ErrorCode::device, fmt::format("its version is not a number: '{}'", text.data()));
  api.version = gpu::version_text(major, minor, patch);
  return api;
}

std::unique_ptr<gpu::KernelLibrary> make_rocblas(const RocblasApi& api) {
  return std::make_unique<Rocblas>(api);
}

}  // namespace athanor::hip
