// Stream-K (https://arxiv.org/abs/2301.03598): as many groups as the device runs at once divide the steps
// along k of all tiles evenly, so that no round of groups is left half empty. A group begins and ends
// anywhere: parts of a tile that several groups share are added by a second launch, in the order of k, so
// that the bits are the same each time.
#pragma once
#include <algorithm>
#include <cstdint>

#include "athanor/base/ceil_div.h"

namespace athanor::gpu {

/// Which groups compute which steps of which tiles. Tiles that fill whole rounds of groups are not divided:
/// their groups come last and have a tile each. The first `divided` tiles are divided, in shares of one to
/// two tiles if there are at least as many tiles as groups.
struct TileStream {
  int64_t tiles = 0, steps = 0;  // of the problem; steps along k of each
  int64_t divided = 0;           // tiles
  int64_t share = 0;             // steps of a group that divides them; the last may have fewer
  int64_t groups = 0;            // that divide them

  TileStream(int64_t all_tiles, int64_t steps_of_each, int64_t at_once)
      : tiles(all_tiles), steps(steps_of_each) {
    divided = tiles < 2 * at_once ? tiles : at_once + tiles % at_once;
    share = ceil_div(divided * steps, at_once);
    groups = ceil_div(divided * steps, std::max<int64_t>(share, 1));
  }
  int64_t all_groups() const { return groups + tiles - divided; }
  /// Whether any tile is shared.
  bool shares() const { return share > 0 && share % steps != 0; }
  /// A group may share its first tile and another one, so it has two places for parts.
  int64_t parts() const { return 2 * groups; }
};

}  // namespace athanor::gpu
