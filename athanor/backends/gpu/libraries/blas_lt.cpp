#include "athanor/backends/gpu/libraries/blas_lt.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "athanor/backends/gpu/libraries/blas.h"
#include "athanor/backends/gpu/libraries/description.h"
#include "athanor/base/error.h"
#include "athanor/kernels/epilogue.h"

namespace athanor::gpu {
namespace {

constexpr int most_kernels = 3;                    // for one request: each is timed
constexpr uint64_t most_workspace = 32ULL << 20U;  // bytes
constexpr size_t vector_alignment = 16;            // of a bias

void check_lt(const BlasLtApi& api, int code, const char* doing) {
  if (code != 0)
    throw Error(ErrorCode::device, fmt::format("{} cannot {} (status {})", api.name, doing, code), {},
                "ATHANOR_DISABLE=libraries computes without it");
}

// A bit for each operation after the product, the same in both libraries.
std::optional<uint32_t> epilogue_of(const KernelRequest& request) {
  constexpr uint32_t nothing = 1, relu = 2, bias = 4;
  const auto epilogue = simple_epilogue(request);
  if (!epilogue || (epilogue->activation != Activation::none && epilogue->activation != Activation::relu))
    return {};
  const uint32_t bits = (epilogue->activation == Activation::relu ? relu : 0) | (epilogue->bias ? bias : 0);
  return bits == 0 ? nothing : bits;
}

// A product with its descriptions, which all its algorithms share.
class LtProduct {
 public:
  LtProduct(const BlasLtApi& api, void* handle, const KernelRequest& request, const BlasProduct& product,
            uint32_t epilogue)
      : api_(api),
        handle_(handle),
        product_(product),
        f64_(request.output().dtype == DType::f64),
        type_(data_type_number(request.output().dtype)),
        what_(describe(request.compute == ComputeType::tf32)),
        a_(layout(product.a)),
        b_(layout(product.b)),
        c_(layout(product.c)) {
    const auto operation = [&](const BlasProduct::Matrix& x) {
      return x.transposed ? api.operation_transpose : api.operation_none;
    };
    set(api.description.transpose_a, operation(product.a));
    set(api.description.transpose_b, operation(product.b));
    set(api.description.epilogue, epilogue);
    if (product.bias_buffer < 0) return;
    set(api.description.bias_type, type_);
    // Only the pointer's alignment counts before the product runs.
    set(api.description.bias_pointer, reinterpret_cast<const void*>(scratch_alignment));
  }

  struct Found {
    std::vector<std::byte> algorithm;
    size_t workspace = 0;
  };
  /// {} for a product that the library does not support.
  std::vector<Found> find(const KernelRequest& request) const {
    const Description preference = make_preference(request);
    // {algorithm, size_t workspace, int state, float waves, int reserved[4]}
    const size_t state_at = api_.algorithm_bytes + sizeof(size_t);
    const size_t stride = state_at + 2 * sizeof(int) + 4 * sizeof(int);
    std::vector<std::byte> results(stride * most_kernels);
    int count = 0;
    const int code = api_.find(handle_, what_.get(), a_.get(), b_.get(), c_.get(), c_.get(), preference.get(),
                               most_kernels, results.data(), &count);
    if (code == api_.not_supported || code == api_.invalid_value) return {};
    check_lt(api_, code, "choose an algorithm");
    std::vector<Found> found;
    for (int i = 0; i < std::min(count, most_kernels); ++i) {
      const std::byte* result = results.data() + static_cast<size_t>(i) * stride;
      int state = 0;
      Found one{{result, result + api_.algorithm_bytes}};
      std::memcpy(&one.workspace, result + api_.algorithm_bytes, sizeof(size_t));
      std::memcpy(&state, result + state_at, sizeof(int));
      if (state == 0) found.push_back(std::move(one));
    }
    return found;
  }

  void multiply(const Found& way, Stream stream, std::span<void* const> buffers) const {
    constexpr double one = 1, zero = 0;
    constexpr float one_f32 = 1, zero_f32 = 0;
    const auto at = [&](int buffer) { return buffers[static_cast<size_t>(buffer)]; };
    const void* alpha = f64_ ? static_cast<const void*>(&one) : &one_f32;
    const void* beta = f64_ ? static_cast<const void*>(&zero) : &zero_f32;
    const std::scoped_lock lock(mutex_);  // the address of the bias is part of the description
    if (product_.bias_buffer >= 0) set(api_.description.bias_pointer, at(product_.bias_buffer));
    check_lt(api_,
             api_.multiply(handle_, what_.get(), alpha, at(product_.a.buffer), a_.get(),
                           at(product_.b.buffer), b_.get(), beta, at(product_.c.buffer), c_.get(),
                           at(product_.c.buffer), c_.get(), way.algorithm.data(),
                           way.workspace > 0 ? buffers.back() : nullptr, way.workspace, stream),
             "multiply");
  }

