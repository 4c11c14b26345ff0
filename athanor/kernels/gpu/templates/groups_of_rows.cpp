#include "athanor/kernels/gpu/templates/groups_of_rows.h"

#include <fmt/format.h>

#include "athanor/kernels/gpu/index_code.h"

namespace athanor::gpu {

std::string GroupsOfRows::end_of(const std::string& group) const {
  return fmt::format("ends[{}]", times64(operand(group), stride));
}

std::string GroupsOfRows::begin_of() const {
  Code code;
  code.line("// Where group e begins. It is inside the matrix even if the ends are bad.");
  code.open("DEVICE int begin_of(GLOBAL const i64 *ends, int e)");
  code.line(fmt::format("return e == 0 ? 0 : (int)MIN(MAX({}, (i64)0), (i64){});", end_of("e - 1"), extent));
  code.close();
  return code.text();
}

void GroupsOfRows::report_bad_end(Code& code, const std::string& group, const std::string& once) const {
  code.open(fmt::format("if ({})", once));
  code.line(fmt::format("const i64 end = {};", end_of(group)));
  code.line(fmt::format("if (end > {} || end < ({} == 0 ? (i64)0 : {})) FAULT(fault, end);", extent, group,
                        end_of(group + " - 1")));
  code.close();
}

void GroupsOfRows::find(Code& code, int64_t tile, const std::string& group, const std::string& first,
                        const std::string& end) const {
  code.line(fmt::format("// The last group whose first slot, begin / {} + its number, is this one or before.",
                        tile));
  code.line(fmt::format("int {} = 0, above = {};", group, count + 1));
  code.open(fmt::format("while (above - {} > 1)", group));
  code.line(fmt::format("const int middle = ({} + above) / 2;", group));
  code.line(fmt::format("if (begin_of(ends, middle) / {} + middle <= slot)", tile));
  code.line(fmt::format("  {} = middle;", group));
  code.line("else");
  code.line("  above = middle;");
  code.close();
  code.line(fmt::format("const int begin = begin_of(ends, {});", group));
  code.line(
      fmt::format("const int {} = {} < {} ? begin_of(ends, {} + 1) : {};", end, group, count, group, extent));
  code.line(fmt::format("const int {0} = begin + (slot - (begin / {1} + {2})) * {1};", first, tile, group));
  code.line(fmt::format("if ({} >= {}) return;", first, end));
}

}  // namespace athanor::gpu
