#include "athanor/kernels/row_pitch.h"

#include <algorithm>
#include <utility>

namespace athanor {

std::optional<Places> with_pitch(const Places& places, const Ints& extents, int64_t row, int64_t from,
                                 int64_t to) {
  Places moved{places.offset / from * to + places.offset % from, places.strides};
  int64_t last = places.offset % from;  // the last element's place in its row
  for (size_t axis = 0; axis < extents.size(); ++axis) {
    int64_t& stride = moved.strides[axis];
    if (stride < 0) return {};
    if (stride % from == 0)
      stride = stride / from * to;
    else
      last += std::max<int64_t>(extents[axis] - 1, 0) * stride;
  }
  if (last >= row) return {};
  return moved;
}

bool has_gaps(const OperandDesc& output) {
  return output.layout.block == 0 && output.reach() > output.shape.size();
}

Rows rows_of(const OperandDesc& output) {
  std::vector<std::pair<int64_t, int64_t>> axes;  // their strides and extents
  for (int axis = 0; axis < output.shape.rank(); ++axis)
    if (output.shape[axis] > 1)
      axes.emplace_back(output.strides[static_cast<size_t>(axis)], output.shape[axis]);
  std::ranges::sort(axes);
  int64_t length = 1;
  for (const auto& [stride, extent] : axes) {
    if (stride != length) return {length, stride};
    length *= extent;
  }
  return {length, std::max(length, output.reach())};
}

KernelRequest without_gaps(KernelRequest request) {
  const auto first_output = static_cast<int>(request.epilogue.buffers - std::ssize(request.outputs));
  const auto close = [&](OperandDesc& output, int buffer) {
    const auto [row, pitch] = rows_of(output);
    output.strides = with_pitch({0, output.strides}, output.shape.to_ints(), row, pitch, row).value().strides;
    output.padding = 0;
    for (LoopOperand& operand : request.epilogue.operands)
      if (operand.buffer == buffer) {
        Places places =
            with_pitch({operand.offset, operand.strides}, request.epilogue.space, row, pitch, row).value();
        operand.offset = places.offset;
        operand.strides = std::move(places.strides);
      }
  };
  const bool result_has_gaps = has_gaps(request.output());
  const OperandDesc result = request.output();
  for (size_t o = 0; o < request.outputs.size(); ++o)
    if (has_gaps(request.outputs[o])) close(request.outputs[o], first_output + static_cast<int>(o));
  if (result_has_gaps) {
    OperandDesc unstored = result;
    close(request.unstored ? *request.unstored : unstored, 0);
  }
  return request;
}

}  // namespace athanor
