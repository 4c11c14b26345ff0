// The only code that knows hwloc.
#include <hwloc.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "athanor/device/topology.h"

namespace athanor {
namespace {

using nlohmann::json;

std::string text_of(hwloc_const_bitmap_t set) {
  char* text = nullptr;
  if (hwloc_bitmap_list_asprintf(&text, set) < 0) return {};
  std::string result = text;
  std::free(text);
  return result;
}

json describe(hwloc_topology_t topology, hwloc_obj_t node) {
  json sockets = json::array();
  hwloc_obj_t socket = nullptr;
  while ((socket = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PACKAGE, socket)) != nullptr)
    if (hwloc_bitmap_intersects(socket->cpuset, node->cpuset) != 0) sockets.push_back(socket->os_index);
  uint64_t l3 = 0;
  hwloc_obj_t cache = nullptr;
  while ((cache = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_L3CACHE, cache)) != nullptr)
    if (hwloc_bitmap_intersects(cache->cpuset, node->cpuset) != 0) l3 += cache->attr->cache.size;
  const int cores = hwloc_get_nbobjs_inside_cpuset_by_type(topology, node->cpuset, HWLOC_OBJ_CORE);
  const int threads = hwloc_get_nbobjs_inside_cpuset_by_type(topology, node->cpuset, HWLOC_OBJ_PU);
  return {{"index", node->os_index},
          {"memory_bytes", node->attr->numanode.local_memory},
          {"l3_bytes", l3},
          {"cores", cores},
          {"threads", threads},
          {"cpus", text_of(node->cpuset)},
          {"sockets", std::move(sockets)}};
}

}  // namespace

std::string ask_hwloc(const std::string& root) {
  if (!root.empty() && root != "/") {
    setenv("HWLOC_FSROOT", root.c_str(), 1);
    setenv("HWLOC_THISSYSTEM", "0", 1);
    // Reads only files, because this processor may not be that machine's.
    setenv("HWLOC_COMPONENTS", "linux,stop", 1);
  }
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) return R"({"error": "hwloc does not start"})";
  if (hwloc_topology_load(topology) != 0) {
    hwloc_topology_destroy(topology);
    return R"({"error": "hwloc cannot read the machine"})";
  }
  json nodes = json::array();
  hwloc_obj_t node = nullptr;
  while ((node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) != nullptr)
    nodes.push_back(describe(topology, node));
  hwloc_topology_destroy(topology);
  return json{{"nodes", std::move(nodes)}}.dump();
}

}  // namespace athanor
