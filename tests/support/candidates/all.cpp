// Every candidate that the templates offer a GPU for training's products, convolutions and attention, and the
// first of each kind for each op's own cases.
#include <fmt/format.h>

#include "athanor/backends/gpu/exchange_trial.h"
#include "athanor/base/error.h"
#include "athanor/kernels/gpu/gpu_access.h"
#include "athanor/kernels/gpu/templates.h"
#include "tests/support/candidates/candidates.h"
#include "tests/support/reduced.h"

namespace athanor {
namespace {

/// The first candidate of each kind for an op's own cases, in one dtype of each kind. Throws
/// Error(internal) if there is none.
void add_cases(Writer& writer, const Op& op) {
  bool any = false;
  for (const DType dtype : testing::one_of_each_kind(op.dtypes))
    for (const OpCase& one : op.cases) {
      std::vector<TensorType> types;
      for (const Sample& sample : one.inputs)
        types.push_back({sample.dtype.value_or(dtype), sample.shape, {}});
      const TensorType result = op.infer(types, one.attrs);
      if (!gpu_has_kernel(op, types, result, one.attrs, writer.traits())) continue;
      KernelRequest request{&op, one.attrs, {}, {whole(result)}, {}};
      for (const TensorType& type : types) request.inputs.push_back(whole(type));
      for (const GpuCandidate& candidate : gpu_candidates(request, writer.traits())) {
        any = true;
        if (testing::is_first_of_kind(op.name, dtype, candidate.name))
          writer.write(candidate, op.name, to_string(dtype));
      }
    }
  if (!any)
    throw Error(ErrorCode::internal, fmt::format("the op '{}' has a template, but no kernel", op.name), {},
                "Give its declaration a case that the template computes");
}

/// The kernel by which the exchanges of OpenCL's units are tried.
void add_exchange(Writer& writer) {
  const auto units = writer.units();
  if (writer.target() != GpuTarget::opencl || units.empty() || !units.front().exchanges_lanes()) return;
  writer.write({.name = "exchange", .launches = {gpu::exchange_trial(units.front()).launch}}, "exchange",
               "u32");
}

}  // namespace

void write_all(const char* folder, GpuTarget target, std::string_view architecture) {
  Writer writer(folder, target, architecture, false);
  add_products(writer);
  add_convolutions(writer);
  add_attentions(writer);
  for (const std::string& op : gpu::ops_with_templates()) add_cases(writer, find_op(op));
  add_exchange(writer);
  writer.finish();
}

}  // namespace athanor
