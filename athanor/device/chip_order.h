// The order in which people count chips.
#pragma once
#include <set>
#include <string>
#include <string_view>
#include <tuple>

namespace athanor {

/// gfx900, gfx90a, gfx1201: ordered by the text before the first digit, then by length, then by the whole
/// name. Not by number, because the last two digits of a chip may be letters.
struct ChipOrder {
  bool operator()(std::string_view a, std::string_view b) const { return place(a) < place(b); }

 private:
  static std::tuple<std::string_view, size_t, std::string_view> place(std::string_view name) {
    return {name.substr(0, name.find_first_of("0123456789")), name.size(), name};
  }
};

using Chips = std::set<std::string, ChipOrder>;

}  // namespace athanor
