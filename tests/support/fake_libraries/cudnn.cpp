// A libcudnn.so with the functions for convolutions, on the host. Every argument is checked.
// $ATHANOR_FAKE_CUDNN: "refuses": makes no handle; "large": algorithm 2 needs 300 MiB.
// $ATHANOR_FAKE_CUDNN_VERSION: the version that it reports.
#include "conv.h"

namespace {

constexpr int bad = 2000, unsupported = 3000;
constexpr size_t scratch = 1000;  // for algorithm 1

struct Handle {
  void* stream = nullptr;
};
struct Found {
  int algorithm, status;
  float milliseconds;
  size_t workspace;
  int determinism, math, reserved[3];
};

const fake::Tensor& tensor(void* t) { return *static_cast<const fake::Tensor*>(t); }

int type_of(int type) {
  constexpr int bf16 = 9;
  return type == bf16 ? fake::r_16bf : type >= 0 && type <= 2 ? type : -1;
}

/// 0, or the error code if this is not a convolution that it supports.
int look(const fake::Tensor& x, const fake::Tensor& w, const fake::Tensor& y, const fake::Convolution& conv) {
  if (!conv.fits(x, w, y)) return fake::refuse("tensors do not fit", bad);
  const bool last = w.channels_last() && x.channels_last() && y.channels_last();
  if (!w.dense() && !last) return fake::refuse("weights are not in the images' order", bad);
  const bool f64 = x.type == fake::r_64f;
  if (conv.compute != (f64 ? 1 : 0)) return fake::refuse("a compute type", bad);
  const bool narrow = fake::size_of_type(x.type) == 2;
  return conv.math == (narrow ? 1 : 3) || (conv.math == 0 && x.type == fake::r_32f)
             ? 0
             : fake::refuse("an arithmetic", bad);
}

/// Algorithms: 1 with scratch memory; 0, not deterministic; 6, which lacks this problem; 2 without scratch.
int choose(int most, int* count, void* results) {
  const Found all[] = {{1, 0, 1, scratch, 1, 0, {}},
                       {0, 0, 2, 0, 0, 0, {}},
                       {6, unsupported, -1, 0, 1, 0, {}},
                       {2, 0, 3, 0, 1, 0, {}},
                       {2, 0, 4, 0, 1, 1, {}}};
  *count = std::min(most, 5);
  std::memcpy(results, all, static_cast<size_t>(*count) * sizeof(Found));
  return 0;
}

int workspace(int algorithm, size_t* bytes) {
  if (algorithm != 1 && algorithm != 2) return fake::refuse("an algorithm that was not chosen", bad);
  constexpr size_t large = size_t{300} << 20U;
  *bytes = algorithm == 1 ? scratch : fake::behaves("ATHANOR_FAKE_CUDNN", "large") ? large : 0;
  return 0;
}

int run(void* handle, const void* alpha, const void* beta, fake::Direction direction, void* x,
        const void* x_data, void* w, const void* w_data, void* y, const void* y_data, void* convolution,
        int algorithm, void* memory, size_t bytes) {
  const auto& conv = *static_cast<const fake::Convolution*>(convolution);
  if (const int code = look(tensor(x), tensor(w), tensor(y), conv); code != 0) return code;
  const bool f64 = tensor(x).type == fake::r_64f;
  const double one = f64 ? *static_cast<const double*>(alpha) : *static_cast<const float*>(alpha);
  const double zero = f64 ? *static_cast<const double*>(beta) : *static_cast<const float*>(beta);
  if (one != 1 || zero != 0) return fake::refuse("alpha or beta", bad);
  size_t needed = 0;
  if (const int code = workspace(algorithm, &needed); code != 0) return code;
  if (bytes < needed || (needed > 0 && memory == nullptr))
    return fake::refuse("too little scratch memory", bad);
  if (reinterpret_cast<uintptr_t>(memory) % 128 != 0) return fake::refuse("unaligned scratch memory", bad);
  return fake::run_convolution("libcuda.so.1", static_cast<Handle*>(handle)->stream, conv, direction,
                               tensor(x), x_data, tensor(w), w_data, tensor(y), y_data, memory, needed,
                               conv.math == 0);
}

}  // namespace

