// Packs a matrix for a product that reads panels.
#include <fmt/format.h>

#include "athanor/base/ceil_div.h"
#include "athanor/kernels/gpu/loop_code.h"
#include "athanor/kernels/gpu/templates/gemm_text.h"

namespace athanor::gpu {
namespace {

/// An item packs `chunk` steps along K of one panel. `extent`: rows of A or columns of B.
std::string pack_kernel(const GemmProblem& p, bool packs_a, int64_t panel, int64_t chunk, int64_t extent,
                        int64_t items, const std::vector<Parameter>& parameters) {
  const GemmMatrices matrices = matrices_of(p);
  const int64_t chunks = ceil_div(p.k, chunk), panels = ceil_div(extent, panel);
  const auto element = [&](const char* i, const char* k) {
    const std::string along = fmt::format("first + {}", i), step = fmt::format("k_begin + {}", k);
    return packs_a ? matrices.a_element(along, step) : matrices.b_element(step, along);
  };
  Code code;
  open_kernel(code, "gemm_pack", parameters, false);
  code.line("const int item = GROUP_ID(0);");
  code.line(fmt::format("const int k_begin = {};", times(remainder("item", chunks), chunk)));
  code.line(fmt::format("const int k_count = {};", p.k % chunk == 0
                                                       ? fmt::format("{}", chunk)
                                                       : fmt::format("MIN({}, {} - k_begin)", chunk, p.k)));
  code.line(fmt::format("const int panel = {};", divided("item", chunks)));
  code.line(fmt::format("const int first = {};", times(remainder("panel", panels), panel)));
  code.line(fmt::format("const int rows = {};", extent % panel == 0
                                                    ? fmt::format("{}", panel)
                                                    : fmt::format("MIN({}, {} - first)", panel, extent)));
  const std::string batch = p.batch == 1 ? "0" : divided("panel", panels);
  code.line(fmt::format("GLOBAL {} *const {} = {};", parameters[0].type, packs_a ? "a" : "b",
                        plus("matrices", times64(batch, packs_a ? p.a.batch : p.b.batch))));
  code.line(fmt::format("GLOBAL f32 *const to = panels + ((i64)panel * {} + k_begin) * {};", p.k, panel));
  if (items > 1) {
    code.open(fmt::format("for (int e = LOCAL_ID(0); e < {} * k_count; e += {})", panel, items));
    code.line(fmt::format("const int k = e / {0}, i = e % {0};", panel));
    code.line(fmt::format("to[e] = {};", extent % panel == 0
                                             ? element("i", "k")
                                             : fmt::format("i < rows ? {} : 0", element("i", "k"))));
    code.close();
    code.close();
    return (packs_a ? "" : matrices.b_functions) + code.text();
  }
  const bool whole = extent % panel == 0;
  if (!whole) code.open(fmt::format("if (rows == {})", panel));
  code.line("int k = 0;");
  if (packs_a ? matrices.a_along_k : matrices.b_along_k) {
    code.line("// Copies through small blocks, so that both memories are accessed in runs.");
    code.open("for (; k + 16 <= k_count; k += 16)");
    code.line(fmt::format("f32 block[{}];", panel * 16));
    code.open(fmt::format("for (int i = 0; i < {}; ++i)", panel));
    code.line(fmt::format("for (int j = 0; j < 16; ++j) block[i * 16 + j] = {};", element("i", "k + j")));
    code.close();
    code.open("for (int j = 0; j < 16; ++j)");
    code.line(fmt::format("for (int i = 0; i < {0}; ++i) to[(k + j) * {0} + i] = block[i * 16 + j];", panel));
    code.close();
    code.close();
  }
  code.open("for (; k < k_count; ++k)");
  code.line(fmt::format("for (int i = 0; i < {0}; ++i) to[k * {0} + i] = {1};", panel, element("i", "k")));
  code.close();
  if (!whole) {
    code.close();
    code.open("else");
    code.open("for (int k = 0; k < k_count; ++k)");
    code.line(fmt::format("for (int i = 0; i < {0}; ++i) to[k * {0} + i] = i < rows ? {1} : 0;", panel,
                          element("i", "k")));
    code.close();
    code.close();
  }
  code.close();
  return (packs_a ? "" : matrices.b_functions) + code.text();
}

}  // namespace

GpuLaunch pack_launch(const GemmProblem& p, bool packs_a, int64_t panel, bool one_item,
                      GpuLaunch::Argument to) {
  const int64_t chunk = std::min<int64_t>(p.k, 64);
  const int64_t extent = packs_a ? p.m : p.n, items = one_item ? 1 : helping_items;
  const GemmProblem::Operand& x = packs_a ? p.a : p.b;
  GemmProblem packed = p;
  packed.batch = x.batch == 0 ? 1 : p.batch;
  const std::vector<Parameter> parameters{{"matrices", "const " + stored(p.dtype), {x.buffer, x.start}},
                                          {"panels", "f32", to}};
  return {.name = "gemm_pack",
          .source = pack_kernel(packed, packs_a, panel, chunk, extent, items, parameters),
          .groups = {packed.batch * ceil_div(extent, panel) * ceil_div(p.k, chunk), 1, 1},
          .group_size = {items, 1, 1},
          .arguments = arguments_of(parameters)};
}

}  // namespace athanor::gpu
