// Kernel libraries as candidates: how they are found, asked, given operands and left out.
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

#include "athanor/backends/cuda/libraries/cublaslt.h"
#include "athanor/backends/cuda/libraries/cudnn.h"
#include "athanor/backends/gpu/libraries/conv.h"
#include "athanor/backends/hip/libraries/hipblaslt.h"
#include "athanor/backends/hip/libraries/miopen.h"
#include "athanor/backends/hip/libraries/rocblas.h"
#include "athanor/device/kernel_libraries.h"
#include "athanor/device/sighting.h"
#include "athanor/kernels/epilogue.h"
#include "athanor/kernels/finish_by_loop.h"
#include "athanor/ops/conv_problem.h"
#include "tests/backends/fake_libraries.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace athanor {
namespace {

using testing::TestOperand;
using testing::view;

// Devices are never destroyed, here as elsewhere.
gpu::GpuDevice& make_device(GpuTarget target, int release, const std::string& architecture) {
  static auto& all = *new std::vector<std::unique_ptr<gpu::GpuDevice>>;
  auto driver = std::make_unique<testing::HostDriver>(target, release, architecture);
  return *all.emplace_back(std::make_unique<gpu::GpuDevice>(std::move(driver)));
}

/// A stand-in for the library of matrix products with this name.
std::unique_ptr<gpu::KernelLibrary> product_library(const std::string& name) {
  static const gpu::BlasLtApi cublas = cuda::read_cublas_lt(testing::fake_library("libcublasLt.so.12"));
  static const gpu::BlasLtApi hipblas = hip::read_hipblas_lt(testing::fake_library("libhipblaslt.so.0"));
  static const hip::RocblasApi rocblas = hip::read_rocblas(testing::fake_library("librocblas.so.4"));
  if (name == "cuBLASLt") return gpu::make_blas_lt(cublas, true);
  return name == "hipBLASLt" ? gpu::make_blas_lt(hipblas, true) : hip::make_rocblas(rocblas);
}

class LibraryProducts : public ::testing::TestWithParam<std::string> {
 protected:
  bool is_lt() const { return GetParam() != "rocBLAS"; }
  void check(const std::vector<TestOperand>& inputs, const Shape& shape, const Epilogue& epilogue = {},
             bool computes = true) {
    const DType dtype = inputs[0].desc.dtype;
    testing::check_library(device_, *library_,
                           testing::request_of("batch_matmul", {}, inputs, shape, epilogue), inputs,
                           !computes ? 0
                           : is_lt() ? 2
                                     : 1,
                           testing::tolerance_of(dtype));
  }
  gpu::GpuDevice& device_ = make_device(GpuTarget::cuda, 12, "sm_86");
  std::unique_ptr<gpu::KernelLibrary> library_ = product_library(GetParam());
};

INSTANTIATE_TEST_SUITE_P(Each, LibraryProducts, ::testing::Values("cuBLASLt", "hipBLASLt", "rocBLAS"),
                         [](const auto& one) { return one.param; });

TEST_P(LibraryProducts, HaveAVersion) {
  EXPECT_EQ(library_->version(), GetParam() == "cuBLASLt"    ? "12.9.3"
                                 : GetParam() == "hipBLASLt" ? "0.10.2"
                                                             : "4.2.1");
}

TEST_P(LibraryProducts, AreComputedInEachDType) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64})
    check({view(dtype, {1, 5, 7}, 1), view(dtype, {1, 7, 3}, 2)}, {1, 5, 3});
}

TEST_P(LibraryProducts, OfTransposedAndPaddedMatrices) {
  for (const Ints& a : {Ints{35, 7, 1}, Ints{35, 1, 5}, Ints{60, 12, 1}, Ints{63, 1, 9}})
    for (const Ints& b : {Ints{21, 3, 1}, Ints{21, 1, 7}, Ints{70, 10, 1}, Ints{24, 1, 8}})
      check({view(DType::f32, {1, 5, 7}, 1, a), view(DType::f32, {1, 7, 3}, 2, b)}, {1, 5, 3});
}

