// cuBLASLt: products of matrices on NVIDIA's GPUs. Numbers are those of cublasLt.h and cublas_api.h.
#include "athanor/backends/cuda/libraries/cublaslt.h"

#include <fmt/format.h>

#include <utility>

#include "athanor/backends/gpu/libraries/load.h"
#include "athanor/base/error.h"

namespace athanor::cuda {
namespace {

using gpu::BlasLtApi;

std::string name_of_cublas_algorithm(const BlasLtApi& api, const void* algorithm) {
  enum : int { id = 0, tile = 1, splits = 2, swizzling = 4, option = 5, stages = 6, inner = 7, cluster = 8 };
  const auto value = [&](int attribute) {
    uint32_t number = 0;  // some attributes have 16 bits
    size_t written = 0;
    const bool narrow = attribute == inner || attribute == cluster;
    const int code = api.configuration(algorithm, attribute, &number, narrow ? 2 : 4, &written);
    return code == 0 ? number : 0;
  };
  std::string name = fmt::format("algorithm {} tile {}", value(id), value(tile));
  constexpr std::pair<int, const char*> others[] = {{stages, "stages"},      {splits, "splits"},
                                                    {swizzling, "swizzled"}, {option, "option"},
                                                    {inner, "inner"},        {cluster, "cluster"}};
  for (const auto& [attribute, word] : others)
    if (const uint32_t number = value(attribute); number != 0) name += fmt::format(" {} {}", word, number);
  return name;
}

}  // namespace

BlasLtApi read_cublas_lt(const os::Library& library) {
  BlasLtApi api{
      .name = "cuBLASLt",
      .version = {},
      .operation_none = 0,
      .operation_transpose = 1,
      .compute_f32 = 68,
      .compute_tf32 = 77,
      .compute_f64 = 70,
      .description = {.transpose_a = 3, .transpose_b = 4, .epilogue = 7, .bias_pointer = 8, .bias_type = 26},
      .layout = {.batch_count = 5, .batch_stride = 6},
      .preference = {.workspace = 1, .reductions = 3, .alignment_a = 5},
      .reduced_in_compute_type = 2,
      .invalid_value = 7,
      .not_supported = 15,
      .algorithm_bytes = 64};
  size_t (*version)() = nullptr;
  gpu::Finder finder(library);
  finder.find(version, "cublasLtGetVersion")
      .find(api.create, "cublasLtCreate")
      .find(api.describe, "cublasLtMatmulDescCreate")
      .find(api.set, "cublasLtMatmulDescSetAttribute")
      .find(api.forget_description, "cublasLtMatmulDescDestroy")
      .find(api.make_layout, "cublasLtMatrixLayoutCreate")
      .find(api.set_layout, "cublasLtMatrixLayoutSetAttribute")
      .find(api.forget_layout, "cublasLtMatrixLayoutDestroy")
      .find(api.make_preference, "cublasLtMatmulPreferenceCreate")
      .find(api.set_preference, "cublasLtMatmulPreferenceSetAttribute")
      .find(api.forget_preference, "cublasLtMatmulPreferenceDestroy")
      .find(api.find, "cublasLtMatmulAlgoGetHeuristic")
      .find(api.multiply, "cublasLtMatmul")
      .find(api.configuration, "cublasLtMatmulAlgoConfigGetAttribute");
  gpu::require_functions(finder, library);
  api.name_algorithm = name_of_cublas_algorithm;
  // 130100 is 13.1.0; before CUDA 12, 11603 is 11.6.3.
  const auto number = static_cast<int>(version());
  const int major = number >= 100000 ? number / 10000 : number / 1000;
  api.version = number >= 100000 ? gpu::version_text(major, number / 100 % 100, number % 100)
                                 : gpu::version_text(major, number / 100 % 10, number % 100);
  constexpr int oldest = 11;
  if (major < oldest)
    throw Error(ErrorCode::device, fmt::format("version {} is too old: {} is needed", api.version, oldest));
  return api;
}

namespace {

std::unique_ptr<gpu::KernelLibrary> open_cublas_lt(const gpu::Facts& device) {
  static const BlasLtApi api = read_cublas_lt(gpu::load_kernel_library("cuBLASLt", device.release));
  return gpu::make_blas_lt(api, gpu::cuda_architecture(device) >= 80);
}

[[maybe_unused]] const bool cublas_lt_registered =
    gpu::register_library({"cuBLASLt", GpuTarget::cuda, {"batch_matmul"}, open_cublas_lt});

}  // namespace
}  // namespace athanor::cuda
