// Compares our declarations of vendors' libraries with the vendors' headers, if these are installed
// (tests/CMakeLists.txt looks for them).
#include <gtest/gtest.h>

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#define ATHANOR_HAS_CUBLASLT
#endif
#if __has_include(<cudnn.h>)
#include <cudnn.h>
#define ATHANOR_HAS_CUDNN
#endif
#if __has_include(<rocblas/rocblas.h>)
#include <rocblas/rocblas.h>
#define ATHANOR_HAS_ROCBLAS
#endif
#if __has_include(<hipblaslt/hipblaslt.h>)
#include <hipblaslt/hipblaslt.h>
#define ATHANOR_HAS_HIPBLASLT
#endif
#if __has_include(<miopen/miopen.h>)
#include <miopen/miopen.h>
#define ATHANOR_HAS_MIOPEN
#endif

#include <cstddef>

#include "athanor/backends/cuda/libraries/cublaslt.h"
#include "athanor/backends/cuda/libraries/cudnn.h"
#include "athanor/backends/gpu/libraries/blas.h"
#include "athanor/backends/hip/libraries/hipblaslt.h"
#include "athanor/backends/hip/libraries/miopen.h"
#include "athanor/backends/hip/libraries/rocblas.h"

namespace athanor {
namespace {

// The stand-ins have all functions, so the tables are complete.
[[maybe_unused]] os::Library stand_in(const std::string& file) {
  return os::Library({std::string(ATHANOR_FAKE_LIBRARIES) + "/" + file});
}

[[maybe_unused]] void same(long long ours, long long theirs, const char* what) {
  EXPECT_EQ(ours, theirs) << what;
}
#define SAME(ours, theirs) same(static_cast<long long>(ours), static_cast<long long>(theirs), #theirs)

TEST(LibraryHeaders, CublasLtHasTheseNumbers) {
#ifdef ATHANOR_HAS_CUBLASLT
  const gpu::BlasLtApi api = cuda::read_cublas_lt(stand_in("libcublasLt.so.12"));
  SAME(api.operation_none, CUBLAS_OP_N);
  SAME(api.operation_transpose, CUBLAS_OP_T);
  SAME(api.compute_f32, CUBLAS_COMPUTE_32F);
  SAME(api.compute_tf32, CUBLAS_COMPUTE_32F_FAST_TF32);
  SAME(api.compute_f64, CUBLAS_COMPUTE_64F);
  SAME(api.description.transpose_a, CUBLASLT_MATMUL_DESC_TRANSA);
  SAME(api.description.transpose_b, CUBLASLT_MATMUL_DESC_TRANSB);
  SAME(api.description.epilogue, CUBLASLT_MATMUL_DESC_EPILOGUE);
  SAME(api.description.bias_pointer, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
  SAME(api.description.bias_type, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
  SAME(api.layout.batch_count, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
  SAME(api.layout.batch_stride, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
  SAME(api.preference.workspace, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
  SAME(api.preference.reductions, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
  SAME(api.preference.alignment_a, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
  SAME(api.preference.alignment_a + 1, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
  SAME(api.preference.alignment_a + 2, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
  SAME(api.preference.alignment_a + 3, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
  SAME(api.reduced_in_compute_type, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
  SAME(api.invalid_value, CUBLAS_STATUS_INVALID_VALUE);
  SAME(api.not_supported, CUBLAS_STATUS_NOT_SUPPORTED);
  SAME(api.algorithm_bytes, sizeof(cublasLtMatmulAlgo_t));
  using Result = cublasLtMatmulHeuristicResult_t;
  SAME(api.algorithm_bytes, offsetof(Result, workspaceSize));
  SAME(api.algorithm_bytes + sizeof(size_t), offsetof(Result, state));
  SAME(api.algorithm_bytes + sizeof(size_t) + 6 * sizeof(int), sizeof(Result));
  SAME(2, CUBLASLT_EPILOGUE_RELU);
  SAME(4, CUBLASLT_EPILOGUE_BIAS);
  SAME(6, CUBLASLT_EPILOGUE_RELU_BIAS);
  SAME(1, CUBLASLT_EPILOGUE_DEFAULT);
  SAME(gpu::data_type_number(DType::f32), CUDA_R_32F);
  SAME(gpu::data_type_number(DType::f64), CUDA_R_64F);
  SAME(gpu::data_type_number(DType::f16), CUDA_R_16F);
  SAME(gpu::data_type_number(DType::bf16), CUDA_R_16BF);
#else
  GTEST_SKIP() << "cublasLt.h is not installed";
#endif
}

TEST(LibraryHeaders, CudnnHasTheseNumbers) {
#ifdef ATHANOR_HAS_CUDNN
  SAME(cuda::cudnn_f32, CUDNN_DATA_FLOAT);
  SAME(cuda::cudnn_f64, CUDNN_DATA_DOUBLE);
  SAME(cuda::cudnn_f16, CUDNN_DATA_HALF);
  SAME(cuda::cudnn_bf16, CUDNN_DATA_BFLOAT16);
  SAME(cuda::cudnn_channels_first, CUDNN_TENSOR_NCHW);
  SAME(cuda::cudnn_channels_last, CUDNN_TENSOR_NHWC);
  SAME(cuda::cudnn_cross_correlation, CUDNN_CROSS_CORRELATION);
  SAME(cuda::cudnn_default_math, CUDNN_DEFAULT_MATH);
  SAME(cuda::cudnn_matrix_units, CUDNN_TENSOR_OP_MATH);
  SAME(cuda::cudnn_fma_only, CUDNN_FMA_MATH);
  SAME(cuda::cudnn_not_deterministic, CUDNN_NON_DETERMINISTIC);
  using Ours = cuda::CudnnFound;
  using Theirs = cudnnConvolutionFwdAlgoPerf_t;
  SAME(sizeof(Ours), sizeof(Theirs));
  SAME(sizeof(Ours), sizeof(cudnnConvolutionBwdDataAlgoPerf_t));
  SAME(sizeof(Ours), sizeof(cudnnConvolutionBwdFilterAlgoPerf_t));
  SAME(offsetof(Ours, workspace), offsetof(Theirs, memory));
  SAME(offsetof(Ours, determinism), offsetof(Theirs, determinism));
  SAME(offsetof(Ours, math), offsetof(Theirs, mathType));
#else
  GTEST_SKIP() << "cudnn.h is not installed";
#endif
}

TEST(LibraryHeaders, RocblasHasTheseNumbers) {
#ifdef ATHANOR_HAS_ROCBLAS
  SAME(hip::rocblas_f16, rocblas_datatype_f16_r);
  SAME(hip::rocblas_f32, rocblas_datatype_f32_r);
  SAME(hip::rocblas_f64, rocblas_datatype_f64_r);
  SAME(hip::rocblas_bf16, rocblas_datatype_bf16_r);
  SAME(hip::rocblas_plain, rocblas_operation_none);
  SAME(hip::rocblas_transpose, rocblas_operation_transpose);
  SAME(hip::rocblas_no_atomics, rocblas_atomics_not_allowed);
  SAME(hip::rocblas_standard_algorithm, rocblas_gemm_algo_standard);
#else
  GTEST_SKIP() << "rocblas/rocblas.h is not installed";
#endif
}

TEST(LibraryHeaders, HipblasLtHasTheseNumbers) {
#ifdef ATHANOR_HAS_HIPBLASLT
  const gpu::BlasLtApi api = hip::read_hipblas_lt(stand_in("libhipblaslt.so.0"));
  SAME(api.operation_none, HIPBLAS_OP_N);
  SAME(api.operation_transpose, HIPBLAS_OP_T);
  SAME(api.compute_f32, HIPBLAS_COMPUTE_32F);
  SAME(api.compute_tf32, HIPBLAS_COMPUTE_32F_FAST_TF32);
  SAME(api.compute_f64, HIPBLAS_COMPUTE_64F);
  SAME(api.description.transpose_a, HIPBLASLT_MATMUL_DESC_TRANSA);
  SAME(api.description.transpose_b, HIPBLASLT_MATMUL_DESC_TRANSB);
  SAME(api.description.epilogue, HIPBLASLT_MATMUL_DESC_EPILOGUE);
  SAME(api.description.bias_pointer, HIPBLASLT_MATMUL_DESC_BIAS_POINTER);
  SAME(api.description.bias_type, HIPBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
  SAME(api.layout.batch_count, HIPBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
  SAME(api.layout.batch_stride, HIPBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
  SAME(api.preference.workspace, HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
  SAME(api.invalid_value, HIPBLAS_STATUS_INVALID_VALUE);
  SAME(api.not_supported, HIPBLAS_STATUS_NOT_SUPPORTED);
  SAME(api.algorithm_bytes, sizeof(hipblasLtMatmulAlgo_t));
  using Result = hipblasLtMatmulHeuristicResult_t;
  SAME(api.algorithm_bytes, offsetof(Result, workspaceSize));
  SAME(api.algorithm_bytes + sizeof(size_t), offsetof(Result, state));
  SAME(api.algorithm_bytes + sizeof(size_t) + 6 * sizeof(int), sizeof(Result));
  SAME(gpu::data_type_number(DType::f32), HIP_R_32F);
  SAME(gpu::data_type_number(DType::f16), HIP_R_16F);
  SAME(gpu::data_type_number(DType::bf16), HIP_R_16BF);
#else
  GTEST_SKIP() << "hipblaslt/hipblaslt.h is not installed";
#endif
}

TEST(LibraryHeaders, MiopenHasTheseNumbers) {
#ifdef ATHANOR_HAS_MIOPEN
  SAME(hip::miopen_f16, miopenHalf);
  SAME(hip::miopen_f32, miopenFloat);
  SAME(hip::miopen_bf16, miopenBFloat16);
  SAME(hip::miopen_cross_correlation, miopenConvolution);
  SAME(hip::miopen_deterministic, MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC);
  using Ours = hip::MiopenSolution;
  SAME(sizeof(Ours), sizeof(miopenConvSolution_t));
  SAME(offsetof(Ours, workspace), offsetof(miopenConvSolution_t, workspace_size));
  SAME(offsetof(Ours, id), offsetof(miopenConvSolution_t, solution_id));
  SAME(offsetof(Ours, algorithm), offsetof(miopenConvSolution_t, algorithm));
#else
  GTEST_SKIP() << "miopen/miopen.h is not installed";
#endif
}

}  // namespace
}  // namespace athanor