TEST_P(LibraryProducts, OfBatches) {
  check({view(DType::f32, {4, 5, 7}, 1), view(DType::f32, {4, 7, 3}, 2)}, {4, 5, 3});
  check({view(DType::f32, {4, 5, 7}, 1), view(DType::f32, {4, 7, 3}, 2, {0, 3, 1})}, {4, 5, 3});
  check({view(DType::f32, {4, 5, 7}, 1, {0, 7, 1}), view(DType::f32, {4, 7, 3}, 2)}, {4, 5, 3});
  // The heads of attention, which are adjacent in memory.
  check({view(DType::f32, {4, 5, 8}, 1, {8, 32, 1}), view(DType::f32, {4, 8, 6}, 2, {8, 1, 32})}, {4, 5, 6});
}

TEST_P(LibraryProducts, OfMatricesOfOneRowOrColumn) {
  check({view(DType::f32, {1, 1, 7}, 1), view(DType::f32, {1, 7, 3}, 2)}, {1, 1, 3});
  check({view(DType::f32, {1, 5, 7}, 1), view(DType::f32, {1, 7, 1}, 2)}, {1, 5, 1});
  check({view(DType::f32, {1, 5, 1}, 1), view(DType::f32, {1, 1, 3}, 2)}, {1, 5, 3});
  check({view(DType::f32, {3, 1, 1}, 1), view(DType::f32, {3, 1, 1}, 2)}, {3, 1, 1});
}

TEST_P(LibraryProducts, HaveABiasAndReluWhereTheLibraryHasThem) {
  const std::vector<TestOperand> inputs = {view(DType::f16, {2, 5, 7}, 1), view(DType::f16, {2, 7, 3}, 2),
                                           view(DType::f16, {3}, 3)};
  check(inputs, {2, 5, 3}, {.bias = true}, is_lt());
  check(inputs, {2, 5, 3}, {.bias = true, .activation = "relu"}, is_lt());
  check({inputs[0], inputs[1]}, {2, 5, 3}, {.activation = "relu"}, is_lt());
  for (const char* other : {"tanh", "sigmoid"})
    check(inputs, {2, 5, 3}, {.bias = true, .activation = other}, false);
}

TEST_P(LibraryProducts, OfOtherStridesAndDTypesAreLeft) {
  // Neither axis is contiguous; one runs backwards; elements repeat.
  check({view(DType::f32, {1, 5, 7}, 1, {70, 14, 2}), view(DType::f32, {1, 7, 3}, 2)}, {1, 5, 3}, {}, false);
  check({view(DType::f32, {1, 5, 7}, 1, {35, -7, 1}), view(DType::f32, {1, 7, 3}, 2)}, {1, 5, 3}, {}, false);
  check({view(DType::f32, {1, 5, 7}, 1, {0, 0, 1}), view(DType::f32, {1, 7, 3}, 2)}, {1, 5, 3}, {}, false);
  check({view(DType::i32, {1, 5, 7}, 1), view(DType::i32, {1, 7, 3}, 2)}, {1, 5, 3}, {}, false);
}

/// A stand-in for the library of convolutions with this name.
std::unique_ptr<gpu::KernelLibrary> conv_library(const std::string& name) {
  static const cuda::CudnnApi cudnn = cuda::read_cudnn(testing::fake_library("libcudnn.so.9"));
  static const hip::MiopenApi miopen = hip::read_miopen(testing::fake_library("libMIOpen.so.1"));
  return name == "cuDNN" ? cuda::make_cudnn(cudnn, true) : hip::make_miopen(miopen);
}

