// For builds with -DATHANOR_HWLOC=OFF.
#include "athanor/device/topology.h"

namespace athanor {

std::string ask_hwloc(const std::string&) {
  return R"({"error": "memory nodes are not known: this program was built without hwloc"})";
}

}  // namespace athanor
