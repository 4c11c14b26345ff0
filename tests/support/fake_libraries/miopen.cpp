// A libMIOpen.so with the functions of convolutions in immediate mode, on the host. Each argument is checked.
// A solution must be compiled before it runs. $ATHANOR_FAKE_MIOPEN: "refuses": makes no handle.
#include <set>

#include "conv.h"

namespace {

constexpr int bad = 3, unknown = 7;
constexpr size_t scratch = 1000;  // for solution 85

struct Handle {
  void* stream = nullptr;
  std::set<uint64_t> compiled;
};
struct Solution {
  float milliseconds;
  size_t workspace;
  uint64_t id;
  int algorithm;
};

const fake::Tensor& tensor(void* t) { return *static_cast<const fake::Tensor*>(t); }

int type_of(int type) {
  constexpr int half = 0, single = 1, bf16 = 5;
  return type == half ? fake::r_16f : type == single ? fake::r_32f : type == bf16 ? fake::r_16bf : -1;
}

int look(void* x, void* w, void* y, void* made) {
  const auto& conv = *static_cast<const fake::Convolution*>(made);
  if (!conv.fits(tensor(x), tensor(w), tensor(y))) return fake::refuse("tensors do not fit", bad);
  return conv.deterministic ? 0 : fake::refuse("results that differ from run to run", bad);
}

int solutions(size_t most, size_t* count, void* found) {
  // The slower one comes first, because the caller must sort them.
  const Solution all[] = {{2, 0, 11, 0}, {1, scratch, 85, 3}};
  *count = std::min<size_t>(most, 2);
  std::memcpy(found, all, *count * sizeof(Solution));
  return 0;
}

int workspace(uint64_t id, size_t* bytes) {
  if (id != 11 && id != 85) return fake::refuse("a solution that was not given", bad);
  return *bytes = id == 85 ? scratch : 0, 0;
}

int compile(void* handle, uint64_t id) { return static_cast<Handle*>(handle)->compiled.insert(id), 0; }

int run(void* handle, fake::Direction direction, void* x, const void* x_data, void* w, const void* w_data,
        void* y, const void* y_data, void* conv, void* memory, size_t bytes, uint64_t id) {
  if (const int code = look(x, w, y, conv); code != 0) return code;
  auto& used = *static_cast<Handle*>(handle);
  if (!used.compiled.contains(id)) return fake::refuse("a solution that was not compiled", unknown);
  size_t needed = 0;
  if (const int code = workspace(id, &needed); code != 0) return code;
  if (bytes < needed || (needed > 0 && memory == nullptr))
    return fake::refuse("too little scratch memory", bad);
  return fake::run_convolution("libamdhip64.so", used.stream, *static_cast<fake::Convolution*>(conv),
                               direction, tensor(x), x_data, tensor(w), w_data, tensor(y), y_data, memory,
                               needed, false);
}

}  // namespace