class LibraryConvs : public ::testing::TestWithParam<std::string> {
 protected:
  struct Sizes {
    Shape x, w;
    Conv2dOptions options;
    Ints x_strides = {}, y_strides = {};
  };
  /// All three directions.
  void check(const Sizes& s, DType dtype = DType::f32) {
    const Attrs attrs = conv_attrs(s.options);
    const Shape shape = ConvProblem(s.x, s.w, attrs).y;
    const TestOperand x = view(dtype, s.x, 1, s.x_strides), w = view(dtype, s.w, 2),
                      y = view(dtype, shape, 3, s.y_strides);
    run("conv2d", attrs, {x, w}, shape);
    Attrs with_shape = attrs;
    with_shape.set("input_shape", s.x.to_ints());
    run("conv2d_input_grad", with_shape, {y, w}, s.x);
    with_shape = attrs;
    with_shape.set("weight_shape", s.w.to_ints());
    run("conv2d_weight_grad", with_shape, {x, y}, s.w);
  }
  void run(const std::string& op, const Attrs& attrs, const std::vector<TestOperand>& inputs,
           const Shape& shape, size_t kernels = 2) {
    testing::check_library(device_, *library_, testing::request_of(op, attrs, inputs, shape), inputs, kernels,
                           testing::tolerance_of(inputs[0].desc.dtype));
  }
  /// All three directions, with channels last in images and, as the library is asked, in weights.
  void check_turned(const Shape& x, const Shape& w, const Conv2dOptions& options) {
    const Attrs attrs = conv_attrs(options);
    const Shape y = ConvProblem(x, w, attrs).y;
    const auto last = [](const Shape& shape, unsigned seed) {
      return view(DType::f16, shape, seed, channels_last_strides(shape));
    };
    Attrs images = attrs, weights = attrs;
    images.set("input_shape", x.to_ints());
    weights.set("weight_shape", w.to_ints());
    for (const auto& [op, with, first, shape] : {std::tuple{"conv2d", attrs, x, y},
                                                 {"conv2d_input_grad", images, y, x},
                                                 {"conv2d_weight_grad", weights, x, w}}) {
      const bool gradient = shape == w;
      const TestOperand image = last(first, 1);
      KernelRequest request =
          testing::request_of(op, with, {image, gradient ? last(y, 2) : view(DType::f16, w, 2)}, shape);
      if (!gradient) request.outputs[0].strides = channels_last_strides(shape);
      const auto turned = gpu::turned_convs(request);
      ASSERT_EQ(turned.size(), 1U);
      const KernelRequest& asked = turned[0].asked;
      EXPECT_TRUE(gpu::turned_convs(asked).empty());
      testing::check_library(device_, *library_, asked, {image, last(gradient ? y : w, 2)}, 2,
                             testing::tolerance_of(DType::f16));
    }
  }
  gpu::GpuDevice& device_ = make_device(GpuTarget::cuda, 12, "sm_86");
  std::unique_ptr<gpu::KernelLibrary> library_ = conv_library(GetParam());
};

INSTANTIATE_TEST_SUITE_P(Each, LibraryConvs, ::testing::Values("cuDNN", "MIOpen"),
                         [](const auto& one) { return one.param; });

TEST_P(LibraryConvs, AreComputedInEachDirection) {
  check({{2, 3, 7, 6}, {4, 3, 3, 3}, {.padding = 1}});
  check({{1, 2, 11, 7}, {3, 2, 3, 2}, {.stride = {2, 3}, .padding = {2, 0}}});
  check({{2, 1, 9, 8}, {2, 1, 3, 2}, {.stride = {2, 1}, .padding = 1, .dilation = {2, 3}}});
  check({{2, 6, 5, 5}, {9, 2, 3, 3}, {.padding = 1, .groups = 3}});
  check({{1, 1, 5, 3}, {1, 1, 5, 3}, {}});
}

TEST_P(LibraryConvs, AreComputedInEachDType) {
  for (const DType dtype : {DType::f16, DType::bf16})
    check({{2, 3, 5, 4}, {4, 3, 3, 3}, {.padding = 1}}, dtype);
  if (GetParam() == "cuDNN") check({{2, 3, 5, 4}, {4, 3, 3, 3}, {.padding = 1}}, DType::f64);
}

TEST_P(LibraryConvs, ReadImagesWithChannelsLastAndPartsOfOthers) {
  check({{2, 3, 5, 4}, {4, 3, 3, 3}, {.padding = 1}, {60, 1, 12, 3}, {80, 1, 16, 4}});
  check({{2, 3, 5, 4}, {4, 3, 3, 3}, {.padding = 1}, {200, 40, 8, 2}});
}

TEST_P(LibraryConvs, TakeWeightsInTheOrderOfImages) {
  check_turned({2, 3, 5, 4}, {4, 3, 3, 2}, {.padding = 1});
  check_turned({2, 3, 1, 6}, {4, 3, 1, 3}, {});
  check_turned({2, 3, 6, 1}, {4, 3, 3, 1}, {});
}

