// The instruction sets of this processor, for Highway: replaces a part of its library (hwy/targets.cc), of
// which Debian has no static archive.
#include <hwy/targets.h>

namespace hwy {
namespace {

int64_t mocked = 0;  // set by SetSupportedTargetsForTest()

int64_t targets_here() {
  int64_t targets = HWY_SCALAR | HWY_EMU128 | HWY_BASELINE_TARGETS;
#if HWY_ARCH_X86
  __builtin_cpu_init();
  const auto all = [](auto... has) { return (... && (has != 0)); };
  if (all(__builtin_cpu_supports("ssse3"))) targets |= HWY_SSSE3;
  if (all(__builtin_cpu_supports("sse4.2"), __builtin_cpu_supports("pclmul"), __builtin_cpu_supports("aes")))
    targets |= HWY_SSE4;
  const bool avx2 =
      all(__builtin_cpu_supports("avx2"), __builtin_cpu_supports("fma"), __builtin_cpu_supports("bmi"),
          __builtin_cpu_supports("bmi2"), __builtin_cpu_supports("lzcnt"), __builtin_cpu_supports("f16c"));
  if (avx2) targets |= HWY_AVX2;
  const bool avx3 = avx2 && all(__builtin_cpu_supports("avx512f"), __builtin_cpu_supports("avx512vl"),
                                __builtin_cpu_supports("avx512dq"), __builtin_cpu_supports("avx512bw"),
                                __builtin_cpu_supports("avx512cd"));
  if (avx3) targets |= HWY_AVX3;
  if (avx3 && all(__builtin_cpu_supports("avx512vnni"), __builtin_cpu_supports("avx512vbmi"),
                  __builtin_cpu_supports("avx512vbmi2"), __builtin_cpu_supports("avx512bitalg"),
                  __builtin_cpu_supports("avx512vpopcntdq"), __builtin_cpu_supports("vaes"),
                  __builtin_cpu_supports("vpclmulqdq"), __builtin_cpu_supports("gfni")))
    targets |= HWY_AVX3_DL;
#endif
  return targets;
}

}  // namespace

HWY_DLLEXPORT int64_t SupportedTargets() {
  static const int64_t here = targets_here();
  return mocked != 0 ? mocked : here;
}

HWY_DLLEXPORT void SetSupportedTargetsForTest(int64_t targets) {
  mocked = targets;
  GetChosenTarget().DeInit();  // so that it is chosen anew
}

HWY_DLLEXPORT ChosenTarget& GetChosenTarget() {
  static ChosenTarget chosen;
  return chosen;
}

}  // namespace hwy
