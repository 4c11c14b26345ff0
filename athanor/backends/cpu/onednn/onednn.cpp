#include "athanor/backends/cpu/onednn/onednn.h"

#include <fmt/format.h>

#include "athanor/backends/cpu/onednn/candidates.h"
#include "athanor/base/error.h"

namespace athanor::cpu {

using memory = dnnl::memory;

// Enough for the layers that are alike in one plan. By default oneDNN keeps 1024 primitives of dropped plans,
// each with about a MiB of addresses for its machine code.
constexpr int kept_primitives = 64;

const dnnl::engine& onednn_engine() {
  static const dnnl::engine engine = [] {
    dnnl::set_primitive_cache_capacity(kept_primitives);
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return engine;
}

const dnnl::stream& onednn_stream() {
  static const dnnl::stream stream(onednn_engine());
  return stream;
}

std::string onednn_version() {
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("{}.{}.{}", version->major, version->minor, version->patch);
}

static bool has_isa(dnnl::cpu_isa wanted) {
  static const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  return (isa & static_cast<unsigned>(wanted)) == static_cast<unsigned>(wanted);
}

bool onednn_supports(DType dtype) {
  return dtype == DType::f32 || (dtype == DType::bf16 && has_isa(dnnl::cpu_isa::avx512_core_bf16));
}

bool onednn_has_tiles() { return has_isa(dnnl::cpu_isa::avx512_core_amx); }

int onednn_block() {
  if (has_isa(dnnl::cpu_isa::avx512_core)) return 16;
  return has_isa(dnnl::cpu_isa::sse41) ? 8 : 0;
}

memory::data_type onednn_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return memory::data_type::f32;
    case DType::bf16:
      return memory::data_type::bf16;
    default:
      throw Error(ErrorCode::internal, "oneDNN is not used for " + std::string(to_string(dtype)));
  }
}

memory::desc memory_desc(const OperandDesc& operand) {
  const memory::dims dims = operand.shape.to_ints();
  const auto type = onednn_type(operand.dtype);
  if (operand.layout.block == 16) return {dims, type, memory::format_tag::nChw16c};
  if (operand.layout.block == 8) return {dims, type, memory::format_tag::nChw8c};
  return {dims, type, memory::dims(operand.strides)};
}

memory::desc any_format(const OperandDesc& operand) {
  return {memory::dims(operand.shape.to_ints()), onednn_type(operand.dtype), memory::format_tag::any};
}

dnnl::primitive_attr primitive_attributes(Activation activation) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (activation == Activation::none) return attr;
  auto algorithm = dnnl::algorithm::eltwise_relu;
  if (activation == Activation::tanh) algorithm = dnnl::algorithm::eltwise_tanh;
  if (activation == Activation::sigmoid) algorithm = dnnl::algorithm::eltwise_logistic;
  dnnl::post_ops ops;
#if DNNL_VERSION_MAJOR >= 3
  ops.append_eltwise(algorithm, 0.F, 0.F);
#else
  ops.append_eltwise(1.F, algorithm, 0.F, 0.F);
#endif
  attr.set_post_ops(ops);
  return attr;
}

}  // namespace athanor::cpu
