#include "tests/fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  athanor::fuzz::cifar(std::as_bytes(std::span(data, size)));
  return 0;
}
