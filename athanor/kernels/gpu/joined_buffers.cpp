// How the kernel of joined loops takes their buffers.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "athanor/kernels/gpu/joined_loops.h"

namespace athanor::gpu {

// The names of all loops that are the same buffer in each of them come first in the table, then for each loop
// the others. A buffer that only some loops share is there for each of them.
JoinedBuffers::JoinedBuffers(std::span<const LoopProgram> programs, LoopProgram& pattern,
                             const GpuTraits& traits)
    : programs_(programs) {
  std::map<std::vector<int>, int> names;
  for (size_t o = 0; o < pattern.operands.size(); ++o) {
    std::vector<int> buffers;
    for (const LoopProgram& program : programs_) buffers.push_back(program.operands[o].buffer);
    const auto [it, fresh] = names.emplace(buffers, static_cast<int>(bound_.size()));
    if (fresh) bound_.push_back(std::move(buffers));
    pattern.operands[o].buffer = it->second;
  }
  pattern.buffers = static_cast<int>(bound_.size());
  types_ = buffer_types(pattern);
  for (size_t m = 0; m < bound_.size(); ++m) shared_ += is_shared(m) ? 1 : 0;
  constexpr size_t most = 4096 / sizeof(void*);  // CUDA's limit for parameters
  table_ = traits.buffer_tables && shared_ + (bound_.size() - shared_) * programs_.size() <= most;
}

bool JoinedBuffers::is_shared(size_t name) const {
  return std::ranges::all_of(bound_[name], [&](int buffer) { return buffer == bound_[name].front(); });
}

void JoinedBuffers::open_kernel(Code& code, GpuLaunch& launch) const {
  if (table_) {
    for (size_t m = 0; m < bound_.size(); ++m)
      if (is_shared(m)) launch.arguments.push_back({bound_[m].front(), 0});
    for (size_t p = 0; p < programs_.size(); ++p)
      for (size_t m = 0; m < bound_.size(); ++m)
        if (!is_shared(m)) launch.arguments.push_back({bound_[m][p], 0});
    code.open(fmt::format("KERNEL void {}(BUFFERS({}, buffers))", launch.name, launch.arguments.size()));
    return;
  }
  std::vector<DType> types(static_cast<size_t>(programs_.front().buffers), DType::u8);
  for (const LoopProgram& program : programs_)
    for (const LoopOperand& o : program.operands) types[static_cast<size_t>(o.buffer)] = o.dtype;
  std::string parameters;
  for (size_t b = 0; b < types.size(); ++b) {
    parameters +=
        fmt::format("{}BUFFER(STORED({}), buffer{})", b == 0 ? "" : ", ", language_name(types[b]), b);
    launch.arguments.push_back({static_cast<int>(b), 0});
  }
  code.open(fmt::format("KERNEL void {}({})", launch.name, parameters));
  for (size_t b = 0; b < types.size(); ++b)
    code.line(fmt::format("BIND(STORED({}), buffer{});", language_name(types[b]), b));
}

void JoinedBuffers::declare(Code& code, const std::string& loop) const {
  size_t shared = 0, own = 0;
  for (size_t m = 0; m < bound_.size(); ++m) {
    const std::string_view type = language_name(types_[m]);
    std::string value = fmt::format("buffer{}", bound_[m].front());
    if (table_ && is_shared(m))
      value = fmt::format("BUFFER_AT(STORED({}), buffers, {})", type, shared++);
    else if (table_)
      value = fmt::format("BUFFER_AT(STORED({}), buffers, {} + {} * {})", type, shared_ + own++, loop,
                          bound_.size() - shared_);
    code.line(fmt::format("GLOBAL STORED({}) *m{} = {};", type, m, value));
  }
}

std::vector<size_t> JoinedBuffers::changed(size_t p, size_t before) const {
  std::vector<size_t> names;
  for (size_t m = 0; m < bound_.size() && !table_; ++m)
    if (bound_[m][p] != bound_[m][before]) names.push_back(m);
  return names;
}

}  // namespace athanor::gpu