extern "C" {

size_t cudnnGetVersion() {
  const char* version = fake::setting("ATHANOR_FAKE_CUDNN_VERSION");
  return *version == 0 ? 91300 : std::strtoull(version, nullptr, 10);
}
int cudnnCreate(void** handle) {
  if (fake::behaves("ATHANOR_FAKE_CUDNN", "refuses")) return 1001;
  return *handle = fake::kept<Handle>(), 0;
}
int cudnnSetStream(void* handle, void* stream) { return static_cast<Handle*>(handle)->stream = stream, 0; }
int cudnnCreateTensorDescriptor(void** made) { return *made = new fake::Tensor, 0; }
int cudnnSetTensorNdDescriptor(void* made, int type, int count, const int* extents, const int* strides) {
  auto& tensor = *static_cast<fake::Tensor*>(made);
  if (count != 4) return fake::refuse("a number of dimensions", bad);
  tensor.type = type_of(type);
  std::copy_n(extents, 4, tensor.extents.begin());
  std::copy_n(strides, 4, tensor.strides.begin());
  return tensor.is_right() ? 0 : fake::refuse("a tensor", bad);
}
int cudnnDestroyTensorDescriptor(void* made) { return delete static_cast<fake::Tensor*>(made), 0; }
int cudnnCreateFilterDescriptor(void** made) { return *made = new fake::Tensor, 0; }
int cudnnSetFilterNdDescriptor(void* made, int type, int format, int count, const int* extents) {
  auto& tensor = *static_cast<fake::Tensor*>(made);
  if (count != 4 || (format != 0 && format != 1)) return fake::refuse("weights", bad);
  tensor.type = type_of(type);
  std::copy_n(extents, 4, tensor.extents.begin());
  format == 0 ? tensor.make_dense() : tensor.make_channels_last();
  return tensor.is_right() ? 0 : fake::refuse("weights", bad);
}
int cudnnDestroyFilterDescriptor(void* made) { return delete static_cast<fake::Tensor*>(made), 0; }
int cudnnCreateConvolutionDescriptor(void** made) { return *made = new fake::Convolution, 0; }
int cudnnSetConvolutionNdDescriptor(void* made, int count, const int* padding, const int* stride,
                                    const int* dilation, int mode, int compute) {
  auto& conv = *static_cast<fake::Convolution*>(made);
  if (count != 2 || mode != 1) return fake::refuse("a convolution, which is a cross-correlation", bad);
  std::copy_n(padding, 2, conv.padding.begin());
  std::copy_n(stride, 2, conv.stride.begin());
  std::copy_n(dilation, 2, conv.dilation.begin());
  return conv.compute = compute, 0;
}
int cudnnSetConvolutionMathType(void* made, int math) {
  return static_cast<fake::Convolution*>(made)->math = math, 0;
}
int cudnnSetConvolutionGroupCount(void* made, int groups) {
  return static_cast<fake::Convolution*>(made)->groups = groups, 0;
}
int cudnnDestroyConvolutionDescriptor(void* made) { return delete static_cast<fake::Convolution*>(made), 0; }

int cudnnGetConvolutionForwardAlgorithm_v7(void*, void* x, void* w, void* conv, void* y, int most, int* count,
                                           void* found) {
  const int code = look(tensor(x), tensor(w), tensor(y), *static_cast<fake::Convolution*>(conv));
  return code != 0 ? code : choose(most, count, found);
}
int cudnnGetConvolutionBackwardDataAlgorithm_v7(void*, void* w, void* y, void* conv, void* x, int most,
                                                int* count, void* found) {
  const int code = look(tensor(x), tensor(w), tensor(y), *static_cast<fake::Convolution*>(conv));
  return code != 0 ? code : choose(most, count, found);
}
int cudnnGetConvolutionBackwardFilterAlgorithm_v7(void*, void* x, void* y, void* conv, void* w, int most,
                                                  int* count, void* found) {
  const int code = look(tensor(x), tensor(w), tensor(y), *static_cast<fake::Convolution*>(conv));
  return code != 0 ? code : choose(most, count, found);
}
int cudnnGetConvolutionForwardWorkspaceSize(void*, void*, void*, void*, void*, int algorithm, size_t* bytes) {
  return workspace(algorithm, bytes);
}
int cudnnGetConvolutionBackwardDataWorkspaceSize(void*, void*, void*, void*, void*, int algorithm,
                                                 size_t* bytes) {
  return workspace(algorithm, bytes);
}
int cudnnGetConvolutionBackwardFilterWorkspaceSize(void*, void*, void*, void*, void*, int algorithm,
                                                   size_t* bytes) {
  return workspace(algorithm, bytes);
}
int cudnnConvolutionForward(void* handle, const void* alpha, void* x, const void* x_data, void* w,
                            const void* w_data, void* conv, int algorithm, void* memory, size_t bytes,
                            const void* beta, void* y, void* y_data) {
  return run(handle, alpha, beta, fake::Direction::forward, x, x_data, w, w_data, y, y_data, conv, algorithm,
             memory, bytes);
}
int cudnnConvolutionBackwardData(void* handle, const void* alpha, void* w, const void* w_data, void* y,
                                 const void* y_data, void* conv, int algorithm, void* memory, size_t bytes,
                                 const void* beta, void* x, void* x_data) {
  return run(handle, alpha, beta, fake::Direction::images, x, x_data, w, w_data, y, y_data, conv, algorithm,
             memory, bytes);
}
int cudnnConvolutionBackwardFilter(void* handle, const void* alpha, void* x, const void* x_data, void* y,
                                   const void* y_data, void* conv, int algorithm, void* memory, size_t bytes,
                                   const void* beta, void* w, void* w_data) {
  return run(handle, alpha, beta, fake::Direction::weights, x, x_data, w, w_data, y, y_data, conv, algorithm,
             memory, bytes);
}
}
