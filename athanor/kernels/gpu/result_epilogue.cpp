#include "athanor/kernels/gpu/result_epilogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/kernels/epilogue.h"

namespace athanor::gpu {
namespace {

/// The buffers that a program reads, except the element itself, with their types.
std::map<int, DType> read_buffers(const LoopProgram& program) {
  std::map<int, DType> read;
  for (const LoopStep& s : program.body) {
    if (s.kind != LoopStep::Kind::load) continue;
    const LoopOperand& operand = program.operands[static_cast<size_t>(s.operand)];
    if (operand.buffer > 0) read[operand.buffer] = operand.dtype;
  }
  return read;
}

}  // namespace

std::string sum_of(const ResultAxis& axis) {
  std::string text;
  for (const auto& [factor, name] :
       {std::pair{axis.batch, "batch"}, {axis.row, "row"}, {axis.column, "column"}}) {
    if (factor == 0) continue;
    if (!text.empty()) text += " + ";
    text += factor == 1 ? name : fmt::format("{} * {}", name, factor);
  }
  return text;
}

ResultEpilogue::ResultEpilogue(const KernelRequest& request) {
  if (!request.has_epilogue()) return;
  program_ = simplify_loop(request.epilogue);
  further_ = athanor::has_further_results(request);
  const size_t end = request.inputs.size() - request.prologue_inputs();
  for (size_t i = request.own_inputs(); i < end; ++i) {
    alignments_.push_back(request.inputs[i].alignment);
    arguments_.push_back({static_cast<int>(i)});
  }
  for (size_t i = 0; i < request.outputs.size(); ++i)
    arguments_.push_back({static_cast<int>(request.inputs.size() + i)});
}

ResultEpilogue::ResultEpilogue(const LoopProgram& program, std::vector<GpuLaunch::Argument> arguments,
                               std::vector<int64_t> alignments, std::string name)
    : program_(simplify_loop(program)),
      arguments_(std::move(arguments)),
      alignments_(std::move(alignments)),
      name_(std::move(name)) {}

std::string ResultEpilogue::extra(int buffer) const { return fmt::format("{}extra{}", name_, buffer); }

Ints ResultEpilogue::places() const {
  const auto whole = std::ranges::find_if(program_.operands, [](const auto& o) { return o.buffer == 0; });
  if (whole == program_.operands.end()) throw Error(ErrorCode::internal, "an epilogue without its element");
  return whole->strides;
}

ResultEpilogue ResultEpilogue::transposed() const {
  ResultEpilogue turned = *this;
  for (ResultAxis& axis : turned.axes) std::swap(axis.row, axis.column);
  return turned;
}

std::vector<Parameter> ResultEpilogue::parameters() const {
  std::vector<Parameter> all;
  for (const auto& [buffer, dtype] : read_buffers(program_))
    all.push_back({extra(buffer), "const " + stored(dtype), argument(buffer)});
  return all;
}

std::string_view ResultEpilogue::index_type() const {
  const Ints strides = places();
  int64_t last = 0;
  for (size_t d = 0; d < strides.size(); ++d) last += (program_.space[d] - 1) * strides[d];
  return last < INT32_MAX ? "i32" : "i64";
}

/// The axis that tells the index along the axis of the program's space with this stride in the result.
const ResultAxis* ResultEpilogue::axis_of(int64_t stride, int64_t extent) const {
  const auto found = std::ranges::find_if(axes, [&](const ResultAxis& axis) {
    return axis.stride * axis.extent > 0 && stride % axis.stride == 0 &&
           axis.stride * axis.extent % (stride * extent) == 0;
  });
  return found == axes.end() ? nullptr : &*found;
}

bool ResultEpilogue::reads_place() const {
  if (empty()) return false;
  const Ints result = places();
  const auto by_place = [&](const Ints& strides) {
    if (strides == result) return true;
    for (size_t d = 0; d < strides.size(); ++d)
      if (strides[d] != 0 && axis_of(result[d], program_.space[d]) == nullptr) return true;
    return false;
  };
  return std::ranges::any_of(program_.body, [&](const LoopStep& step) {
    if (step.kind == LoopStep::Kind::index) return by_place(step.index_strides);
    if (step.kind != LoopStep::Kind::load) return false;
    const LoopOperand& operand = program_.operands[static_cast<size_t>(step.operand)];
    return operand.buffer != 0 && by_place(operand.strides);
  });
}

/// The index along the axis of the program's space with this stride in the result.
std::string ResultEpilogue::index_of(int64_t stride, int64_t extent) const {
  std::string from = "at";
  int64_t inner = stride, covered = program_.iterations();
  if (const ResultAxis* const axis = axis_of(stride, extent)) {
    from = sum_of(*axis);
    inner = stride / axis->stride;
    covered = axis->stride * axis->extent;
  }
  if (inner != 1) from = fmt::format("({}) / {}", from, inner);
  return stride * extent == covered ? from : fmt::format("({}) % {}", from, extent);
}

std::vector<ResultEpilogue::Vector> ResultEpilogue::vectors(int64_t width) const {
  std::vector<Vector> all;
  if (empty()) return all;
  const Ints as_result = places();
  const auto inner = std::ranges::find(as_result, 1);
  if (inner == as_result.end()) return all;
  const auto along = static_cast<size_t>(inner - as_result.begin());
  const auto begin_together = [&](const Ints& strides) {
    for (size_t d = 0; d < strides.size(); ++d)
      if (d == along ? strides[d] != 1 : strides[d] % width != 0) return false;
    return true;
  };
  if (program_.space[along] % width != 0 || !begin_together(as_result)) return all;
  for (size_t o = 0; o < program_.operands.size(); ++o) {
    const LoopOperand& operand = program_.operands[o];
    const bool is_read = std::ranges::any_of(program_.body, [&](const LoopStep& s) {
      return s.kind == LoopStep::Kind::load && s.operand == static_cast<int>(o);
    });
    if (operand.buffer == 0 || operand.buffer > std::ssize(alignments_) || !is_read) continue;
    const auto bytes = width * static_cast<int64_t>(size_of(operand.dtype));
    const int64_t aligned = alignments_[static_cast<size_t>(operand.buffer - 1)];
    constexpr int64_t most_at_once = 16;
    if (bytes % 4 != 0 || bytes > 2 * most_at_once || aligned % std::min(bytes, most_at_once) != 0) continue;
    if (operand.offset % width == 0 && begin_together(operand.strides))
      all.push_back({static_cast<int>(o), extra(operand.buffer), operand.dtype, bytes / 4});
  }
  return all;
}

std::string ResultEpilogue::place(const Vector& vector, const std::string& at, const std::string& row,
                                  const std::string& column) const {
  return fmt::format("{} + {}place{}({}, batch, {}, {})", vector.buffer, name_, vector.operand, at, row,
                     column);
}

std::string ResultEpilogue::function(const std::vector<Vector>& vectors) const {
  if (empty()) return {};
  LoopProgram program = program_;
  const Ints places = this->places();
  const auto element = std::ranges::find(program.operands, 0, &LoopOperand::buffer)->dtype;
  std::vector<std::string> held;  // the op's result, and operands that come as vectors
  for (const LoopOperand& o : program.operands) held.emplace_back(o.buffer == 0 ? "x" : "");
  for (const Vector& vector : vectors)
    held[static_cast<size_t>(vector.operand)] = fmt::format("in{}", vector.operand);
  // Operands that lie in memory as the result does are read at the result's offset `at`.
  std::vector<std::string> index;
  for (size_t d = 0; d < places.size(); ++d) index.push_back(fmt::format("dim{}", d));
  index.emplace_back("at");
  const auto name_dimensions = [&](Code& code, const std::vector<bool>& used) {
    for (size_t d = 0; d < places.size(); ++d)
      if (used[d])
        code.line(
            fmt::format("const {} dim{} = {};", index_type(), d, index_of(places[d], program.space[d])));
  };
  std::vector<bool> used(places.size());
  const auto use = [&](const Ints& strides, std::vector<bool>& of) {
    for (size_t d = 0; d < places.size(); ++d)
      if (strides[d] != 0) of[d] = true;
  };
  const std::string at = fmt::format("{0} at, {0} batch, {0} row, {0} column", index_type());
  Code code;
  for (size_t i = 0; i < program.operands.size(); ++i) {
    LoopOperand& o = program.operands[i];
    const bool together = o.strides == places;
    if (together) o.strides.assign(places.size(), 0);
    if (o.buffer > 0 && held[i].empty()) use(o.strides, used);
    o.strides.push_back(together ? 1 : 0);
    if (o.buffer == 0 || held[i].empty()) continue;
    std::vector<bool> needed(places.size());
    use(o.strides, needed);
    code.open(fmt::format("DEVICE {} {}place{}({})", index_type(), name_, i, at));
    name_dimensions(code, needed);
    code.line(fmt::format("return {};", affine(o.offset, o.strides, index)));
    code.close();
  }
  for (LoopStep& s : program.body)
    if (s.kind == LoopStep::Kind::index) {
      const bool together = s.index_strides == places;
      if (together) s.index_strides.assign(places.size(), 0);
      use(s.index_strides, used);
      s.index_strides.push_back(together ? 1 : 0);
    }
  // The function's results: members of a struct, or a single value.
  std::vector<std::pair<std::string, int>> members;
  for (const LoopStore& store : program.stores)
    members.emplace_back(fmt::format("result{}", members.size()), store.source);
  for (size_t t = 0; t < program.reductions.size(); ++t)
    members.emplace_back(fmt::format("term{}", t), program.reductions[t].source);
  const auto type_of = [&](int r) { return language_name(program.body[static_cast<size_t>(r)].type); };
  std::string parameters = fmt::format("{} x, {}", language_name(computed_in(element)), at);
  for (const auto& [buffer, dtype] : read_buffers(program))
    parameters += fmt::format(", GLOBAL const {} *m{}", stored(dtype), buffer);
  for (const Vector& vector : vectors)
    parameters += fmt::format(", {} in{}", language_name(computed_in(vector.type)), vector.operand);
  if (further_) {
    std::string list;
    for (const auto& [name, source] : members) list += fmt::format(" {} {};", type_of(source), name);
    code.line(fmt::format("typedef struct {{{} }} Finished;", list));
  }
  code.open(fmt::format("DEVICE {} {}finished({})", further_ ? "Finished" : type_of(members[0].second), name_,
                        parameters));
  name_dimensions(code, used);
  write_steps(code, program, program.body, 0, index, held);
  if (further_) {
    code.line("Finished all;");
    for (const auto& [name, source] : members) code.line(fmt::format("all.{} = r{};", name, source));
    code.line("return all;");
  } else {
    code.line(fmt::format("return r{};", members[0].second));
  }
  code.close();
  return code.text();
}

std::string ResultEpilogue::call(const std::string& x, const std::string& at, const std::string& row,
                                 const std::string& column,
                                 const std::vector<std::string>& of_vectors) const {
  if (empty()) return x;
  std::string buffers;
  for (const Parameter& parameter : parameters()) buffers += ", " + parameter.name;
  for (const std::string& value : of_vectors) buffers += ", " + value;
  return fmt::format("{}finished({}, {}, batch, {}, {}{})", name_, x, at, row, column, buffers);
}

}  // namespace athanor::gpu