 private:
  Description describe(bool tf32) const {
    void* made = nullptr;
    const int compute = f64_ ? api_.compute_f64 : tf32 ? api_.compute_tf32 : api_.compute_f32;
    check_lt(api_, api_.describe(&made, compute, data_type_number(f64_ ? DType::f64 : DType::f32)),
             "describe a product");
    return {made, api_.forget_description};
  }

  template <class T>
  void set(int attribute, T value) const {
    check_lt(api_, api_.set(what_.get(), attribute, &value, sizeof value), "describe a product");
  }

  Description layout(const BlasProduct::Matrix& x) const {
    void* made = nullptr;
    check_lt(api_,
             api_.make_layout(&made, type_, static_cast<uint64_t>(x.rows), static_cast<uint64_t>(x.columns),
                              x.leading),
             "describe a matrix");
    const auto count = static_cast<int32_t>(product_.batch);
    Description layout(made, api_.forget_layout);
    if (count > 1) {
      check_lt(api_, api_.set_layout(made, api_.layout.batch_count, &count, sizeof count),
               "describe a batch");
      check_lt(api_, api_.set_layout(made, api_.layout.batch_stride, &x.batch, sizeof x.batch),
               "describe a batch");
    }
    return layout;
  }

  Description make_preference(const KernelRequest& request) const {
    void* made = nullptr;
    check_lt(api_, api_.make_preference(&made), "take a preference");
    const auto set_one = [&](int attribute, auto value) {
      // A preference is only a wish: this version may not know it.
      if (attribute >= 0) api_.set_preference(made, attribute, &value, sizeof value);
    };
    set_one(api_.preference.workspace, most_workspace);
    set_one(api_.preference.reductions, static_cast<uint32_t>(api_.reduced_in_compute_type));
    const int first = api_.preference.alignment_a;
    if (first >= 0)
      for (const auto& [place, buffer] : {std::pair(0, product_.a.buffer),
                                          {1, product_.b.buffer},
                                          {2, product_.c.buffer},
                                          {3, product_.c.buffer}})
        set_one(first + place, alignment_of(request, buffer));
    return {made, api_.forget_preference};
  }

  static uint32_t alignment_of(const KernelRequest& request, int buffer) {
    const auto i = static_cast<size_t>(buffer);
    return static_cast<uint32_t>(i < request.inputs.size() ? request.inputs[i].alignment
                                                           : OperandDesc::whole_vectors);
  }

  const BlasLtApi& api_;
  void* handle_;
  BlasProduct product_;
  bool f64_;
  int type_;
  Description what_, a_, b_, c_;
  mutable std::mutex mutex_;
};

class BlasLt final : public KernelLibrary {
 public:
  BlasLt(const BlasLtApi& api, bool tf32) : api_(api), tf32_(tf32) {
    check_lt(api_, api_.create(&handle_), "be used with this device");
    version_ = api_.read_version ? api_.read_version(handle_) : api_.version;
  }
  // The handle lives as long as the process: kernels use it, and the driver may be gone when it ends.

  std::string version() const override { return version_; }

  std::vector<LibraryKernel> kernels(const KernelRequest& request) override {
    const auto epilogue = epilogue_of(request);
    const bool computes =
        request.compute == ComputeType::by_dtypes || (tf32_ && request.output().dtype == DType::f32);
    if (!epilogue || !computes || data_type_number(request.output().dtype) < 0) return {};
    const auto product = blas_product(request);
    if (!product) return {};
    if (product->bias_buffer >= 0 && request.inputs[static_cast<size_t>(product->bias_buffer)].alignment <
                                         static_cast<int64_t>(vector_alignment))
      return {};
    const auto made = std::make_shared<const LtProduct>(api_, handle_, request, *product, *epilogue);
    std::vector<LibraryKernel> kernels;
    for (const auto& way : made->find(request)) {
      std::string name = api_.name_algorithm != nullptr ? api_.name_algorithm(api_, way.algorithm.data())
                                                        : fmt::format("choice {}", kernels.size() + 1);
      if (std::ranges::find(kernels, name, &LibraryKernel::name) != kernels.end()) continue;
      kernels.push_back({std::move(name), way.workspace,
                         [made, way](Stream stream, std::span<void* const> buffers) {
                           made->multiply(way, stream, buffers);
                         },
                         nullptr, scratch_problem(way.workspace, most_workspace)});
    }
    return kernels;
  }

 private:
  const BlasLtApi& api_;
  bool tf32_;
  void* handle_ = nullptr;
  std::string version_;
};

}  // namespace

std::unique_ptr<KernelLibrary> make_blas_lt(const BlasLtApi& api, bool tf32) {
  return std::make_unique<BlasLt>(api, tf32);
}

}  // namespace athanor::gpu
