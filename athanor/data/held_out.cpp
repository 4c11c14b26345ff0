#include "athanor/data/held_out.h"

#include <algorithm>
#include <map>
#include <utility>

#include "athanor/base/file.h"
#include "athanor/base/philox.h"
#include "athanor/formats/crc32.h"

namespace athanor {

std::vector<bool> held_out(const std::vector<std::string>& names, const std::vector<int64_t>& labels) {
  std::map<int64_t, std::vector<std::pair<uint32_t, size_t>>> classes;  // in an order that follows from names
  for (size_t i = 0; i < names.size(); ++i) {
    // Checksums of names that differ only in their last digits differ in few bits: Philox mixes them.
    const uint32_t checksum = crc32_of({bytes_of(names[i])});
    classes[labels[i]].emplace_back(philox4x32({checksum, 0, 0, 0}, {0, 0})[0], i);
  }
  std::vector<bool> result(names.size());
  for (auto& [label, members] : classes) {
    std::ranges::sort(members, [&](const auto& a, const auto& b) {
      return std::pair(a.first, names[a.second]) < std::pair(b.first, names[b.second]);
    });
    const size_t count = members.size() < 2 ? 0 : std::max<size_t>(1, members.size() / 10);
    for (size_t i = 0; i < count; ++i) result[members[i].second] = true;
  }
  return result;
}

}  // namespace athanor