extern "C" {

int miopenGetVersion(size_t* major, size_t* minor, size_t* patch) {
  return *major = 3, *minor = 2, *patch = 0, 0;
}
int miopenCreate(void** handle) {
  if (fake::behaves("ATHANOR_FAKE_MIOPEN", "refuses")) return unknown;
  return *handle = fake::kept<Handle>(), 0;
}
int miopenSetStream(void* handle, void* stream) { return static_cast<Handle*>(handle)->stream = stream, 0; }
int miopenCreateTensorDescriptor(void** made) { return *made = new fake::Tensor, 0; }
int miopenSetTensorDescriptor(void* made, int type, int count, const int* extents, const int* strides) {
  auto& tensor = *static_cast<fake::Tensor*>(made);
  if (count != 4) return fake::refuse("a number of dimensions", bad);
  tensor.type = type_of(type);
  std::copy_n(extents, 4, tensor.extents.begin());
  std::copy_n(strides, 4, tensor.strides.begin());
  return tensor.is_right() ? 0 : fake::refuse("a tensor", bad);
}
int miopenDestroyTensorDescriptor(void* made) { return delete static_cast<fake::Tensor*>(made), 0; }
int miopenCreateConvolutionDescriptor(void** made) { return *made = new fake::Convolution, 0; }
int miopenInitConvolutionNdDescriptor(void* made, int count, const int* padding, const int* stride,
                                      const int* dilation, int mode) {
  auto& conv = *static_cast<fake::Convolution*>(made);
  if (count != 2 || mode != 0) return fake::refuse("a mode", bad);
  std::copy_n(padding, 2, conv.padding.begin());
  std::copy_n(stride, 2, conv.stride.begin());
  std::copy_n(dilation, 2, conv.dilation.begin());
  return 0;
}
int miopenSetConvolutionGroupCount(void* made, int groups) {
  return static_cast<fake::Convolution*>(made)->groups = groups, 0;
}
int miopenSetConvolutionAttribute(void* made, int attribute, int value) {
  if (attribute != 1) return fake::refuse("an unknown attribute", bad);
  return static_cast<fake::Convolution*>(made)->deterministic = value == 1, 0;
}
int miopenDestroyConvolutionDescriptor(void* made) { return delete static_cast<fake::Convolution*>(made), 0; }

int miopenConvolutionForwardGetSolutionCount(void*, void* w, void* x, void* conv, void* y, size_t* count) {
  return *count = 2, look(x, w, y, conv);
}
int miopenConvolutionForwardGetSolution(void*, void* w, void* x, void* conv, void* y, size_t most,
                                        size_t* count, void* found) {
  const int code = look(x, w, y, conv);
  return code != 0 ? code : solutions(most, count, found);
}
int miopenConvolutionForwardGetSolutionWorkspaceSize(void*, void*, void*, void*, void*, uint64_t id,
                                                     size_t* bytes) {
  return workspace(id, bytes);
}
int miopenConvolutionForwardCompileSolution(void* handle, void*, void*, void*, void*, uint64_t id) {
  return compile(handle, id);
}
int miopenConvolutionForwardImmediate(void* handle, void* w, const void* w_data, void* x, const void* x_data,
                                      void* conv, void* y, void* y_data, void* memory, size_t bytes,
                                      uint64_t id) {
  return run(handle, fake::Direction::forward, x, x_data, w, w_data, y, y_data, conv, memory, bytes, id);
}

int miopenConvolutionBackwardDataGetSolutionCount(void*, void* y, void* w, void* conv, void* x,
                                                  size_t* count) {
  return *count = 2, look(x, w, y, conv);
}
int miopenConvolutionBackwardDataGetSolution(void*, void* y, void* w, void* conv, void* x, size_t most,
                                             size_t* count, void* found) {
  const int code = look(x, w, y, conv);
  return code != 0 ? code : solutions(most, count, found);
}
int miopenConvolutionBackwardDataGetSolutionWorkspaceSize(void*, void*, void*, void*, void*, uint64_t id,
                                                          size_t* bytes) {
  return workspace(id, bytes);
}
int miopenConvolutionBackwardDataCompileSolution(void* handle, void*, void*, void*, void*, uint64_t id) {
  return compile(handle, id);
}
int miopenConvolutionBackwardDataImmediate(void* handle, void* y, const void* y_data, void* w,
                                           const void* w_data, void* conv, void* x, void* x_data,
                                           void* memory, size_t bytes, uint64_t id) {
  return run(handle, fake::Direction::images, x, x_data, w, w_data, y, y_data, conv, memory, bytes, id);
}

int miopenConvolutionBackwardWeightsGetSolutionCount(void*, void* y, void* x, void* conv, void* w,
                                                     size_t* count) {
  return *count = 2, look(x, w, y, conv);
}
int miopenConvolutionBackwardWeightsGetSolution(void*, void* y, void* x, void* conv, void* w, size_t most,
                                                size_t* count, void* found) {
  const int code = look(x, w, y, conv);
  return code != 0 ? code : solutions(most, count, found);
}
int miopenConvolutionBackwardWeightsGetSolutionWorkspaceSize(void*, void*, void*, void*, void*, uint64_t id,
                                                             size_t* bytes) {
  return workspace(id, bytes);
}
int miopenConvolutionBackwardWeightsCompileSolution(void* handle, void*, void*, void*, void*, uint64_t id) {
  return compile(handle, id);
}
int miopenConvolutionBackwardWeightsImmediate(void* handle, void* y, const void* y_data, void* x,
                                              const void* x_data, void* conv, void* w, void* w_data,
                                              void* memory, size_t bytes, uint64_t id) {
  return run(handle, fake::Direction::weights, x, x_data, w, w_data, y, y_data, conv, memory, bytes, id);
}
}
