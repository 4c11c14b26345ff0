// A libcuda.so.1 with cards of compute capability 1.0, for which no NVRTC compiles any more: CUDA lists them,
// but they cannot be used. $ATHANOR_FAKE_CARDS: their number. $ATHANOR_FAKE_DRIVER: the version of their
// driver, such as 11080 for CUDA 11.8 (12040 if not set). CUDA_VISIBLE_DEVICES is read as one number.
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

// The index of the visible card with this number, or -1.
int card_of(int number) {
  const char* const cards = std::getenv("ATHANOR_FAKE_CARDS");
  const int count = cards == nullptr ? 1 : std::atoi(cards);
  if (const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES"); visible != nullptr) {
    const int shown = *visible == 0 ? -1 : std::atoi(visible);
    return number == 0 && shown >= 0 && shown < count ? shown : -1;
  }
  return number < count ? number : -1;
}

// Handles of cards are not their numbers.
constexpr int first_handle = 1000;
int card(int handle) { return handle < first_handle ? -1 : card_of(handle - first_handle); }

constexpr int no_device = 100, invalid_device = 101, not_supported = 801;

}  // namespace

extern "C" {

int cuInit(unsigned) { return card_of(0) < 0 ? no_device : 0; }
int cuDriverGetVersion(int* version) {
  const char* const told = std::getenv("ATHANOR_FAKE_DRIVER");
  return *version = told == nullptr ? 12040 : std::atoi(told), 0;
}
int cuDeviceGetCount(int* count) {
  for (*count = 0; card_of(*count) >= 0;) ++*count;
  return 0;
}
int cuDeviceGet(int* device, int number) {
  return card_of(number) < 0 ? invalid_device : (*device = first_handle + number, 0);
}
int cuDeviceGetName(char* name, int size, int device) {
  std::snprintf(name, static_cast<size_t>(size), "Fake card %d", card(device));
  return 0;
}
int cuDeviceTotalMem_v2(size_t* bytes, int) { return *bytes = size_t{1} << 30, 0; }
int cuDeviceGetAttribute(int* value, int attribute, int) {
  constexpr int major = 75, minor = 76;
  *value = attribute == major ? 1 : attribute == minor ? 0 : 16;
  return 0;
}
int cuDeviceGetPCIBusId(char* text, int size, int device) {
  std::snprintf(text, static_cast<size_t>(size), "0000:%02X:00.0", 0xA0 + card(device));
  return 0;
}
int cuDeviceGetUuid(unsigned char* bytes, int device) {
  std::memset(bytes, 0xA0 + card(device), 16);
  return 0;
}
int cuGetErrorName(int code, const char** name) {
  *name = code == no_device ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR";
  return 0;
}

// Every function named in backends/cuda/table.cpp must be here.
#define UNUSED(name) \
  int name() { return not_supported; }
UNUSED(cuDevicePrimaryCtxRetain)
UNUSED(cuCtxSetCurrent)
UNUSED(cuMemAlloc_v2)
UNUSED(cuMemFree_v2)
UNUSED(cuMemHostAlloc)
UNUSED(cuStreamCreate)
UNUSED(cuStreamSynchronize)
UNUSED(cuStreamWaitEvent)
UNUSED(cuEventCreate)
UNUSED(cuEventRecord)
UNUSED(cuEventQuery)
UNUSED(cuEventSynchronize)
UNUSED(cuEventElapsedTime)
UNUSED(cuEventDestroy_v2)
UNUSED(cuMemcpyHtoDAsync_v2)
UNUSED(cuMemcpyDtoHAsync_v2)
UNUSED(cuMemcpyDtoDAsync_v2)
UNUSED(cuMemsetD8Async)
UNUSED(cuLaunchKernel)
UNUSED(cuModuleLoadData)
UNUSED(cuModuleGetFunction)
UNUSED(cuModuleUnload)
UNUSED(cuFuncSetAttribute)
UNUSED(cuMemcpyPeerAsync)
UNUSED(cuDeviceCanAccessPeer)
UNUSED(cuCtxEnablePeerAccess)
UNUSED(cuStreamBeginCapture_v2)
UNUSED(cuStreamEndCapture)
UNUSED(cuGraphInstantiateWithFlags)
UNUSED(cuGraphLaunch)
UNUSED(cuGraphDestroy)
UNUSED(cuGraphExecDestroy)
}
