// Attention by units of four waves (wgmma): blocks of many sizes, whether or not they are offered for a
// problem.
#include "athanor/kernels/gpu/templates/flash_kernel.h"
#include "flash_epilogues.h"

namespace athanor::testing {
namespace {

struct Block {
  int64_t waves, block;
  bool own_local;
};

class GpuFlashByFour : public ::testing::TestWithParam<DType> {
 protected:
  /// Checks the blocks on each device that has such units.
  static void check(const FlashCase& c, const std::vector<Block>& blocks, const Ints& strides = {}) {
    each_device(blocks, [&](const FlashDevice& on) { check_flash(on, {GetParam()}, c, strides); });
  }
  static void each_device(const std::vector<Block>& blocks,
                          const std::function<void(const FlashDevice&)>& body) {
    const DType dtype = GetParam();
    for (const DeviceInfo& info : gpu_devices()) {
      gpu::GpuDevice& device = gpu::gpu_device(info.device);
      const GpuTraits traits = traits_of(device);
      const gpu::FlashUnit units = gpu::unit_of_four(dtype, traits);
      if (units.four == nullptr) continue;
      const auto candidates = [&](const KernelRequest& request) {
        std::vector<GpuCandidate> all;
        const gpu::AttentionProblem problem = gpu::attention_problem(request, gpu::attention_kind(request));
        for (const Block& block : blocks) {
          gpu::FlashPoint point{units, block.waves, 1, block.block, true, block.own_local};
          point.at_launch = gpu::FlashKernel(problem, point).local_bytes() > traits.local_bytes;
          if (gpu::FlashKernel(problem, point).fits(traits, traits.most_local_bytes()))
            all.push_back(gpu::flash_candidate(problem, point));
        }
        return all;
      };
      body({.device = &device, .traits = traits, .candidates = candidates});
      ++checked;
    }
  }
  void SetUp() override { ATHANOR_NEEDS_GPU(); }
  void TearDown() override {
    if (std::exchange(checked, 0) == 0) GTEST_SKIP() << "no device here has units of four waves";
  }

 private:
  static inline int checked = 0;
};

// Several blocks, so that both stages are filled again; the last of them, and the last group, are not
// whole.
TEST_P(GpuFlashByFour, SeveralBlocks) {
  check({{2}, 150, 210, 64, 64, true, false, 0, false},
        {{4, 64, false}, {4, 64, true}, {8, 96, false}, {8, 80, true}});
  check({{}, 70, 300, 64, 64}, {{4, 128, true}, {8, 16, false}});
}

// Rows of local memory have 64 features. Of fewer, some chunks are never written; of more, there are
// panels.
TEST_P(GpuFlashByFour, OtherFeatures) {
  check({{}, 70, 140, 128, 128}, {{4, 64, false}, {8, 64, true}});
  check({{}, 70, 140, 40, 72, true}, {{4, 64, false}, {4, 64, true}});
  check({{}, 20, 40, 6, 34}, {{4, 32, false}, {4, 32, true}});
  check({{}, 10, 30, 192, 256}, {{4, 32, false}, {4, 64, true}});
  check({{}, 40, 290, 128, 128}, {{8, 128, true}, {8, 128, false}});
}

TEST_P(GpuFlashByFour, Masks) {
  check({{}, 33, 80, 32, 32, true, true}, {{4, 64, false}, {4, 32, true}});
  check({{}, 90, 80, 32, 32, false, false, -0.2}, {{4, 64, true}});
}

TEST_P(GpuFlashByFour, HiddenRows) {
  each_device({{4, 16, false}, {4, 64, true}},
              [](const FlashDevice& on) { check_hidden_rows(on, {GetParam()}); });
}

// The first queries see no key: some of a group's, or all of the first group's.
TEST_P(GpuFlashByFour, QueriesThatSeeNoKey) {
  FlashCase some{{2}, 100, 37, 32, 32, true}, most{{}, 150, 20, 64, 64, true};
  some.with_lse = most.with_lse = true;
  check(some, {{4, 16, false}, {4, 32, true}});
  check(most, {{4, 16, true}, {8, 32, false}});
}

// The log-sum-exp of several blocks, beside the result.
TEST_P(GpuFlashByFour, LogSumExp) {
  FlashCase c{{2}, 90, 210, 64, 64, true, true};
  c.with_lse = true;
  check(c, {{4, 64, false}, {8, 80, true}});
}

TEST_P(GpuFlashByFour, Epilogues) {
  FlashCase c{{1, 2}, 70, 90, 64, 64, true, true};
  c.with_lse = true;
  each_device({{4, 64, false}, {8, 80, true}}, [&](const FlashDevice& on) {
    check_chains(on, {GetParam()}, c, {0, 2, 1, 3}, next_of);
    check_chains(on, {GetParam()}, {{2}, 33, 40, 20, 12}, {}, next_of);
  });
}

TEST_P(GpuFlashByFour, ComputedQueries) {
  each_device({{4, 64, false}, {8, 80, true}}, [](const FlashDevice& on) {
    check_computed(on, {GetParam()}, {{2, 3}, 70, 90, 64, 32, true}, DType::f32, next_of);
    check_computed(on, {GetParam()}, {{1, 2}, 37, 33, 24, 16}, GetParam(), next_of);
  });
}

TEST_P(GpuFlashByFour, Strides) { check({{2, 2}, 30, 30, 32, 32}, {{4, 16, false}}, {30 * 192, 32, 192, 1}); }

INSTANTIATE_TEST_SUITE_P(Types, GpuFlashByFour, ::testing::Values(DType::f16, DType::bf16),
                         [](const auto& instance) { return std::string(to_string(instance.param)); });

// Only sm_90a has such units.
TEST(FlashByFour, IsTheFirstGuess) {
  const auto first = [](const char* architecture, int64_t features, bool gradient = false) {
    const Shape x{8, 12, 1024, features}, rows{8, 12, 1024};
    const OperandDesc desc{DType::bf16, x, {}, contiguous_strides(x)},
        number{DType::f32, rows, {}, contiguous_strides(rows)};
    GpuTraits traits;
    add_architecture(traits, GpuTarget::cuda, architecture);
    set_driver_facts(traits, GpuTarget::cuda, architecture);
    KernelRequest request{&find_op("scaled_dot_product_attention"),
                          {{"causal", true}, {"scale", 0.125}},
                          {desc, desc, desc},
                          {desc},
                          {}};
    if (gradient) {
      request.op = &find_op("attention_grad_q");
      request.inputs = {desc, desc, desc, desc, number, number};
    }
    return candidates_for(request, traits).front().name;
  };
  for (const int64_t features : {64, 128})
    for (const bool gradient : {false, true})
      EXPECT_TRUE(first("sm_90a", features, gradient).starts_with("wgmma attention 128x"))
          << first("sm_90a", features, gradient);
  EXPECT_TRUE(first("sm_90", 64).starts_with("mma 16x8x16 attention")) << first("sm_90", 64);
}

}  // namespace
}  // namespace athanor::testing