TEST_P(LibraryConvs, LeaveWhatTheyDoNotCompute) {
  const Attrs attrs = conv_attrs({});
  const TestOperand x = view(DType::f32, {1, 2, 5, 5}, 1), w = view(DType::f32, {3, 2, 3, 3}, 2);
  run("conv2d", attrs, {view(DType::f32, {1, 2, 5, 5}, 1, {50, 25, 0, 1}), w}, {1, 3, 3, 3}, 0);
  run("conv2d", attrs, {x, view(DType::f32, {3, 2, 3, 3}, 2, {18, 9, 1, 3})}, {1, 3, 3, 3}, 0);
  KernelRequest request = testing::request_of("conv2d", attrs, {x, w}, {1, 3, 3, 3}, {.activation = "relu"});
  EXPECT_TRUE(library_->kernels(request).empty());
}

TEST_P(LibraryConvs, InTf32OnlyWhereTheLibraryHasIt) {
  const std::vector<TestOperand> inputs = {view(DType::f32, {1, 8, 5, 5}, 1),
                                           view(DType::f32, {3, 8, 3, 3}, 2)};
  KernelRequest request = testing::request_of("conv2d", conv_attrs({}), inputs, {1, 3, 3, 3});
  request.compute = ComputeType::tf32;
  const bool has = GetParam() == "cuDNN";
  ASSERT_EQ(library_->kernels(request).empty(), !has);
  if (has) testing::check_library(device_, *library_, request, inputs, 2, 1e-2);
}

class BlasLt : public ::testing::Test {
 protected:
  BlasLt() : api_(cuda::read_cublas_lt(testing::fake_library("libcublasLt.so.12"))) {}
  gpu::BlasLtApi api_;
  gpu::GpuDevice& device_ = make_device(GpuTarget::cuda, 12, "sm_86");
};

TEST_F(BlasLt, MultipliesInTf32WhereTheRequestAllowsAndTheDeviceCan) {
  const std::vector<TestOperand> inputs = {view(DType::f32, {1, 5, 70}, 1), view(DType::f32, {1, 70, 3}, 2)};
  KernelRequest request = testing::request_of("batch_matmul", {}, inputs, {1, 5, 3});
  request.compute = ComputeType::tf32;
  EXPECT_TRUE(gpu::make_blas_lt(api_, false)->kernels(request).empty());
  const auto library = gpu::make_blas_lt(api_, true);
  testing::check_library(device_, *library, request, inputs, 2, 1e-2);
  auto kernels = library->kernels(request);
  ASSERT_EQ(kernels.size(), 2U);
  const auto result = testing::run_library(
      device_, gpu::library_candidate(device_, "tf32", std::move(kernels[0])), inputs, request.output());
  const auto exact = testing::reference_of(request, inputs);
  double most = 0;
  for (size_t i = 0; i < exact.size(); ++i) most = std::max(most, std::abs(result[i] - exact[i]));
  EXPECT_GT(most, 1e-5) << "that was f32";
}

TEST_F(BlasLt, NamesAlgorithmsAndGivesThemToTheQueuesStream) {
  const std::vector<TestOperand> inputs = {view(DType::f32, {1, 5, 7}, 1), view(DType::f32, {1, 7, 3}, 2)};
  const auto library = gpu::make_blas_lt(api_, true);
  auto kernels = library->kernels(testing::request_of("batch_matmul", {}, inputs, {1, 5, 3}));
  ASSERT_EQ(kernels.size(), 2U);
  EXPECT_EQ(kernels[0].name, "algorithm 60 tile 1");
  EXPECT_EQ(kernels[0].scratch_bytes, 0U);
  EXPECT_EQ(kernels[1].scratch_bytes, 1000U);
  const Candidate candidate = gpu::library_candidate(device_, "one", std::move(kernels[1]));
  EXPECT_EQ(candidate.scratch_bytes, 1000 + gpu::scratch_alignment);
  testing::run_library(device_, candidate, inputs, {DType::f32, {1, 5, 3}, {}, {15, 3, 1}});
  EXPECT_EQ(static_cast<testing::HostDriver::HostStream*>(device_.kernels().stream())->given, 2);
}

TEST_F(BlasLt, SaysWhyItCannotMultiply) {
  const std::vector<TestOperand> inputs = {view(DType::f32, {1, 5, 7}, 1), view(DType::f32, {1, 7, 3}, 2)};
  const auto library = gpu::make_blas_lt(api_, true);
  auto kernels = library->kernels(testing::request_of("batch_matmul", {}, inputs, {1, 5, 3}));
  ASSERT_FALSE(kernels.empty());
  const Candidate candidate = gpu::library_candidate(device_, "one", std::move(kernels[0]));
  const testing::Variable fails("ATHANOR_FAKE_BLAS_LT", "fails");
  try {
    testing::run_library(device_, candidate, inputs, {DType::f32, {1, 5, 3}, {}, {15, 3, 1}});
    FAIL() << "it failed";
  } catch (const Error& error) {
    EXPECT_EQ(error.problem(), "cuBLASLt cannot multiply (status 13)");
  }
}

