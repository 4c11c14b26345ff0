// Where attention's operands lie, and where its results go: as they are, or as an epilogue makes them.
#include <fmt/format.h>

#include <algorithm>

#include "athanor/kernels/gpu/templates/attention.h"

namespace athanor::gpu {
namespace {

/// The axes of a result, or of q, by which kernels know an element's place; the leading ones if they are one.
std::vector<ResultAxis> axes_of(const OperandDesc& result) {
  const auto last = static_cast<size_t>(result.shape.rank()) - 1;
  std::vector<ResultAxis> axes = {{.column = 1, .stride = 1, .extent = result.shape[-1]},
                                  {.row = 1, .stride = result.strides[last - 1], .extent = result.shape[-2]}};
  ResultAxis batch{.batch = 1, .stride = 1, .extent = 1};
  for (size_t axis = last - 1; axis-- > 0;) {
    const int64_t extent = result.shape[static_cast<int>(axis)];
    if (extent == 1) continue;
    if (batch.extent == 1) batch.stride = result.strides[axis];
    if (result.strides[axis] != batch.stride * batch.extent) return axes;
    batch.extent *= extent;
  }
  if (batch.extent > 1) axes.push_back(batch);
  return axes;
}

/// Adds to a position, as text: `index`, unfolded into an axis of this extent with `below` elements below it.
void add_axis(std::string& text, const std::string& index, int64_t below, int64_t extent, int64_t stride) {
  if (extent <= 1 || stride == 0) return;
  if (!text.empty()) text += " + ";
  text += fmt::format("{} % {}", divided(index, below), extent);
  if (stride != 1) text += fmt::format(" * (i64){}", stride);
}

}  // namespace

std::string attention_position(const OperandDesc& operand, const char* index, int kept) {
  std::string text;
  int64_t below = 1;
  for (int axis = operand.shape.rank() - kept; axis-- > 0;) {
    const int64_t extent = std::max<int64_t>(operand.shape[axis], 1);
    add_axis(text, index, below, extent, operand.strides[static_cast<size_t>(axis)]);
    below *= extent;
  }
  return text.empty() ? "0" : text;
}

int64_t attention_vector(const OperandDesc& operand) {
  const auto size = static_cast<int64_t>(size_of(operand.dtype));
  int64_t vector = 16 / size;
  const auto fits = [&](int64_t v) {
    for (size_t axis = 0; axis + 1 < operand.strides.size(); ++axis)
      if (operand.strides[axis] % v != 0) return false;
    return operand.shape[-1] % v == 0 && operand.alignment % (v * size) == 0;
  };
  while (vector > 1 && (operand.strides.back() != 1 || !fits(vector))) vector /= 2;
  return vector;
}

std::optional<OperandPrologue> attention_prologue(const KernelRequest& request) {
  std::optional<OperandPrologue> computed = operand_prologue(request, "q_");
  if (computed) computed->elements.axes = axes_of(request.inputs[0]);
  return computed;
}

std::vector<Parameter> AttentionProblem::Result::parameters() const {
  std::vector<Parameter> all = epilogue.parameters();
  for (const Stored& one : stored) all.push_back(one.buffer);
  return all;
}

std::string AttentionProblem::Result::store(const std::string& x, const std::string& at,
                                            const std::string& row, const std::string& feature) const {
  const auto stores = [&](const Stored& to, const std::string& value) {
    return fmt::format("STORE({}, {}, {}, {});", language_name(to.dtype), to.buffer.name, at, value);
  };
  const std::string finished = epilogue.call(x, at, row, feature);
  if (!epilogue.has_further_results()) return stores(stored.front(), finished);
  std::string text = fmt::format("{{ const Finished all = {};", finished);
  for (size_t k = 0; k < stored.size(); ++k) text += " " + stores(stored[k], fmt::format("all.result{}", k));
  return text + " }";
}

AttentionProblem::Result attention_result(const OperandDesc& written, const char* name,
                                          GpuLaunch::Argument to) {
  AttentionProblem::Result result;
  result.name = name;
  result.start = attention_position(written, "batch", 2);
  result.row = written.strides[written.strides.size() - 2];
  result.feature = 1;
  result.vector = attention_vector(written);
  result.stored = {{{name, stored(written.dtype), to}, written.dtype, result.vector}};
  return result;
}

AttentionProblem::Result attention_result(const KernelRequest& request) {
  AttentionProblem::Result result =
      attention_result(request.output(), "out", {static_cast<int>(request.inputs.size())});
  if (!request.has_epilogue()) return result;
  result.epilogue = ResultEpilogue(request);
  result.epilogue.axes = axes_of(request.output());
  if (!result.epilogue.has_further_results()) return result;
  result.stored.clear();
  for (const ResultEpilogue::Output& output : result.epilogue.outputs()) {
    OperandDesc written = request.output();
    written.dtype = output.type;
    result.stored.push_back(
        {{output.name, stored(output.type), output.argument}, output.type, attention_vector(written)});
  }
  return result;
}

std::vector<GpuLaunch::Argument> open_sum(Code& code, const char* name, const char* number,
                                          const AttentionProblem::Result& to) {
  std::string parameters = fmt::format("BUFFER(const {}, copies)", number),
              binds = fmt::format("BIND(const {}, copies);", number);
  std::vector<GpuLaunch::Argument> arguments;
  for (const Parameter& parameter : to.parameters()) {
    parameters += fmt::format(", BUFFER({}, {})", parameter.type, parameter.name);
    binds += fmt::format(" BIND({}, {});", parameter.type, parameter.name);
    arguments.push_back(parameter.argument);
  }
  code.open(fmt::format("KERNEL void {}({})", name, parameters));
  code.line(binds);
  return arguments;
}

}  // namespace athanor::gpu
