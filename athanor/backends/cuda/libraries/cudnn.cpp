// cuDNN: convolutions on NVIDIA's GPUs.
#include "athanor/backends/cuda/libraries/cudnn.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "athanor/backends/gpu/libraries/conv.h"
#include "athanor/backends/gpu/libraries/description.h"
#include "athanor/backends/gpu/libraries/load.h"
#include "athanor/base/error.h"
#include "athanor/ops/conv_kind.h"

namespace athanor::cuda {
namespace {

using gpu::Description;
using gpu::LibraryConv;

constexpr size_t most_conv_kernels = 3;                     // for one request: each is timed
constexpr size_t most_conv_workspace = size_t{256} << 20U;  // bytes

void check_cudnn(int code, const char* doing) {
  if (code != 0)
    throw Error(ErrorCode::device, fmt::format("cuDNN cannot {} (status {})", doing, code), {},
                "ATHANOR_DISABLE=libraries computes without it");
}

int type_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return cudnn_f32;
    case DType::f64:
      return cudnn_f64;
    case DType::f16:
      return cudnn_f16;
    case DType::bf16:
      return cudnn_bf16;
    default:
      return -1;
  }
}

// The handle is used with one stream at a time.
struct Handle {
  void* handle = nullptr;
  std::mutex mutex;
};

// A convolution with its descriptions, which all its algorithms share.
class Convolution {
 public:
  Convolution(const CudnnApi& api, Handle& handle, const LibraryConv& conv, const KernelRequest& request)
      : api_(api),
        handle_(handle),
        conv_(conv),
        direction_(conv.computes == LibraryConv::Computes::y   ? api.forward
                   : conv.computes == LibraryConv::Computes::x ? api.images
                                                               : api.weights),
        f64_(request.output().dtype == DType::f64),
        type_(type_of(request.output().dtype)),
        x_(tensor(conv.x)),
        w_(filter(conv.w)),
        y_(tensor(conv.y)),
        convolution_(convolution(request)) {
    switch (conv.computes) {
      case LibraryConv::Computes::y:
        operands_ = {{{&x_, conv.x.buffer}, {&w_, conv.w.buffer}, {&y_, conv.y.buffer}}};
        break;
      case LibraryConv::Computes::x:
        operands_ = {{{&w_, conv.w.buffer}, {&y_, conv.y.buffer}, {&x_, conv.x.buffer}}};
        break;
      case LibraryConv::Computes::w:
        operands_ = {{{&x_, conv.x.buffer}, {&y_, conv.y.buffer}, {&w_, conv.w.buffer}}};
        break;
    }
  }

  struct Way {
    int algorithm;
    size_t workspace;
    std::string problem = {};  // why it is not used
  };
  /// Ways without a problem are deterministic, so that a resumed run computes the same numbers.
  std::vector<Way> ways() const {
    constexpr int most = 16;
    std::array<CudnnFound, most> found{};
    int count = 0;
    const std::scoped_lock lock(handle_.mutex);
    if (direction_.choose(handle_.handle, at(0), at(1), convolution_.get(), at(2), most, &count,
                          found.data()) != 0)
      return {};
    std::vector<Way> ways;
    size_t usable = 0;
    for (int i = 0; i < std::min(count, most) && usable < most_conv_kernels; ++i) {
      const CudnnFound& one = found[static_cast<size_t>(i)];
      size_t bytes = 0;
      const auto same = [&](const Way& way) { return way.algorithm == one.algorithm; };
      if (one.status != 0 || std::ranges::any_of(ways, same)) continue;
      if (one.determinism == cudnn_not_deterministic) {
        ways.push_back({one.algorithm, 0, "gives other bits each time"});
        continue;
      }
      // The workspace of the algorithm with the arithmetic in the convolution's description.
      if (direction_.workspace(handle_.handle, at(0), at(1), convolution_.get(), at(2), one.algorithm,
                               &bytes) != 0)
        continue;
      ways.push_back({one.algorithm, bytes, gpu::scratch_problem(bytes, most_conv_workspace)});
      usable += ways.back().problem.empty() ? 1 : 0;
    }
    return ways;
  }

