// A HIP runtime of release HIP_RELEASE (5, 6 or 7) with one card, as libamdhip64.so.RELEASE. The releases
// differ in the name of the library, in their version number, and in the structure that holds the
// architecture's name. Nothing here compiles for the card, so it is listed but not usable.
#include <cstddef>
#include <cstdio>
#include <cstring>

namespace {

constexpr int release = HIP_RELEASE;
constexpr int invalid_value = 1, not_supported = 801;
constexpr const char* architecture = "gfx1100";

// Fills hipDeviceProp_t with other bytes, except for the name.
int fill_in(void* properties, size_t bytes, size_t name_at) {
  std::memset(properties, '#', bytes);
  std::strcpy(static_cast<char*>(properties) + name_at, architecture);
  return 0;
}

}  // namespace

extern "C" {

int hipInit(unsigned) { return 0; }
// 5.2.21153, 6.4.43483, 7.0.51831
int hipRuntimeGetVersion(int* version) {
  *version = release == 5 ? 50221153 : release == 6 ? 60443483 : 70051831;
  return 0;
}
int hipGetDeviceCount(int* count) { return *count = 1, 0; }
int hipDeviceGetName(char* name, int size, int) {
  std::snprintf(name, static_cast<size_t>(size), "Card of HIP %d", release);
  return 0;
}
int hipDeviceTotalMem(size_t* bytes, int) { return *bytes = size_t{1} << 30, 0; }
int hipDeviceGetAttribute(int* value, int attribute, int) {
  switch (attribute) {
    case 23:  // the major and minor version of the architecture
      return *value = 11, 0;
    case 61:
      return *value = 0, 0;
    case 26:  // the most threads of a block
    case 56:
      return *value = 1024, 0;
    case 63:
      return *value = 48, 0;
    case 74:
      return *value = 64 << 10, 0;
    case 87:
      return *value = 32, 0;
    default:
      return invalid_value;
  }
}
int hipDeviceGetPCIBusId(char* text, int size, int) {
  std::snprintf(text, static_cast<size_t>(size), "0000:b%d:00.0", release);
  return 0;
}
const char* hipGetErrorName(int) { return "hipErrorNotSupported"; }

// HIP 6 has both structures. HIP 7 gets only the new one here, to test that the old one is not needed.
#if HIP_RELEASE < 7
int hipGetDeviceProperties(void* properties, int) { return fill_in(properties, 792, 396); }
#endif
#if HIP_RELEASE > 5
int hipGetDevicePropertiesR0600(void* properties, int) { return fill_in(properties, 1472, 1160); }
#endif

// Every function named in backends/hip/table.cpp must be here.
#define UNUSED(name) \
  int name() { return not_supported; }
UNUSED(hipSetDevice)
UNUSED(hipMalloc)
UNUSED(hipFree)
UNUSED(hipHostMalloc)
UNUSED(hipStreamCreateWithFlags)
UNUSED(hipStreamSynchronize)
UNUSED(hipStreamWaitEvent)
UNUSED(hipEventCreateWithFlags)
UNUSED(hipEventRecord)
UNUSED(hipEventQuery)
UNUSED(hipEventSynchronize)
UNUSED(hipEventElapsedTime)
UNUSED(hipEventDestroy)
UNUSED(hipMemcpyHtoDAsync)
UNUSED(hipMemcpyDtoHAsync)
UNUSED(hipMemcpyDtoDAsync)
UNUSED(hipMemcpyPeerAsync)
UNUSED(hipDeviceCanAccessPeer)
UNUSED(hipDeviceEnablePeerAccess)
UNUSED(hipMemsetD8Async)
UNUSED(hipModuleLaunchKernel)
UNUSED(hipModuleLoadData)
UNUSED(hipModuleGetFunction)
UNUSED(hipModuleUnload)
}
