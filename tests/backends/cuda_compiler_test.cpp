// NVRTC in processes of the program `athanor`. No GPU is needed.
#include "athanor/backends/cuda/compiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "athanor/backends/gpu/runtime_compiler.h"
#include "athanor/kernels/compile_apart.h"

namespace athanor::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(CudaCompiler, CompilesInAProcessOfTheProgramBesideTheLibrary) {
  const gpu::CompilerApi& compiler = cuda::compiler_for(0, "sm_86");
  if (!compiler.missing.empty()) GTEST_SKIP() << compiler.missing;
  const CompileApartScope scope;
  const auto compile = [&](const std::string& source, size_t form) {
    return compile_apart(compiler.apart, compiler.target_apart(compiler, "sm_86", form), source, "twice");
  };
  const std::string twice = "extern \"C\" __global__ void twice(float* x) { x[threadIdx.x] *= 2; }";
  const auto binary = compile(twice, 0), text = compile(twice, 1);
  EXPECT_FALSE(compile("no program", 0).has_value());
  ASSERT_TRUE(binary.has_value());
  EXPECT_THAT(*binary, AllOf(HasSubstr("ELF"), HasSubstr("twice")));
  ASSERT_TRUE(text.has_value());
  EXPECT_THAT(*text, AllOf(HasSubstr(".target sm_86"), HasSubstr(".entry twice")));
}

}  // namespace
}  // namespace athanor::testing