  void run(const Way& way, gpu::Stream stream, std::span<void* const> buffers) const {
    constexpr double one = 1, zero = 0;
    constexpr float one_f32 = 1, zero_f32 = 0;
    const void* alpha = f64_ ? static_cast<const void*>(&one) : &one_f32;
    const void* beta = f64_ ? static_cast<const void*>(&zero) : &zero_f32;
    const auto data = [&](size_t i) { return buffers[static_cast<size_t>(operands_[i].second)]; };
    const std::scoped_lock lock(handle_.mutex);
    check_cudnn(api_.set_stream(handle_.handle, stream), "use a stream");
    check_cudnn(direction_.run(handle_.handle, alpha, at(0), data(0), at(1), data(1), convolution_.get(),
                               way.algorithm, way.workspace > 0 ? buffers.back() : nullptr, way.workspace,
                               beta, at(2), data(2)),
                "convolve");
  }

 private:
  void* at(size_t i) const { return operands_[i].first->get(); }

  Description tensor(const LibraryConv::Tensor& x) const {
    void* made = nullptr;
    check_cudnn(api_.create_tensor(&made), "describe a tensor");
    Description description(made, api_.destroy_tensor);
    check_cudnn(api_.set_tensor(made, type_, 4, x.extents.data(), x.strides.data()), "describe a tensor");
    return description;
  }

  Description filter(const LibraryConv::Tensor& w) const {
    void* made = nullptr;
    check_cudnn(api_.create_filter(&made), "describe weights");
    Description description(made, api_.destroy_filter);
    const int format = conv_.channels_last ? cudnn_channels_last : cudnn_channels_first;
    check_cudnn(api_.set_filter(made, type_, format, 4, w.extents.data()), "describe weights");
    return description;
  }

  Description convolution(const KernelRequest& request) const {
    void* made = nullptr;
    check_cudnn(api_.create_convolution(&made), "describe a convolution");
    Description description(made, api_.destroy_convolution);
    check_cudnn(
        api_.set_convolution(made, 2, conv_.padding.data(), conv_.stride.data(), conv_.dilation.data(),
                             cudnn_cross_correlation, type_of(f64_ ? DType::f64 : DType::f32)),
        "describe a convolution");
    check_cudnn(api_.set_groups(made, conv_.groups), "describe groups");
    // For f32, the default would multiply in tf32.
    const bool narrow = size_of(request.output().dtype) == 2;
    check_cudnn(api_.set_math(made, narrow                                 ? cudnn_matrix_units
                                    : request.compute == ComputeType::tf32 ? cudnn_default_math
                                                                           : cudnn_fma_only),
                "choose an arithmetic");
    return description;
  }

  const CudnnApi& api_;
  Handle& handle_;
  LibraryConv conv_;
  const CudnnApi::Direction& direction_;
  bool f64_;
  int type_;
  Description x_, w_, y_, convolution_;
  std::array<std::pair<const Description*, int>, 3> operands_;  // in the order of the direction's functions
};

class Cudnn final : public gpu::KernelLibrary {
 public:
  Cudnn(const CudnnApi& api, bool tf32) : api_(api), tf32_(tf32) {
    check_cudnn(api_.create(&handle_.handle), "be used with this device");
  }

  std::string version() const override { return api_.version; }

