// How the images of Winograd's convolutions are cut into tiles, and how work-items take them.
#include <fmt/format.h>

#include <numeric>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/templates/tile_text.h"
#include "athanor/kernels/gpu/templates/winograd.h"

namespace athanor::gpu {

WinogradTiles::WinogradTiles(int64_t outputs_, const Shape& out, int64_t channels, const Grain& grain)
    : outputs(outputs_),
      patch(outputs + 2),
      points(patch * patch),
      rows(out[2]),
      columns(out[3]),
      of_column(ceil_div(rows, outputs)),
      of_row(ceil_div(columns, outputs)),
      images(out[0]) {
  const int64_t of_image = of_column * of_row;
  while (images > 1 && (out[0] % images != 0 || images * of_image * points * channels > grain.cached_floats))
    --images;
  count = images * of_image;
}

std::string WinogradTiles::row_of(const std::string& tile) const {
  const std::string row = divided(tile, of_row);
  return images == 1 ? row : fmt::format("{} % {}", row, of_column);
}

std::string WinogradTiles::image_of(const std::string& tile, const std::string& times) const {
  return images == 1 ? "0" : fmt::format("{} / {} * {}", tile, of_column * of_row, times);
}

WinogradRuns::WinogradRuns(const WinogradTiles& of, int64_t lanes)
    : tiles(std::gcd(lanes, of.of_row)), count(lanes / tiles), pixels(tiles * of.outputs) {}

void open_chunks(Code& code, const WinogradOrder& order, int64_t lanes, int64_t chunks) {
  const int64_t of_channel = ceil_div(order.tiles, lanes);
  code.line(fmt::format("const i64 end = MIN((i64){}, {});", order.channels * of_channel,
                        times("(GLOBAL_ID(0) + 1)", chunks)));
  code.open(fmt::format("for (i64 item = {}; item < end; ++item)", times("GLOBAL_ID(0)", chunks)));
  if (order.channels_last)
    return code.line(
        fmt::format("const int channel = (int)(item % {0}), first = (int)(item / {0});", order.channels));
  if (of_channel == 1) return code.line("const int channel = (int)item, first = 0;");
  code.line(fmt::format("const int channel = (int)(item / {0}), first = {1};", of_channel,
                        times(fmt::format("(int)(item % {})", of_channel), lanes)));
}

}  // namespace athanor::gpu
