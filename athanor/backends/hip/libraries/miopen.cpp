// MIOpen: convolutions on AMD's GPUs.
#include "athanor/backends/hip/libraries/miopen.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "athanor/backends/gpu/libraries/conv.h"
#include "athanor/backends/gpu/libraries/description.h"
#include "athanor/backends/gpu/libraries/load.h"
#include "athanor/base/error.h"
#include "athanor/ops/conv_kind.h"

namespace athanor::hip {
namespace {

using gpu::Description;
using gpu::LibraryConv;

constexpr size_t most_conv_kernels = 3;                     // for one request: each is timed
constexpr size_t most_conv_workspace = size_t{256} << 20U;  // bytes

void check_miopen(int code, const char* doing) {
  if (code != 0)
    throw Error(ErrorCode::device, fmt::format("MIOpen cannot {} (status {})", doing, code), {},
                "ATHANOR_DISABLE=libraries computes without it");
}

int miopen_type(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return miopen_f16;
    case DType::f32:
      return miopen_f32;
    case DType::bf16:
      return miopen_bf16;
    default:
      return -1;  // f64 is supported only partly
  }
}

// miopenConvAlgorithm_t
constexpr int fft = 2, winograd = 3;

std::string word_for(int algorithm) {
  constexpr std::array<const char*, 6> words = {"gemm", "direct", "fft", "winograd", "", "implicit gemm"};
  const auto i = static_cast<size_t>(algorithm);
  return i < words.size() && *words[i] != 0 ? fmt::format(" {}", words[i]) : "";
}

// The handle is used with one stream at a time.
struct Handle {
  void* handle = nullptr;
  std::mutex mutex;
};

// A convolution with its descriptions, which all its solutions share.
class Convolution {
 public:
  Convolution(const MiopenApi& api, Handle& handle, const LibraryConv& conv, DType dtype)
      : api_(api),
        handle_(handle),
        direction_(conv.computes == LibraryConv::Computes::y   ? api.forward
                   : conv.computes == LibraryConv::Computes::x ? api.images
                                                               : api.weights),
        x_(tensor(conv.x, dtype)),
        w_(tensor(conv.w, dtype)),
        y_(tensor(conv.y, dtype)),
        convolution_(convolution(conv)) {
    switch (conv.computes) {
      case LibraryConv::Computes::y:
        operands_ = {{{&w_, conv.w.buffer}, {&x_, conv.x.buffer}, {&y_, conv.y.buffer}}};
        break;
      case LibraryConv::Computes::x:
        operands_ = {{{&y_, conv.y.buffer}, {&w_, conv.w.buffer}, {&x_, conv.x.buffer}}};
        break;
      case LibraryConv::Computes::w:
        operands_ = {{{&y_, conv.y.buffer}, {&x_, conv.x.buffer}, {&w_, conv.w.buffer}}};
        break;
    }
  }

  /// In the order of their estimated time; those that need too much memory come after the others.
  std::vector<MiopenSolution> solutions() const {
    const std::scoped_lock lock(handle_.mutex);
    size_t count = 0;
    if (direction_.count(handle_.handle, at(0), at(1), convolution_.get(), at(2), &count) != 0) return {};
    std::vector<MiopenSolution> found(count);
    if (count == 0 || direction_.solutions(handle_.handle, at(0), at(1), convolution_.get(), at(2), count,
                                           &count, found.data()) != 0)
      return {};
    found.resize(std::min(count, found.size()));
    for (MiopenSolution& one : found)
      if (direction_.workspace(handle_.handle, at(0), at(1), convolution_.get(), at(2), one.id,
                               &one.workspace) != 0)
        one.workspace = SIZE_MAX;
    std::erase_if(found, [](const MiopenSolution& one) { return one.workspace == SIZE_MAX; });
    std::ranges::stable_sort(found, {}, &MiopenSolution::milliseconds);
    const auto large = std::ranges::stable_partition(
        found, [](const auto& one) { return one.workspace <= most_conv_workspace; });
    const auto usable = large.begin() - found.begin();
    const auto most = static_cast<std::ptrdiff_t>(most_conv_kernels);
    if (usable > most) found.erase(found.begin() + most, found.begin() + usable);
    return found;
  }

  void compile(const MiopenSolution& one) const {
    const std::scoped_lock lock(handle_.mutex);
    check_miopen(direction_.compile(handle_.handle, at(0), at(1), convolution_.get(), at(2), one.id),
                 "compile a solution");
  }

  void run(const MiopenSolution& one, gpu::Stream stream, std::span<void* const> buffers) const {
    const auto data = [&](size_t i) { return buffers[static_cast<size_t>(operands_[i].second)]; };
    const std::scoped_lock lock(handle_.mutex);
    check_miopen(api_.set_stream(handle_.handle, stream), "use a stream");
    check_miopen(direction_.run(handle_.handle, at(0), data(0), at(1), data(1), convolution_.get(), at(2),
                                data(2), one.workspace > 0 ? buffers.back() : nullptr, one.workspace, one.id),
                 "convolve");
  }

 private:
  void* at(size_t i) const { return operands_[i].first->get(); }