  std::vector<gpu::LibraryKernel> kernels(const KernelRequest& request) override {
    const bool computes =
        request.compute == ComputeType::by_dtypes || (tf32_ && request.output().dtype == DType::f32);
    if (!computes || type_of(request.output().dtype) < 0) return {};
    const auto conv = gpu::library_conv(request);
    if (!conv) return {};
    std::shared_ptr<const Convolution> made;
    try {
      made = std::make_shared<const Convolution>(api_, handle_, *conv, request);
    } catch (const Error&) {
      return {};  // cuDNN does not support this convolution
    }
    std::vector<gpu::LibraryKernel> kernels;
    for (const Convolution::Way& way : made->ways())
      kernels.push_back({fmt::format("algorithm {}", way.algorithm), way.workspace,
                         [made, way](gpu::Stream stream, std::span<void* const> buffers) {
                           made->run(way, stream, buffers);
                         },
                         nullptr, way.problem, true});  // some do, by Winograd's algorithm or an FFT
    return kernels;
  }

 private:
  const CudnnApi& api_;
  bool tf32_;
  Handle handle_;  // lives as long as the process: kernels use it
};

std::unique_ptr<gpu::KernelLibrary> open_cudnn(const gpu::Facts& device) {
  static const CudnnApi api = read_cudnn(gpu::load_kernel_library("cuDNN", device.release));
  return make_cudnn(api, gpu::cuda_architecture(device) >= 80);
}

[[maybe_unused]] const bool cudnn_registered =
    gpu::register_library({"cuDNN", GpuTarget::cuda, conv_ops(), open_cudnn});

}  // namespace

CudnnApi read_cudnn(const os::Library& library) {
  CudnnApi api;
  size_t (*version)() = nullptr;
  gpu::Finder finder(library);
  finder.find(version, "cudnnGetVersion")
      .find(api.create, "cudnnCreate")
      .find(api.set_stream, "cudnnSetStream")
      .find(api.create_tensor, "cudnnCreateTensorDescriptor")
      .find(api.set_tensor, "cudnnSetTensorNdDescriptor")
      .find(api.destroy_tensor, "cudnnDestroyTensorDescriptor")
      .find(api.create_filter, "cudnnCreateFilterDescriptor")
      .find(api.set_filter, "cudnnSetFilterNdDescriptor")
      .find(api.destroy_filter, "cudnnDestroyFilterDescriptor")
      .find(api.create_convolution, "cudnnCreateConvolutionDescriptor")
      .find(api.set_convolution, "cudnnSetConvolutionNdDescriptor")
      .find(api.set_math, "cudnnSetConvolutionMathType")
      .find(api.set_groups, "cudnnSetConvolutionGroupCount")
      .find(api.destroy_convolution, "cudnnDestroyConvolutionDescriptor")
      .find(api.forward.choose, "cudnnGetConvolutionForwardAlgorithm_v7")
      .find(api.forward.workspace, "cudnnGetConvolutionForwardWorkspaceSize")
      .find(api.forward.run, "cudnnConvolutionForward")
      .find(api.images.choose, "cudnnGetConvolutionBackwardDataAlgorithm_v7")
      .find(api.images.workspace, "cudnnGetConvolutionBackwardDataWorkspaceSize")
      .find(api.images.run, "cudnnConvolutionBackwardData")
      .find(api.weights.choose, "cudnnGetConvolutionBackwardFilterAlgorithm_v7")
      .find(api.weights.workspace, "cudnnGetConvolutionBackwardFilterWorkspaceSize")
      .find(api.weights.run, "cudnnConvolutionBackwardFilter");
  gpu::require_functions(finder, library);
  // 91300 is 9.13.0; before version 9, 8907 is 8.9.7.
  const auto number = static_cast<int>(version());
  const bool wide = number >= 90000;
  api.version = wide ? gpu::version_text(number / 10000, number / 100 % 100, number % 100)
                     : gpu::version_text(number / 1000, number / 100 % 10, number % 100);
  constexpr int oldest = 8000;  // older versions cannot be told to use FMA only
  if (number < oldest)
    throw Error(ErrorCode::device, fmt::format("version {} is too old: 8 is needed", api.version));
  return api;
}

std::unique_ptr<gpu::KernelLibrary> make_cudnn(const CudnnApi& api, bool tf32) {
  return std::make_unique<Cudnn>(api, tf32);
}

}  // namespace athanor::cuda
