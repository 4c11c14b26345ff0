#include "athanor/backends/cpu/amx/amx.h"

#include <hwy/targets.h>

#include <cstdint>

#if ATHANOR_HAS_AMX
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace athanor::cpu {

#if ATHANOR_HAS_AMX

// Whether CPUID names AMX and AVX512-BF16, and Linux grants this process the tiles.
static bool find_amx() {
  constexpr unsigned amx_bf16 = 1U << 22, amx_tile = 1U << 24;  // leaf 7, subleaf 0, EDX
  constexpr unsigned avx512_bf16 = 1U << 5;                     // leaf 7, subleaf 1, EAX
  constexpr long request_permission = 0x1023, tile_data = 18;   // asm/prctl.h, since Linux 5.16
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  if ((d & amx_bf16) == 0 || (d & amx_tile) == 0) return false;
  if (__get_cpuid_count(7, 1, &a, &b, &c, &d) == 0 || (a & avx512_bf16) == 0) return false;
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

bool has_amx() {
  if ((hwy::SupportedTargets() & HWY_AVX3) == 0) return false;
  static const bool found = find_amx();
  return found;
}

namespace {

// The operand of LDTILECFG.
struct alignas(64) Configuration {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

constexpr Configuration configuration;

}  // namespace

AmxTiles::AmxTiles() { asm volatile("ldtilecfg %0" : : "m"(configuration)); }
AmxTiles::~AmxTiles() { asm volatile("tilerelease"); }

#else

bool has_amx() { return false; }
AmxTiles::AmxTiles() = default;
AmxTiles::~AmxTiles() = default;

#endif

}  // namespace athanor::cpu
