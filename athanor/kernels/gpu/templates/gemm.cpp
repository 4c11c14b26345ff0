#include <fmt/format.h>

#include "athanor/kernels/gpu/index_code.h"
#include "athanor/kernels/gpu/templates.h"

namespace athanor::gpu {

std::vector<GpuCandidate> matmul(const KernelRequest& request, const GpuTraits& traits) {
  const OperandDesc &a = request.inputs[0], &b = request.inputs[1];
  const std::string_view name = language_name(a.dtype);
  const bool bias = request.epilogue.bias;
  std::vector<Parameter> parameters{{"a", stored(a.dtype), {0, 0}}, {"b", stored(a.dtype), {1, 0}}};
  if (bias) parameters.push_back({"bias", stored(a.dtype), {2, 0}});
  parameters.push_back({"y", stored(a.dtype), {bias ? 3 : 2, 0}});
  ElementKernel kernel("matmul", request.output.shape, parameters, traits);
  kernel.code().line(fmt::format("COMPUTED({}) s = 0;", name));
  kernel.code().line(fmt::format("for (i64 k = 0; k < {}; ++k) s += LOAD({}, a, {}) * LOAD({}, b, {});",
                                 a.shape[2], name, affine(0, a.strides, {"dim0", "dim1", "k"}), name,
                                 affine(0, b.strides, {"dim0", "k", "dim2"})));
  if (bias)
    kernel.code().line(
        fmt::format("s += LOAD({}, bias, {} * dim2);", name, request.inputs[2].strides.back()));
  const std::string& f = request.epilogue.activation;
  if (f == "relu") kernel.code().line("s = s < 0 ? 0 : s;");
  if (f == "tanh") kernel.code().line(fmt::format("s = tanh_{}(s);", name == "f64" ? "f64" : "f32"));
  if (f == "sigmoid")
    kernel.code().line(fmt::format("s = 1 / (1 + exp_{}(-s));", name == "f64" ? "f64" : "f32"));
  kernel.code().line(fmt::format("STORE({}, y, flat, s);", name));
  GpuCandidate candidate{"naive", {}, 0, {}};
  candidate.launches.push_back(kernel.finish());
  return {candidate};
}

}  // namespace athanor::gpu
