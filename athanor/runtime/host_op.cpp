#include "athanor/runtime/host_op.h"

#include <cstdlib>

#include "athanor/graph/host_array.h"
#include "athanor/graph/op.h"

namespace athanor {
namespace {

RefArray read(const OperandDesc& operand, const Binding& from) {
  // From the first to the last element that the strides reach, both counted from where the operand starts.
  int64_t first = 0, last = 0;
  for (int axis = 0; axis < operand.shape.rank(); ++axis) {
    const int64_t reach =
        std::max<int64_t>(operand.shape[axis] - 1, 0) * operand.strides[static_cast<size_t>(axis)];
    (reach < 0 ? first : last) += reach;
  }
  RefArray result(operand.shape);
  if (operand.shape.size() == 0) return result;
  HostArray host(operand.dtype, {last - first + 1});
  const auto item = static_cast<int64_t>(size_of(operand.dtype));
  from.storage->read(host.bytes.data(), static_cast<size_t>(from.offset + first * item), host.bytes.size());
  const std::vector<double> values = to_doubles(host);
  Ints index(static_cast<size_t>(operand.shape.rank()));
  for (double& value : result.data) {
    int64_t at = -first;
    for (size_t axis = 0; axis < index.size(); ++axis) at += index[axis] * operand.strides[axis];
    value = values[static_cast<size_t>(at)];
    for (size_t axis = index.size(); axis-- > 0;) {
      if (++index[axis] < operand.shape[static_cast<int>(axis)]) break;
      index[axis] = 0;
    }
  }
  return result;
}

}  // namespace

void run_on_host(const KernelRequest& request, std::span<const Binding> inputs, Binding output) {
  std::vector<RefArray> arrays;
  for (size_t i = 0; i < inputs.size(); ++i) arrays.push_back(read(request.inputs[i], inputs[i]));
  const RefArray result = request.op->reference(arrays, request.attrs);
  const HostArray host = from_doubles(request.output().dtype, request.output().shape, result.data);
  output.storage->write(host.bytes.data(), static_cast<size_t>(output.offset), host.bytes.size());
}

}  // namespace athanor
