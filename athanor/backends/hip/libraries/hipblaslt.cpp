// hipBLASLt: products of matrices on AMD's GPUs with matrix units. Numbers are those of hipblaslt.h and
// hipblas-common.h.
#include "athanor/backends/hip/libraries/hipblaslt.h"

#include <fmt/format.h>

#include "athanor/backends/gpu/libraries/load.h"
#include "athanor/base/error.h"

namespace athanor::hip {

gpu::BlasLtApi read_hipblas_lt(const os::Library& library) {
  gpu::BlasLtApi api{
      .name = "hipBLASLt",
      .version = {},
      .operation_none = 111,
      .operation_transpose = 112,
      .compute_f32 = 2,
      .compute_tf32 = 6,
      .compute_f64 = 7,
      .description = {.transpose_a = 0, .transpose_b = 1, .epilogue = 2, .bias_pointer = 3, .bias_type = 4},
      .layout = {.batch_count = 0, .batch_stride = 1},
      .preference = {.workspace = 1},
      .invalid_value = 3,
      .not_supported = 7,
      .algorithm_bytes = 24};
  int (*version)(void*, int*) = nullptr;
  gpu::Finder finder(library);
  finder.find(version, "hipblasLtGetVersion")
      .find(api.create, "hipblasLtCreate")
      .find(api.describe, "hipblasLtMatmulDescCreate")
      .find(api.set, "hipblasLtMatmulDescSetAttribute")
      .find(api.forget_description, "hipblasLtMatmulDescDestroy")
      .find(api.make_layout, "hipblasLtMatrixLayoutCreate")
      .find(api.set_layout, "hipblasLtMatrixLayoutSetAttribute")
      .find(api.forget_layout, "hipblasLtMatrixLayoutDestroy")
      .find(api.make_preference, "hipblasLtMatmulPreferenceCreate")
      .find(api.set_preference, "hipblasLtMatmulPreferenceSetAttribute")
      .find(api.forget_preference, "hipblasLtMatmulPreferenceDestroy")
      .find(api.find, "hipblasLtMatmulAlgoGetHeuristic")
      .find(api.multiply, "hipblasLtMatmul");
  gpu::require_functions(finder, library);
  // The function takes a handle, which needs a device, but does not use it.
  api.read_version = [version](void* handle) {
    int number = 0;
    version(handle, &number);
    return gpu::version_text(number / 100000, number / 100 % 1000, number % 100);
  };
  return api;
}

namespace {

std::unique_ptr<gpu::KernelLibrary> open_hipblas_lt(const gpu::Facts& device) {
  static const os::Library library = gpu::load_kernel_library("hipBLASLt", device.release);
  static const gpu::BlasLtApi api = read_hipblas_lt(library);
  gpu::require_kernels_for(device, library, "hipblaslt/library", "HIPBLASLT_TENSILE_LIBPATH");
  // The xf32 of gfx942, which the next generation lacks.
  return gpu::make_blas_lt(api, gpu::architecture_of(device).starts_with("gfx942"));
}

[[maybe_unused]] const bool hipblas_lt_registered =
    gpu::register_library({"hipBLASLt", GpuTarget::hip, {"batch_matmul"}, open_hipblas_lt});

}  // namespace
}  // namespace athanor::hip
