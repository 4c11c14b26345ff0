#include "tests/fuzz/doctor_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  athanor::fuzz::doctor({reinterpret_cast<const char*>(data), size});
  return 0;
}