  Description tensor(const LibraryConv::Tensor& x, DType dtype) const {
    void* made = nullptr;
    check_miopen(api_.create_tensor(&made), "describe a tensor");
    Description description(made, api_.destroy_tensor);
    check_miopen(api_.set_tensor(made, miopen_type(dtype), 4, x.extents.data(), x.strides.data()),
                 "describe a tensor");
    return description;
  }

  Description convolution(const LibraryConv& conv) const {
    void* made = nullptr;
    check_miopen(api_.create_convolution(&made), "describe a convolution");
    Description description(made, api_.destroy_convolution);
    check_miopen(api_.set_convolution(made, 2, conv.padding.data(), conv.stride.data(), conv.dilation.data(),
                                      miopen_cross_correlation),
                 "describe a convolution");
    check_miopen(api_.set_groups(made, conv.groups), "describe groups");
    // So that a resumed run computes the same numbers.
    check_miopen(api_.set_attribute(made, miopen_deterministic, 1),
                 "be told to give the same numbers each time");
    return description;
  }

  const MiopenApi& api_;
  Handle& handle_;
  const MiopenApi::Direction& direction_;
  Description x_, w_, y_, convolution_;
  std::array<std::pair<const Description*, int>, 3> operands_;  // in the order of the direction's functions
};

class Miopen final : public gpu::KernelLibrary {
 public:
  explicit Miopen(const MiopenApi& api) : api_(api) {
    check_miopen(api_.create(&handle_.handle), "be used with this device");
  }

  std::string version() const override { return api_.version; }

  std::vector<gpu::LibraryKernel> kernels(const KernelRequest& request) override {
    const DType dtype = request.output().dtype;
    if (request.compute != ComputeType::by_dtypes || miopen_type(dtype) < 0) return {};
    const auto conv = gpu::library_conv(request);
    if (!conv) return {};
    std::shared_ptr<const Convolution> made;
    try {
      made = std::make_shared<const Convolution>(api_, handle_, *conv, dtype);
    } catch (const Error&) {
      return {};  // MIOpen does not support this convolution
    }
    std::vector<gpu::LibraryKernel> kernels;
    for (const MiopenSolution& one : made->solutions())
      kernels.push_back({fmt::format("solution {}{}", one.id, word_for(one.algorithm)), one.workspace,
                         [made, one](gpu::Stream stream, std::span<void* const> buffers) {
                           made->run(one, stream, buffers);
                         },
                         [made, one] { made->compile(one); },
                         gpu::scratch_problem(one.workspace, most_conv_workspace),
                         one.algorithm == fft || one.algorithm == winograd});
    return kernels;
  }

 private:
  const MiopenApi& api_;
  Handle handle_;  // lives as long as the process: kernels use it
};

std::unique_ptr<gpu::KernelLibrary> open_miopen(const gpu::Facts& device) {
  static const MiopenApi api = read_miopen(gpu::load_kernel_library("MIOpen", device.release));
  return make_miopen(api);
}

[[maybe_unused]] const bool miopen_registered =
    gpu::register_library({"MIOpen", GpuTarget::hip, conv_ops(), open_miopen});

}  // namespace

MiopenApi read_miopen(const os::Library& library) {
  MiopenApi api;
  int (*version)(size_t*, size_t*, size_t*) = nullptr;
  gpu::Finder finder(library);
  finder.find(version, "miopenGetVersion")
      .find(api.create, "miopenCreate")
      .find(api.set_stream, "miopenSetStream")
      .find(api.create_tensor, "miopenCreateTensorDescriptor")
      .find(api.set_tensor, "miopenSetTensorDescriptor")
      .find(api.destroy_tensor, "miopenDestroyTensorDescriptor")
      .find(api.create_convolution, "miopenCreateConvolutionDescriptor")
      .find(api.set_convolution, "miopenInitConvolutionNdDescriptor")
      .find(api.set_groups, "miopenSetConvolutionGroupCount")
      .find(api.set_attribute, "miopenSetConvolutionAttribute")
      .find(api.destroy_convolution, "miopenDestroyConvolutionDescriptor");
  const auto direction = [&](MiopenApi::Direction& one, const std::string& name) {
    const std::string start = "miopenConvolution" + name;
    finder.find(one.count, (start + "GetSolutionCount").c_str())
        .find(one.solutions, (start + "GetSolution").c_str())
        .find(one.workspace, (start + "GetSolutionWorkspaceSize").c_str())
        .find(one.compile, (start + "CompileSolution").c_str())
        .find(one.run, (start + "Immediate").c_str());
  };
  direction(api.forward, "Forward");
  direction(api.images, "BackwardData");
  direction(api.weights, "BackwardWeights");
  gpu::require_functions(finder, library);
  size_t major = 0, minor = 0, patch = 0;
  check_miopen(version(&major, &minor, &patch), "say its version");
  api.version = gpu::version_text(static_cast<int>(major), static_cast<int>(minor), static_cast<int>(patch));
  return api;
}

std::unique_ptr<gpu::KernelLibrary> make_miopen(const MiopenApi& api) {
  return std::make_unique<Miopen>(api);
}

}  // namespace athanor::hip
