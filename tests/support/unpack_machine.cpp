// unpack_machine FIXTURE DIR: see machine_fixture.h.
#include <cstdio>
#include <exception>

#include "tests/support/machine_fixture.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s FIXTURE DIR\n", argv[0]);
    return 2;
  }
  try {
    athanor::testing::MachineFixture(argv[1]).unpack(argv[2]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
