#include "athanor/kernels/gpu/index_code.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "athanor/base/ceil_div.h"

namespace athanor::gpu {

std::string stored(DType dtype) { return fmt::format("STORED({})", language_name(dtype)); }

std::string operand(const std::string& text) {
  int depth = 0;
  for (const char c : text) {
    if (c == '(' || c == '[') ++depth;
    if (c == ')' || c == ']') --depth;
    if (depth == 0 && std::string_view("+-?<>&|").find(c) != std::string_view::npos) return "(" + text + ")";
  }
  return text;
}

void unrolled(Code& code, const char* index, int64_t count, const LoopBody& body) {
  unrolled(code, index, 0, count, body);
}

void unrolled(Code& code, const char* index, int64_t first, int64_t end, const LoopBody& body) {
  if (end - first == 1) return body(std::to_string(first));
  code.open(fmt::format("UNROLL for (int {0} = {1}; {0} < {2}; ++{0})", index, first, end));
  body(index);
  code.close();
}

void open_unrolled(Code& code, const char* index, int64_t count, int64_t step) {
  if (count == step) return code.open("");
  const std::string next = step == 1 ? fmt::format("++{}", index) : fmt::format("{} += {}", index, step);
  code.open(fmt::format("UNROLL for (int {0} = 0; {0} < {1}; {2})", index, count, next));
}

void open_kernel(Code& code, const std::string& name, const std::vector<Parameter>& parameters,
                 bool can_fault) {
  std::vector<std::string> list;
  for (const Parameter& p : parameters) list.push_back(fmt::format("BUFFER({}, {})", p.type, p.name));
  if (can_fault) list.insert(list.end(), {"BUFFER(i32, fault)", "i32 fault_code"});
  // Three to a line.
  std::string text;
  for (size_t i = 0; i < list.size(); ++i) text += (i == 0 ? "" : i % 3 == 0 ? ",\n    " : ", ") + list[i];
  code.open(fmt::format("KERNEL void {}({})", name, text));
  for (const Parameter& p : parameters) code.line(fmt::format("BIND({}, {});", p.type, p.name));
  if (can_fault) code.line("BIND(i32, fault);");
}

ElementKernel::ElementKernel(std::string name, const Shape& shape, const std::vector<Parameter>& parameters,
                             const GpuTraits& traits, bool can_fault) {
  launch_.name = std::move(name);
  launch_.can_fault = can_fault;
  for (const Parameter& p : parameters) launch_.arguments.push_back(p.argument);
  const int64_t total = shape.size();
  const int64_t most = std::min<int64_t>(traits.max_group_size, traits.grain->element_items);
  const auto wide = static_cast<int64_t>(
      std::bit_floor(static_cast<uint64_t>(std::clamp<int64_t>(2 * total - 1, 1, most))));
  launch_.group_size = {wide, 1, 1};
  launch_.groups = {(total + wide - 1) / wide, 1, 1};
  open_kernel(code_, launch_.name, parameters, can_fault);
  code_.line("const i64 flat = GLOBAL_ID(0);");
  code_.line(fmt::format("if (flat >= {}) return;", total));
  index_.resize(static_cast<size_t>(shape.rank()));
  int64_t below = 1;
  for (int d = shape.rank(); d-- > 0;) {
    std::string value = divided("flat", below);
    if (d > 0) value = remainder(value, shape[d]);
    index_[static_cast<size_t>(d)] = fmt::format("dim{}", d);
    code_.line(fmt::format("const i64 dim{} = {};", d, value));
    below *= std::max<int64_t>(1, shape[d]);
  }
}

GpuLaunch ElementKernel::finish() {
  code_.close();
  launch_.source += code_.text();
  return std::move(launch_);
}

GpuLaunch zero_launch(DType type, int64_t elements, GpuLaunch::Argument to, const GpuTraits& traits) {
  const int64_t each = traits.grain->zeros, items = std::min(traits.grain->items, traits.max_group_size);
  const std::string store = fmt::format("STORE({}, results, i, 0.0f);", language_name(type));
  Code code;
  open_kernel(code, "zero", {{"results", stored(type)}}, false);
  if (items == 1) {
    code.line(
        fmt::format("const i64 begin = GLOBAL_ID(0) * {0}, end = MIN(begin + {0}, {1});", each, elements));
    code.line("for (i64 i = begin; i < end; ++i) " + store);
  } else {
    code.line("const i64 i = GLOBAL_ID(0);");
    code.line(fmt::format("if (i < {}) {}", elements, store));
  }
  code.close();
  return {.name = "zero",
          .source = code.text(),
          .groups = {ceil_div(elements, items == 1 ? each : items), 1, 1},
          .group_size = {items, 1, 1},
          .arguments = {to}};
}

void pack_ready(Code& code, DType type, int64_t count) {
  const auto of_one = static_cast<int64_t>(4 / size_of(type));
  code.line(fmt::format("u32x{} ready;", count / of_one));
  for (int64_t e = 0; e < count; e += of_one)
    code.line(of_one == 1 ? fmt::format("ready[{0}] = BITS_OF_F32(ready{0});", e)
                          : fmt::format("ready[{}] = PACKED({}, ready{}, ready{});", e / 2,
                                        language_name(type), e, e + 1));
}

}  // namespace athanor::gpu
