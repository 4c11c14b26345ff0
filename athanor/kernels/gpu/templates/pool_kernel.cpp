// What the kernels of pooling have in common.
#include "athanor/kernels/gpu/templates/pool_kernel.h"

#include <fmt/format.h>

#include "athanor/kernels/gpu/index_code.h"
#include "athanor/kernels/gpu/templates/tile_text.h"

namespace athanor::gpu {

std::string PoolKernel::number() const { return fmt::format("COMPUTED({})", language_name(p_.dtype)); }

std::string PoolKernel::type() const { return stored(p_.dtype); }

void PoolKernel::begin(const char* name) {
  const std::string read = "const " + type();
  std::vector<Parameter> parameters;
  if (!p_.gradient || p_.max) parameters.push_back({"x", read});
  if (p_.gradient) parameters.push_back({"dy", read});
  parameters.push_back({p_.gradient ? "dx" : "y", type()});
  open_kernel(code_, name, parameters, false);
}

void PoolKernel::begin_runs(int64_t elements, int64_t run, int64_t runs) {
  code_.open(
      fmt::format("for (i64 run = GLOBAL_ID(0) * (i64){0}, end = MIN((i64){1}, (GLOBAL_ID(0) + 1) * "
                  "(i64){0}); run < end; ++run)",
                  runs, elements / run));
  code_.line(fmt::format("const i64 first = {};", times("run", run)));
}

void PoolKernel::name_place(const Ints& extents, const char* row, const char* column) {
  const std::string pixel = p_.channels_last ? fmt::format("first / {}", p_.channels) : "first";
  code_.line(fmt::format("const int {2} = (int)({0} / {1} % {3}), {4} = (int)({0} % {1});", pixel, extents[1],
                         row, extents[0], column));
  const int64_t pixels = extents[0] * extents[1];
  code_.line(p_.channels_last ? fmt::format("const i64 plane = first / {0} * {1} + first % {1};",
                                            pixels * p_.channels, p_.channels)
                              : fmt::format("const i64 plane = first / {};", pixels));
}

/// It is a function even where it is a constant: LLVM then keeps fewer branches around divisions.
void PoolKernel::write_divisor() {
  if (p_.max) return;
  code_.open("DEVICE int divisor(int top, int left)");
  if (p_.counts_padding) {
    code_.line(fmt::format("return {};", p_.kernel[0] * p_.kernel[1]));
  } else {
    code_.line(fmt::format("const int rows = MIN(top + {}, {}) - MAX(top, 0);", p_.kernel[0], p_.image[0]));
    code_.line(
        fmt::format("const int columns = MIN(left + {}, {}) - MAX(left, 0);", p_.kernel[1], p_.image[1]));
    code_.line("return rows * columns;");
  }
  code_.close();
}

void PoolKernel::open_window(int64_t rows, int64_t columns) {
  code_.open(fmt::format("UNROLL for (int i = 0; i < {}; ++i)", rows));
  code_.open(fmt::format("UNROLL for (int j = 0; j < {}; ++j)", columns));
}

void PoolKernel::close_window() {
  code_.close();
  code_.close();
}

std::string PoolKernel::sum(std::initializer_list<std::string> terms) {
  std::string text;
  for (const std::string& term : terms)
    if (term != "0") text += (text.empty() ? "" : " + ") + term;
  return text.empty() ? "0" : text;
}

std::string PoolKernel::scaled(const std::string& index, int64_t stride) {
  return stride == 0   ? "0"
         : stride == 1 ? fmt::format("({})", index)
                       : fmt::format("({}) * (i64){}", index, stride);
}

std::string PoolKernel::plane_start(const Ints& strides) const {
  return sum({scaled(fmt::format("plane / {}", p_.channels), strides[0]),
              scaled(fmt::format("plane % {}", p_.channels), strides[1])});
}

std::string PoolKernel::load(const std::string& from, const std::string& at) const {
  return fmt::format("LOAD({}, {}, {})", language_name(p_.dtype), from, at);
}

std::string PoolKernel::top(const std::string& row) const {
  return plus(times(row, p_.stride[0]), -p_.padding[0]);
}

std::string PoolKernel::left(const std::string& column) const {
  return plus(times(column, p_.stride[1]), -p_.padding[1]);
}

std::string PoolKernel::inside(const std::string& h, const std::string& w) const {
  return fmt::format("(u32)({}) < {} && (u32)({}) < {}", h, p_.image[0], w, p_.image[1]);
}

std::string PoolKernel::if_inside(const std::string& h, const std::string& w, const std::string& x,
                                  const std::string& other) const {
  return p_.padded ? fmt::format("{} ? {} : {}", inside(h, w), x, other) : x;
}

std::string PoolKernel::takes_max(const std::string& value, const std::string& best) {
  return fmt::format("({0} > {1} || ({0} != {0} && {1} == {1}))", value, best);
}

}  // namespace athanor::gpu
