// conv2d, conv2d_input_grad and conv2d_weight_grad.
//
// Activations have the layouts of the request. Weights and their gradients are row-major in the graph.
// Kernels reorder them to and from the primitive's format, which takes little time compared with the
// convolution.
#include <algorithm>
#include <type_traits>

#include "athanor/backends/cpu/onednn/candidates.h"
#include "athanor/backends/cpu/onednn/layouts.h"
#include "athanor/backends/cpu/onednn/sequence.h"
#include "athanor/kernels/epilogue.h"
#include "athanor/ops/conv_kind.h"

namespace athanor::cpu {
namespace {

using memory = dnnl::memory;
using dnnl::algorithm;
using dnnl::prop_kind;

OperandDesc dense(OperandDesc operand) {
  operand.strides = contiguous_strides(operand.shape);
  return operand;
}

/// The convolution that a request computes, or computes a gradient of.
struct Conv {
  const KernelRequest& request;
  OperandDesc x, w, y;  // w: [O, I, H, W], with groups [G, O / G, I / G, H, W]
  memory::dims strides, dilates, padding;
  SimpleEpilogue epilogue;
  OperandDesc bias;  // [O], if there is one

  explicit Conv(const KernelRequest& r)
      : request(r),
        strides(r.attrs.ints("stride")),
        dilates(r.attrs.ints("dilation")),
        padding(r.attrs.ints("padding")),
        epilogue(simple_epilogue(r).value()) {
    if (epilogue.bias) {
      bias = r.inputs[2];
      bias.shape = {bias.shape.size()};
      bias.layout = {};  // of an image of one pixel, whose channels lie in order in any layout
      bias = dense(bias);
    }
    const ConvKind kind = conv_kind(*r.op);
    if (kind == ConvKind::result)
      x = r.inputs[0], w = r.inputs[1], y = r.output();
    else if (kind == ConvKind::input_grad)
      x = r.output(), w = r.inputs[1], y = r.inputs[0];
    else
      x = r.inputs[0], w = r.output(), y = r.inputs[1];
    for (auto& dilation : dilates) --dilation;  // oneDNN counts the gaps
    if (const int64_t groups = r.attrs.integer("groups"); groups > 1)
      w.shape = w.shape.with(0, w.shape[0] / groups).insert(0, groups);
    x = dense(x), w = dense(w), y = dense(y);  // Sequence::make_dense makes them so
  }
};

/// The role of a primitive's argument: an input of the request, or its output.
struct Role {
  int argument;  // DNNL_ARG_SRC, ...
  int input;     // -1: the output
  memory::desc format;
  bool weights = false;
};

std::vector<Role> roles_of(const Conv& conv) {
  const auto x = memory_desc(conv.x), w = memory_desc(conv.w), y = memory_desc(conv.y);
  const ConvKind kind = conv_kind(*conv.request.op);
  if (kind == ConvKind::input_grad)
    return {{DNNL_ARG_DIFF_DST, 0, y}, {DNNL_ARG_WEIGHTS, 1, w, true}, {DNNL_ARG_DIFF_SRC, -1, x}};
  if (kind == ConvKind::weight_grad)
    return {{DNNL_ARG_SRC, 0, x}, {DNNL_ARG_DIFF_DST, 1, y}, {DNNL_ARG_DIFF_WEIGHTS, -1, w, true}};
  std::vector<Role> roles = {{DNNL_ARG_SRC, 0, x}, {DNNL_ARG_WEIGHTS, 1, w, true}, {DNNL_ARG_DST, -1, y}};
  if (conv.epilogue.bias) roles.push_back({DNNL_ARG_BIAS, 2, memory_desc(conv.bias), true});
  return roles;
}

template <class Primitive>
Candidate build(const Conv& conv, const typename Primitive::primitive_desc& found, const std::string& name) {
  Sequence sequence(conv.request);
  for (size_t i = 0; i < conv.request.inputs.size(); ++i) sequence.make_dense(i);
  const std::vector<Role> roles = roles_of(conv);
  std::vector<Sequence::Argument> arguments;
  for (const Role& role : roles) {
    const memory::desc wanted = found.query_md(dnnl::query::exec_arg_md, role.argument);
    const Slot place = role.input < 0 ? sequence.output(role.format, wanted)
                                      : sequence.input(static_cast<size_t>(role.input), role.format, wanted);
    arguments.push_back({role.argument, wanted, place});
  }
  sequence.add(Primitive(found), found.scratchpad_desc(), arguments);
  for (size_t i = 0; i < roles.size(); ++i)
    if (roles[i].input < 0) sequence.store_output(roles[i].format, arguments[i].format, arguments[i].place);
  return std::move(sequence).finish(name);
}

bool contains(const std::string& text, const char* word) { return text.find(word) != std::string::npos; }

/// Whether the primitive reads or writes activations in another layout than the request's.
template <class PrimitiveDesc>
bool reorders_activations(const Conv& conv, const PrimitiveDesc& found) {
  return std::ranges::any_of(roles_of(conv), [&](const Role& role) {
    return !role.weights && found.query_md(dnnl::query::exec_arg_md, role.argument) != role.format;
  });
}

/// Whether the implementation reads memory that it has not written. oneDNN 2.6's jit_bf16 does for the
/// gradient by weights, if a row of a padded image is shorter than the stride.
bool reads_beyond_rows(const Conv& conv, const std::string& implementation) {
  return conv_kind(*conv.request.op) == ConvKind::weight_grad && contains(implementation, "jit_bf16") &&
         conv.padding.back() > 0 && conv.x.shape[-1] < conv.strides.back();
}

/// Offers the first implementation of a description, and the first one that uses matrix multiplication.
template <class Primitive>
void offer(const Conv& conv, std::optional<Description<Primitive>> found, algorithm how, bool own_layouts,
           bool with_reference, std::vector<Candidate>& candidates) {
  if (!found) return;
  const bool with_gemm = !own_layouts;
  const std::string label = std::string(how == algorithm::convolution_winograd ? "winograd" : "direct") +
                            (own_layouts ? " reordered" : "");
  bool first = true;
  do {
    const std::string implementation = found->primitive_desc.impl_info_str();
    const bool gemm = contains(implementation, "gemm") && !contains(implementation, "brg");
    if (contains(implementation, "ref") && !with_reference) continue;
    if (reads_beyond_rows(conv, implementation)) continue;
    if (!first && !(gemm && with_gemm)) continue;
    if (own_layouts && !reorders_activations(conv, found->primitive_desc)) return;  // offered already
    const std::string name = "oneDNN " + (gemm ? "gemm" : label) + " " + implementation;
    if (std::ranges::none_of(candidates, [&](const Candidate& known) { return known.name == name; }) &&
        !add_candidate(candidates, [&] { return build<Primitive>(conv, found->primitive_desc, name); }))
      continue;
    candidates.back().fewer_products = how == algorithm::convolution_winograd;
    first = false;
    if (gemm || !with_gemm) return;
  } while (found->primitive_desc.next_impl());
}

/// Asks for the formats of the request, or for oneDNN's own choice of activation layouts.
void offer_algorithm(const Conv& conv, algorithm how, bool own_layouts, bool with_reference,
                     std::vector<Candidate>& candidates) {
  const KernelRequest& request = conv.request;
  const memory::dims &strides = conv.strides, &dilates = conv.dilates, &padding = conv.padding;
  const memory::desc x = own_layouts ? any_format(conv.x) : memory_desc(conv.x);
  const memory::desc y = own_layouts ? any_format(conv.y) : memory_desc(conv.y);
  const memory::desc w = any_format(conv.w);
  const auto attr = primitive_attributes(conv.epilogue.activation);
  const auto add = [&]<class Primitive>(std::type_identity<Primitive>, auto found) {
    offer<Primitive>(conv, std::move(found), how, own_layouts, with_reference, candidates);
  };
  // Always training. For inference, Winograd needs its weights transformed by a reorder, which is many times
  // slower than the transformation inside the training primitive.
  constexpr auto mode = prop_kind::forward_training;
  const ConvKind kind = conv_kind(*request.op);
  if (kind == ConvKind::result && conv.epilogue.bias) {
    const memory::desc bias = memory_desc(conv.bias);
    add(std::type_identity<dnnl::convolution_forward>{},
        describe<dnnl::convolution_forward>(attr, mode, how, x, w, bias, y, strides, dilates, padding,
                                            padding));
    return;
  }
  const auto forward =
      describe<dnnl::convolution_forward>(attr, mode, how, x, w, y, strides, dilates, padding, padding);
  if (!forward) return;
  if (kind == ConvKind::result)
    add(std::type_identity<dnnl::convolution_forward>{}, forward);
  else if (kind == ConvKind::input_grad)
    add(std::type_identity<dnnl::convolution_backward_data>{},
        describe_gradient<dnnl::convolution_backward_data>(attr, *forward, how, x, w, y, strides, dilates,
                                                           padding, padding));
  else
    add(std::type_identity<dnnl::convolution_backward_weights>{},
        describe_gradient<dnnl::convolution_backward_weights>(attr, *forward, how, x, w, y, strides, dilates,
                                                              padding, padding));
}

}  // namespace

static std::vector<Candidate> onednn_conv(const KernelRequest& request) {
  const Conv conv(request);
  std::vector<Candidate> candidates;
  // Tiles are faster even if activations have to be reordered for them.
  const bool tiles = request.output().dtype == DType::bf16 && onednn_has_tiles();
  // Direct algorithms first: they round as the definition does. So they run if nothing is timed, and the
  // tuner compares Winograd's results with theirs.
  for (const auto how : {algorithm::convolution_direct, algorithm::convolution_winograd})
    for (const bool own_layouts : {tiles, !tiles}) offer_algorithm(conv, how, own_layouts, false, candidates);
  // has_kernel() promised a kernel, so offer one, however slow.
  if (candidates.empty()) offer_algorithm(conv, algorithm::convolution_direct, false, true, candidates);
  return candidates;
}

namespace {

// Only oneDNN computes convolutions whole.
bool serves_conv(std::span<const TensorType> inputs, const TensorType& output) {
  const auto fits = [&](const TensorType& type) {
    return type.dtype == output.dtype && type.shape.size() > 0;
  };
  return onednn_supports(output.dtype) && fits(output) && std::ranges::all_of(inputs, fits);
}

ProductsBy onednn_products_by(DType dtype) {
  if (!onednn_supports(dtype)) return ProductsBy::conversion;
  return dtype == DType::bf16 && onednn_has_tiles() ? ProductsBy::tiles : ProductsBy::vectors;
}

[[maybe_unused]] const bool onednn_conv_registered =
    register_kernels({KernelSource::library, conv_ops(), by_onednn<onednn_conv>, serves_conv, layouts_of_conv,
                      onednn_products_by});

}  // namespace

}  // namespace athanor::cpu
