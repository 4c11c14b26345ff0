#include "athanor/examine/parts.h"

#include <algorithm>
#include <deque>
#include <set>

#include "athanor/base/error.h"
#include "athanor/examine/cases.h"
#include "athanor/ops/define.h"

namespace athanor {
namespace {

// OpenCL lets a device's pow be off by 16 units in the last place; the tests allow a few.
constexpr double slack = 8;

bool can_f64(Device device) {
  const DeviceInfo info = info_of(device);
  const auto found = info.properties.find("f64");
  return found == info.properties.end() || found->second.value != "no";
}

// Inputs of cases on a device. Equal ones are one tensor, so that loops over them are fused into few kernels.
class Inputs {
 public:
  explicit Inputs(Device device) : device_(device) {}
  const Tensor& of(const HostArray& array) {
    for (const auto& [known, tensor] : all_)
      if (known->dtype == array.dtype && known->shape == array.shape && known->bytes == array.bytes)
        return tensor;
    return all_.emplace_back(&array, Tensor::from(array, device_)).second;
  }

 private:
  Device device_;
  std::deque<std::pair<const HostArray*, Tensor>> all_;
};

Tensor result_of(const FilledCase& c, Device device, Inputs& known) {
  if (c.inputs.empty()) return apply_on(device, c.op, c.spec.attrs);
  std::vector<Operand> inputs;
  for (const HostArray& input : c.inputs) inputs.emplace_back(known.of(input));
  return apply(c.op, inputs, c.spec.attrs);
}

// Runs all cases as one plan, so that kernels are compiled side by side. If that fails, runs each by itself,
// to name the one that fails.
void check_together(Device device, const std::vector<FilledCase>& cases, Examination& verdict) {
  try {
    std::vector<Tensor> results;
    Inputs inputs(device);
    for (const FilledCase& c : cases) results.push_back(result_of(c, device, inputs));
    eval(results);
    std::vector<HostArray> found;  // all are read before the first is judged: reading may fail too
    for (const Tensor& result : results) found.push_back(result.to_host());
    for (size_t i = 0; i < cases.size(); ++i) {
      ++verdict.checks;
      if (const std::string wrong = mismatch(cases[i], found[i], slack); !wrong.empty())
        verdict.wrong.push_back(describe(cases[i]) + ": " + wrong);
    }
  } catch (const Error& error) {
    if (error.code() == ErrorCode::out_of_memory) throw;
    if (cases.size() == 1) {
      ++verdict.checks;
      verdict.add(describe(cases.front()), error);
      return;
    }
    for (const FilledCase& c : cases) check_together(device, {c}, verdict);
  }
}

void check(Device device, const std::vector<Asked>& asked, Examination& verdict) {
  const bool f64 = can_f64(device);
  std::vector<FilledCase> cases;
  for (const Asked& one : asked) {
    const FilledCase c = fill(one);
    std::vector<TensorType> types;
    for (const HostArray& input : c.inputs) types.push_back({input.dtype, input.shape, device});
    const auto is_f64 = [](const TensorType& type) { return type.dtype == DType::f64; };
    if (!f64 && (is_f64(one.op->infer(types, one.spec.attrs)) || std::ranges::any_of(types, is_f64)))
      continue;
    cases.push_back(c);
  }
  if (!cases.empty()) check_together(device, cases, verdict);
}

}  // namespace

std::vector<ExaminationPart> examination_parts(bool all) {
  std::vector<ExaminationPart> parts;
  for (AskedPart& part : all ? whole_cases() : short_cases())
    parts.push_back({part.name,
                     [asked = std::move(part.asked)](Device device, Examination& verdict) {
                       check(device, asked, verdict);
                     },
                     part.work});
  parts.push_back({"a training step", examine_training_step, 1.2, "convolutions and pooling"});
  return parts;
}

}  // namespace athanor
