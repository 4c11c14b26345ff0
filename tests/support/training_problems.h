// Products and convolutions as training has them, for `tools/check-gpu-kernels --guesses`.
#pragma once
#include <cstdint>

namespace athanor::testing {

/// C[m, n] = A[m, k] B[k, n]. A factor that is turned lies in memory as its transpose.
struct TrainingProduct {
  const char* name;
  int64_t m, n, k;
  bool a_turned = false, b_turned = false;
  int64_t batch = 1;
  bool in_f32 = false;  // also in f32
};

// GPT-2 small has 8 texts of 1024 tokens; dx and dw are gradients by inputs and by weights.
inline constexpr TrainingProduct training_products[] = {
    {"square 512", 512, 512, 512, false, false, 1, true},
    {"square 1024", 1024, 1024, 1024, false, false, 1, true},
    {"square 2048", 2048, 2048, 2048, false, false, 1, true},
    {"square 4096", 4096, 4096, 4096},
    {"square 8192", 8192, 8192, 8192},
    {"qkv", 8192, 2304, 768, false, false, 1, true},
    {"qkv dx", 8192, 768, 2304, false, true},
    {"qkv dw", 768, 2304, 8192, true, false, 1, true},
    {"projection", 8192, 768, 768},
    {"projection dx", 8192, 768, 768, false, true},
    {"projection dw", 768, 768, 8192, true, false, 1, true},
    {"mlp up", 8192, 3072, 768},
    {"mlp up dx", 8192, 768, 3072, false, true, 1, true},
    {"mlp up dw", 768, 3072, 8192, true},
    {"mlp down", 8192, 768, 3072},
    {"mlp down dx", 8192, 3072, 768, false, true},
    {"mlp down dw", 3072, 768, 8192, true},
    {"logits", 8192, 50257, 768, false, true},
    {"logits dx", 8192, 768, 50257},
    {"logits dw", 50257, 768, 8192, true},
    {"classes 1000", 256, 1000, 2048, false, true, 1, true},
    {"classes 1000 dw", 1000, 2048, 256, true},
    {"few rows 1", 1, 4096, 4096},
    {"few rows 16", 16, 4096, 4096, false, false, 1, true},
    {"few rows 64", 64, 4096, 4096},
    {"few columns 64", 8192, 64, 1024},
    {"batch 64 of 128", 128, 128, 128, false, false, 64, true},
    {"batch 96 scores", 1024, 1024, 64, false, true, 96},
    {"batch 96 values", 1024, 64, 1024, false, false, 96},
};

/// The same padding on all sides, stride 1.
struct TrainingConvolution {
  const char* name;
  int64_t images, channels, pixels, results, taps;
};

inline constexpr TrainingConvolution training_convolutions[] = {
    {"1x1 64>256", 32, 64, 56, 256, 1}, {"1x1 1024>256", 32, 1024, 14, 256, 1}, {"3x3 64", 32, 64, 56, 64, 3},
    {"3x3 256", 32, 256, 14, 256, 3},   {"3x3 512", 32, 512, 7, 512, 3},
};

}  // namespace athanor::testing