std::string problem_of(const auto& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.problem();
  }
  return {};
}

TEST_F(BlasLt, ALibraryThatIsOldOrBrokenIsRefused) {
  const auto lacking = testing::fake_library("lacking/libcublasLt.so.12");
  ASSERT_TRUE(lacking) << lacking.error();
  EXPECT_THAT(problem_of([&] { cuda::read_cublas_lt(lacking); }),
              ::testing::EndsWith("lacking/libcublasLt.so.12 has no cublasLtMatmul"));
  {
    const testing::Variable old("ATHANOR_FAKE_BLAS_LT_VERSION", "10302");
    EXPECT_EQ(problem_of([] { cuda::read_cublas_lt(testing::fake_library("libcublasLt.so.12")); }),
              "version 10.3.2 is too old: 11 is needed");
  }
  const testing::Variable refuses("ATHANOR_FAKE_BLAS_LT", "refuses");
  EXPECT_EQ(problem_of([&] { gpu::make_blas_lt(api_, true); }),
            "cuBLASLt cannot be used with this device (status 1)");
}

// Later registration is refused, because other threads may be reading.
TEST(GpuLibraries, AreRegisteredWhileTheProgramStartsOnly) {
  std::vector<TestOperand> inputs{view(DType::f32, {1, 4, 4}, 1), view(DType::f32, {1, 4, 4}, 2)};
  (void)make_device(GpuTarget::cuda, 12, "sm_86")
      .libraries.candidates(testing::request_of("batch_matmul", {}, inputs, {1, 4, 4}));
  testing::expect_error(ErrorCode::internal, {"registered after the program has started"}, [] {
    gpu::register_library({"a late library", GpuTarget::cuda, {"batch_matmul"}, nullptr});
  });
}

TEST(GpuLibraries, AMissingOneIsToldOnceAndLeftOut) {
  // Athanor knows no library release for CUDA 10.
  gpu::GpuDevice& device = make_device(GpuTarget::cuda, 10, "sm_70");
  const std::vector<TestOperand> inputs = {view(DType::f32, {1, 5, 7}, 1), view(DType::f32, {1, 7, 3}, 2)};
  KernelRequest request = testing::request_of("batch_matmul", {}, inputs, {1, 5, 3});
  request.libraries = false;
  EXPECT_TRUE(device.libraries.candidates(request).empty());
  EXPECT_TRUE(device.libraries.found().empty()) << "it was not to be asked";
  request.libraries = true;
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(device.libraries.candidates(request).empty());
  EXPECT_THAT(device.libraries.found(), ::testing::ElementsAre("no cuBLASLt: it is not installed"));
}

TEST(GpuLibraries, WhatTheyDoNotOfferIsToldWithTheReason) {
  const auto loaded = testing::fake_library("libcudnn.so.9");  // now the dynamic linker finds it by this name
  gpu::GpuDevice& device = make_device(GpuTarget::cuda, 12, "sm_86");
  const std::vector<TestOperand> images = {view(DType::f32, {2, 3, 5, 4}, 1),
                                           view(DType::f32, {4, 3, 3, 3}, 2)};
  const KernelRequest request = testing::request_of("conv2d", conv_attrs({}), images, {2, 4, 3, 2});
  EXPECT_TRUE(device.libraries.left_out(request).empty()) << "nothing was asked for";
  const testing::Variable large("ATHANOR_FAKE_CUDNN", "large");
  const auto candidates = device.libraries.candidates(request);
  ASSERT_EQ(candidates.size(), 1U) << ::testing::PrintToString(device.libraries.found());
  EXPECT_EQ(candidates[0].name, "cuDNN 9.13.0 algorithm 1");
  std::vector<std::string> told;
  for (const LeftOut& one : device.libraries.left_out(request)) told.push_back(one.name + ": " + one.why);
  EXPECT_THAT(told, ::testing::ElementsAre(
                        "cuDNN 9.13.0 algorithm 0: gives other bits each time",
                        "cuDNN 9.13.0 algorithm 2: needs 300 MiB of scratch memory, the most is 256 MiB"));
  const std::vector<TestOperand> repeated = {view(DType::f32, {2, 3, 5, 4}, 1, {60, 20, 0, 1}), images[1]};
  const KernelRequest unknown = testing::request_of("conv2d", conv_attrs({}), repeated, {2, 4, 3, 2});
  EXPECT_TRUE(device.libraries.candidates(unknown).empty());
  ASSERT_EQ(device.libraries.left_out(unknown).size(), 1U);
  EXPECT_EQ(device.libraries.left_out(unknown)[0].why, "has no kernel for this problem");
}

