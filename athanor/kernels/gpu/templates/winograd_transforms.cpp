// The one-dimensional transforms of Winograd's convolutions, as statements.
#include <fmt/format.h>

#include "athanor/kernels/gpu/templates/tile_text.h"
#include "athanor/kernels/gpu/templates/winograd.h"

namespace athanor::gpu {
namespace {

// Each line is a row of the matrix.
const WinogradTransforms transforms_2{
    .images = {4, "", {"d0 - d2", "d1 + d2", "d2 - d1", "d1 - d3"}},
    .results = {4, "", {"d0 + d1 + d2", "d1 - d2 - d3"}},
    .weights = {3, "", {"d0", "0.5f * (d0 + d1 + d2)", "0.5f * (d0 - d1 + d2)", "d2"}},
    .gradients = {2, "", {"d0", "0.5f * (d0 + d1)", "0.5f * (d0 - d1)", "d1"}},
    .taps = {4, "", {"d0 + d1 + d2", "d1 - d2", "d1 + d2 - d3"}},
};

constexpr auto pairs = "sum = d1 + d2, difference = d1 - d2, sum2 = d3 + d4, difference2 = d3 - d4";
const WinogradTransforms transforms_4{
    .images = {6,
               "",
               {"4.0f * d0 - 5.0f * d2 + d4",           //
                "(d4 - 4.0f * d2) + (d3 - 4.0f * d1)",  //
                "(d4 - 4.0f * d2) - (d3 - 4.0f * d1)",  //
                "(d4 - d2) + 2.0f * (d3 - d1)",         //
                "(d4 - d2) - 2.0f * (d3 - d1)",         //
                "4.0f * d1 - 5.0f * d3 + d5"}},
    .results = {6,
                pairs,
                {"d0 + sum + sum2", "difference + 2.0f * difference2", "sum + 4.0f * sum2",
                 "difference + 8.0f * difference2 + d5"}},
    .weights = {3,
                "",
                {"0.25f * d0",                                             //
                 "(-1.0f / 6) * (d0 + d1 + d2)",                           //
                 "(-1.0f / 6) * (d0 - d1 + d2)",                           //
                 "(1.0f / 24) * d0 + (1.0f / 12) * d1 + (1.0f / 6) * d2",  //
                 "(1.0f / 24) * d0 - (1.0f / 12) * d1 + (1.0f / 6) * d2",  //
                 "d2"}},
    .gradients = {4,
                  "",
                  {"0.25f * d0",                                                                   //
                   "(-1.0f / 6) * ((d0 + d2) + (d1 + d3))",                                        //
                   "(-1.0f / 6) * ((d0 + d2) - (d1 + d3))",                                        //
                   "((1.0f / 24) * d0 + (1.0f / 6) * d2) + ((1.0f / 12) * d1 + (1.0f / 3) * d3)",  //
                   "((1.0f / 24) * d0 + (1.0f / 6) * d2) - ((1.0f / 12) * d1 + (1.0f / 3) * d3)",  //
                   "d3"}},
    .taps = {6, pairs, {"d0 + sum + sum2", "difference + 2.0f * difference2", "sum + 4.0f * sum2 + d5"}},
};

std::string number_in(const WinogradLines& lines, int64_t n) {
  return fmt::format("{}[{}]", lines.array, plus(times("i", lines.apart), n * lines.step));
}

}  // namespace

const WinogradTransforms& winograd_transforms(int64_t outputs) {
  return outputs == 2 ? transforms_2 : transforms_4;
}

void write_transforms(Code& code, const WinogradTransform& transform, int64_t count, WinogradLines from,
                      WinogradLines to, int64_t lanes, const char* each) {
  code.open(fmt::format("{} (int i = 0; i < {}; ++i)", each, count));
  std::string taken;
  for (int64_t n = 0; n < transform.taken; ++n)
    taken += fmt::format("{}d{} = {}", n == 0 ? "" : ", ", n, number_in(from, n));
  code.line(fmt::format("const {} {};", lanes_type(lanes), taken));
  if (*transform.sums) code.line(fmt::format("const {} {};", lanes_type(lanes), transform.sums));
  for (int64_t n = 0; const char* row : transform.rows) {
    // A number that stays what it is need not be stored in place.
    if (from != to || row != fmt::format("d{}", n)) code.line(fmt::format("{} = {};", number_in(to, n), row));
    ++n;
  }
  code.close();
}

void write_patch_transforms(Code& code, const WinogradTransform& transform, int64_t columns, int64_t rows,
                            int64_t patch, int64_t lanes, const char* each) {
  const WinogradLines along_columns{"points", 1, patch}, along_rows{"points", patch, 1};
  write_transforms(code, transform, columns, along_columns, along_columns, lanes, each);
  write_transforms(code, transform, rows, along_rows, along_rows, lanes, each);
}

std::string lanes_type(int64_t lanes) { return lanes == 1 ? "f32" : fmt::format("f32x{}", lanes); }

const char* each_number(int64_t lanes, int64_t outputs) {
  return lanes == 1 || outputs == 2 ? "UNROLL for" : "_Pragma(\"unroll 1\") for";
}

std::string load_lanes(int64_t lanes, const std::string& from, const std::string& at) {
  return lanes == 1 ? fmt::format("{}[{}]", from, at) : fmt::format("VLOAD({}, {}, {})", lanes, from, at);
}

std::string store_lanes(int64_t lanes, const std::string& to, const std::string& at, const std::string& x) {
  return lanes == 1 ? fmt::format("{}[{}] = {};", to, at, x)
                    : fmt::format("VSTORE({}, {}, {}, {});", lanes, to, at, x);
}

}  // namespace athanor::gpu
