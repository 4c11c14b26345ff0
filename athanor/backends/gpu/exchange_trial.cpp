#include "athanor/backends/gpu/exchange_trial.h"

#include <fmt/format.h>

#include <string>

namespace athanor::gpu {
namespace {

constexpr uint32_t factor = 16777619;  // so that every bit differs between lanes

uint32_t number(uint32_t item, uint32_t which) { return item * factor + which; }
std::string number_of_item(uint32_t which) { return fmt::format("(u32)item * {}u + {}u", factor, which); }

}  // namespace

ExchangeTrial exchange_trial(const MatrixUnit& unit) {
  const uint32_t items = 2 * static_cast<uint32_t>(unit.wave);
  ExchangeTrial trial;
  std::string text = fmt::format(
      "KERNEL void exchange_lanes(BUFFER(u32, out)) {{\n"
      "  BIND(u32, out);\n"
      "  LOCAL u32 memory[{}];\n"
      "  SHUFFLE_MEMORY(memory);\n"
      "  const int item = LOCAL_ID(0), lane = item % {};\n",
      items, unit.wave);
  for (uint32_t bit = 1; bit < static_cast<uint32_t>(unit.wave); bit *= 2) {
    const uint32_t x = bit + 1000, y = bit + 2000;
    const size_t at = trial.want.size();
    text += fmt::format("  out[{} + item] = SHUFFLE_XOR({}, {});\n", at, number_of_item(bit), bit);
    text += fmt::format(
        "  {{\n    u32 x = {}, y = {};\n    EXCHANGE(x, y, lane, {});\n"
        "    out[{} + item] = x;\n    out[{} + item] = y;\n  }}\n",
        number_of_item(x), number_of_item(y), bit, at + items, at + 2 * items);
    trial.want.resize(at + 3 * items);
    for (uint32_t item = 0; item < items; ++item) {
      const uint32_t other = item ^ bit;
      const bool odd = (item & bit) != 0;
      trial.want[at + item] = number(other, bit);
      trial.want[at + items + item] = odd ? number(other, y) : number(item, x);
      trial.want[at + 2 * items + item] = odd ? number(item, y) : number(other, x);
    }
  }
  trial.launch = {.name = "exchange_lanes",
                  .source = text + "}\n",
                  .groups = {1, 1, 1},
                  .group_size = {items, 1, 1},
                  .local_bytes = 4 * items,
                  .arguments = {{0}},
                  .compile_options = compile_options_for(unit)};
  return trial;
}

}  // namespace athanor::gpu