TEST(GpuLibraries, NamesFitTheInterfacesRelease) {
  const testing::TempFolder folder;
  std::filesystem::create_directories(folder.path() / "usr/lib");
  const Machine nowhere(folder.path());
  const auto names = [&](const char* library, int release) {
    std::vector<std::string> found = kernel_library_names(nowhere, library, release);
    std::erase_if(found, [](const std::string& name) { return name.starts_with('/'); });
    return found;
  };
  using ::testing::ElementsAre;
  EXPECT_THAT(names("cuBLASLt", 12), ElementsAre("libcublasLt.so.12", "libcublasLt.so.11"));
  EXPECT_THAT(names("rocBLAS", 6), ElementsAre("librocblas.so.4"));
  EXPECT_THAT(names("hipBLASLt", 7), ElementsAre("libhipblaslt.so.1"));
  EXPECT_THAT(names("cuDNN", 13), ElementsAre("libcudnn.so.9", "libcudnn.so.8"));
  EXPECT_EQ(missing_kernel_library(nowhere, "cuBLASLt", 12).fix,
            "In the Python environment that is active: pip install nvidia-cublas-cu12");
  EXPECT_EQ(missing_kernel_library(nowhere, "cuBLASLt", 13).fix,
            "In the Python environment that is active: pip install nvidia-cublas");
}

TEST(GpuLibraries, DetectListsThemFromFilesAndSaysWhatBringsTheOthers) {
  const testing::TempFolder folder;
  std::filesystem::create_directories(folder.path() / "usr/lib");
  std::ofstream(folder.path() / "usr/lib/libcublasLt.so.12") << "some library";
  RuntimeState cuda;
  cuda.name = "cuda";
  cuda.version = "CUDA 12.8";
  std::vector<FoundDevice> devices(2);
  devices[0].backends = {{.backend = "cuda", .usable = true, .device = "cuda:0"}};
  devices[1].backends = {{.backend = "cuda", .usable = false}};
  add_kernel_libraries(devices, {cuda}, Machine(folder.path()));
  EXPECT_EQ(devices[0].text("libraries"),
            "cuBLASLt; no cuDNN (convolutions; not needed). In the Python environment that is active: pip "
            "install nvidia-cudnn-cu12");
  EXPECT_EQ(devices[1].find("libraries"), nullptr) << "it cannot be used";
}

/// Problems with epilogues that no library can compute.
std::vector<std::pair<KernelRequest, std::vector<TestOperand>>> problems_with_epilogues(DType dtype) {
  std::vector<std::pair<KernelRequest, std::vector<TestOperand>>> all;
  const auto add = [&](const char* op, const Attrs& attrs, const Shape& a, const Shape& b,
                       const Shape& result, int64_t channels) {
    const std::vector<TestOperand> inputs = {view(dtype, a, 1), view(dtype, b, 2), view(dtype, {channels}, 3),
                                             view(DType::f32, {1}, 4), view(dtype, result, 5)};
    all.emplace_back(testing::request_of(op, attrs, inputs, result, {.chain = true}), inputs);
  };
  add("batch_matmul", {}, {2, 5, 7}, {2, 7, 3}, {2, 5, 3}, 3);
  add("conv2d", conv_attrs({}), {2, 3, 5, 4}, {4, 3, 3, 3}, {2, 4, 3, 2}, 4);
  return all;
}

TEST(GpuLibraries, AnEpilogueIsComputedByALoopBehindAKernelThatDoesNotKnowIt) {
  ATHANOR_NEEDS_GPU();
  for (const DeviceInfo& info : testing::gpu_devices())
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const auto& [request, inputs] : problems_with_epilogues(dtype)) {
        gpu::GpuDevice& device = gpu::gpu_device(info.device);
        Backend& backend = backend_of(info.device);
        std::vector<testing::Run> runs;
        // Our own kernels take the place of a library's.
        for (const Candidate& one : backend.candidates(info.device.index, without_epilogue(request))) {
          const Candidate both =
              finish_by_loop(one, backend.loop_kernel(info.device.index, request.epilogue), request);
          EXPECT_EQ(both.name, one.name + ", then a loop");
          runs.push_back({both.name, testing::run_library(device, both, inputs, request.output())});
        }
        ASSERT_FALSE(runs.empty());
        testing::expect_all_near(runs, testing::reference_of(request, inputs), testing::tolerance_of(dtype),
                                 request.key());
      }
}

// Runs on a backend whose memory is a (virtual) GPU's: tools/virtual-gpus, part "libraries", makes the
// dynamic linker find the libraries above.
TEST(GpuLibraries, AreCandidatesOfABackendInItsStreams) {
  ATHANOR_NEEDS_GPU();
  if (std::getenv("ATHANOR_STAND_INS") == nullptr) GTEST_SKIP() << "tools/virtual-gpus sets them up";
  const std::vector<TestOperand> matrices = {view(DType::f32, {2, 5, 7}, 1), view(DType::f32, {2, 7, 3}, 2)},
                                 images = {view(DType::f32, {2, 3, 5, 4}, 1),
                                           view(DType::f32, {4, 3, 3, 3}, 2)};
  auto problems = problems_with_epilogues(DType::f32);
  problems.emplace_back(testing::request_of("batch_matmul", {}, matrices, {2, 5, 3}), matrices);
  problems.emplace_back(testing::request_of("conv2d", conv_attrs({}), images, {2, 4, 3, 2}), images);
  // With channels last, loops turn the weights or the images.
  const auto last = [](const Shape& shape, unsigned seed) {
    return view(DType::f32, shape, seed, channels_last_strides(shape));
  };
  const Shape x{2, 3, 5, 4}, w{4, 3, 3, 3}, y{2, 4, 3, 2};
  Attrs of_images = conv_attrs({}), of_weights = of_images;
  of_images.set("input_shape", x.to_ints());
  of_weights.set("weight_shape", w.to_ints());
  for (const auto& [op, attrs, inputs, shape] :
       {std::tuple{"conv2d", conv_attrs({}), std::vector{last(x, 1), images[1]}, y},
        {"conv2d_input_grad", of_images, {last(y, 1), images[1]}, x},
        {"conv2d_weight_grad", of_weights, {last(x, 1), last(y, 2)}, w}}) {
    KernelRequest request = testing::request_of(op, attrs, inputs, shape);
    if (shape != w) request.outputs[0].strides = channels_last_strides(shape);
    ASSERT_EQ(gpu::turned_convs(request).size(), 2U);
    problems.emplace_back(request, inputs);
  }
  for (const DeviceInfo& info : testing::gpu_devices())
    for (const auto& [request, inputs] : problems) {
      gpu::GpuDevice& device = gpu::gpu_device(info.device);
      const auto candidates = device.libraries.candidates(request);
      ASSERT_FALSE(candidates.empty()) << ::testing::PrintToString(device.libraries.found());
      const auto turned = gpu::turned_convs(request);
      for (const gpu::TurnedConv& conv : turned)
        EXPECT_TRUE(std::ranges::any_of(candidates, [&](const Candidate& one) {
          return one.name.ends_with(conv.name);
        })) << conv.name;
      std::vector<testing::Run> runs;
      for (const Candidate& candidate : candidates) {
        EXPECT_EQ(candidate.name.ends_with(", then a loop"), request.has_epilogue()) << candidate.name;
        EXPECT_EQ(candidate.name.ends_with(" turned"), !turned.empty()) << candidate.name;
        runs.push_back({candidate.name, testing::run_library(device, candidate, inputs, request.output())});
      }
      testing::expect_all_near(runs, testing::reference_of(request, inputs), 2e-6, request.key());
      // The library's kernel comes after our own first guess, which deterministic runs take.
      EXPECT_EQ(backend_of(info.device).candidates(info.device.index, request).at(1).name,
                candidates[0].name);
    }
}

}  // namespace
}  // namespace athanor
