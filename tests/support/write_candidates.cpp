// Writes the launches of kernel candidates, for tools/check-gpu-kernels:
// `write_candidates FOLDER hip|cuda|opencl KIND [ARCHITECTURE]`. KIND is
// `all`: every candidate that the templates offer a GPU for training's products, convolutions and attention,
// and the first of each kind for each op's own cases. It fails if an op with a template computes none of its
// cases.
// `products`: only the first candidate, and the first that copies boxes or not, of products of 4096 x 4096
// and, if there are matrix units, of GPT-2 small's attention; and the first for all of its gradients.
// `convolutions`: of ResNet-50's, in f16 if there are matrix units, else f32.
// `guesses`: every candidate of the problems of training_problems.h, with what its time depends on.
// With an architecture ("gfx1100", "sm_86") there are candidates for its matrix units; `opencl` with 8 or 16
// has those for Intel's units of that many lanes. (A plan for a GPU that does not exist has only the first
// candidate of each op.) launches.json says what each launch needs.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <ranges>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "athanor/backends/gpu/exchange_trial.h"
#include "athanor/base/ceil_div.h"
#include "athanor/base/error.h"
#include "athanor/base/file.h"
#include "athanor/kernels/gpu/gpu_access.h"
#include "athanor/kernels/gpu/gpu_kernel.h"
#include "athanor/kernels/gpu/opencl_units.h"
#include "athanor/kernels/gpu/templates.h"
#include "athanor/ops/conv_problem.h"
#include "tests/support/epilogues.h"
#include "tests/support/normalising_loop.h"
#include "tests/support/reduced.h"
#include "tests/support/training_problems.h"

namespace athanor {
namespace {

/// The units of an OpenCL device with sub-groups of 8 or 16 lanes, or of an architecture.
std::span<const MatrixUnit> units_of_opencl(std::string_view of) {
  static std::vector<MatrixUnit> units;
  units = opencl_units({.least_wave = of == "8"    ? 8
                                      : of == "16" ? 16
                                                   : 0,
                        .amd = of.starts_with("gfx"),
                        .nvidia = of.starts_with("sm_")});
  const auto target = of.starts_with("gfx") ? GpuTarget::hip : GpuTarget::cuda;
  const auto native = matrix_units(target, of);
  std::erase_if(units, [&](const MatrixUnit& unit) {
    return unit.form != MatrixUnit::Form::dpas &&
           std::ranges::count(native, unit.instruction, &MatrixUnit::instruction) == 0;
  });
  return units;
}

class Writer {
 public:
  Writer(std::filesystem::path folder, GpuTarget target, std::string_view architecture, bool first_only)
      : folder_(std::move(folder)),
        target_(target),
        first_only_(first_only),
        traits_(gpu_access(parse_device("offline")).value().traits),
        own_(traits_) {
    if (architecture.empty()) return;
    add_architecture(traits_, target, architecture);
    own_ = traits_;
    if (target == GpuTarget::opencl) {
      own_.local_bytes = traits_.local_bytes = (architecture.starts_with("sm_") ? 48 : 64) * 1024;
      own_.matrix_units = traits_.matrix_units = units_of_opencl(architecture);
      return;
    }
    set_driver_facts(own_, target, architecture);
    traits_.compute_units = own_.compute_units;
  }

  std::span<const MatrixUnit> units() const { return own_.matrix_units; }
  /// Whether units multiply f32, or factors rounded to tf32, in attention.
  bool takes_f32(bool tf32) const {
    return std::ranges::any_of(units(), [&](const MatrixUnit& unit) {
      return unit.input == DType::f32 && unit.tf32 == tf32 && !unit.reads_local();
    });
  }

  void add(const char* op, const Attrs& attrs, DType dtype, const std::vector<Shape>& inputs,
           const Shape& output, const std::vector<std::string>& with = {}, const std::string& title = {},
           ComputeType compute = ComputeType::by_dtypes) {
    const auto desc = [&](const Shape& shape) {
      // Attention has one f32 number for each query.
      const bool number = shape.rank() == 3 && std::string_view(op).starts_with("attention");
      return OperandDesc{number ? DType::f32 : dtype, shape, {}, contiguous_strides(shape)};
    };
    KernelRequest request{&find_op(op), attrs, {}, {desc(output)}, {}};
    if (request.op->name == "wide_batch_matmul")
      request.outputs[0].dtype = dtype == DType::i8 ? DType::i32 : DType::f32;
    request.compute = compute;
    for (const Shape& input : inputs) request.inputs.push_back(desc(input));
    use_layouts(request);
    for (const std::string& other : with) {
      request.with.push_back(&find_op(other));
      request.outputs.push_back(desc(output));
    }
    if (!with.empty() && !gpu_computes_together(request, own_)) return;
    const bool all_memory = request.op->name.ends_with("batch_matmul") ||
                            request.op->name.find("attention") != std::string::npos || !title.empty();
    add(request, all_memory ? own_ : traits_, compute == ComputeType::tf32 ? "tf32" : to_string(dtype),
        title);
  }

  /// A product of square matrices with factors rounded to tf32, if the chip multiplies these.
  void add_tf32(int64_t n, bool b_along_k) {
    if (std::ranges::none_of(own_.matrix_units, &MatrixUnit::tf32)) return;
    const OperandDesc matrix{DType::f32, {1, n, n}, {}, {n * n, n, 1}};
    KernelRequest request{&find_op("batch_matmul"), {}, {matrix, matrix}, {matrix}, {}};
    request.compute = ComputeType::tf32;
    if (b_along_k) request.inputs[1].strides = {n * n, 1, n};
    add(request, own_, "tf32", b_along_k ? "B along k: " : "");
  }

  /// A product of square matrices of bytes, if the chip multiplies these.
  void add_bytes(DType dtype, int64_t n, bool b_along_k) {
    const auto takes = [&](std::span<const MatrixUnit> units) {
      return std::ranges::any_of(units, [&](const MatrixUnit& unit) { return unit.input == dtype; });
    };
    if (!takes(own_.matrix_units) && !takes(own_.lane_units)) return;
    const OperandDesc matrix{dtype, {1, n, n}, {}, {n * n, n, 1}};
    OperandDesc result = matrix;
    result.dtype = dtype == DType::i8 ? DType::i32 : DType::f32;
    KernelRequest request{&find_op("wide_batch_matmul"), {}, {matrix, matrix}, {result}, {}};
    if (b_along_k) request.inputs[1].strides = {n * n, 1, n};
    add(request, own_, to_string(dtype), b_along_k ? "B along k: " : "");
  }

  /// A layer of 8 experts, of which each has some of 8192 rows, as a gated unit, and its gradient by the
  /// weights.
  void add_groups(DType dtype) {
    const OperandDesc x = whole({dtype, {8192, 4096}, {}}), w = whole({dtype, {8, 4096, 4096}, {}}),
                      ends = whole({DType::i64, {8}, {}});
    add({&find_op("grouped_matmul"), {}, {x, w, ends}, {x}, {}}, own_, to_string(dtype), "8 groups: ");
    KernelRequest gated{&find_op("grouped_matmul"), {}, {x, w, ends, x}, {x}, {}};
    gated.epilogue = testing::program_of({.activation = "sigmoid", .gate = true}, gated);
    add(gated, own_, to_string(dtype), "8 groups gated: ");
    add({&find_op("grouped_matmul_weight_grad"), {}, {x, x, ends}, {w}, {}}, own_, to_string(dtype),
        "8 groups dw: ");
  }

  /// Attention whose kernels store the sigmoid of the result times a matrix like it, and not the result.
  void add_gated_attention(DType dtype, const Shape& shape, bool causal) {
    const OperandDesc x = whole({dtype, shape, {}});
    KernelRequest gated{&find_op("scaled_dot_product_attention"),
                        {{"causal", causal}, {"scale", 0.125}},
                        {x, x, x, x},
                        {x},
                        {}};
    gated.epilogue = testing::program_of({.activation = "sigmoid", .gate = true}, gated);
    gated.unstored = x;
    add(gated, own_, to_string(dtype), "gated: ");
  }

  /// Attention whose kernels normalise the queries when they read them.
  void add_normalised_attention(DType dtype, const Shape& shape, bool causal) {
    const OperandDesc x = whole({dtype, shape, {}});
    const int64_t features = shape[-1], rows = shape.size() / features;
    KernelRequest request{&find_op("scaled_dot_product_attention"),
                          {{"causal", causal}, {"scale", 0.125}},
                          {x, x, x, x},
                          {x},
                          {}};
    request.prologue = Prologue{0, normalising_loop({1, rows, features}, dtype, dtype)};
    add_norm(request, rows, features, dtype);
    add_computed(request);
  }

  /// A product whose kernels normalise the rows of A when they read them, as before a linear layer.
  void add_normalised(DType dtype, int64_t m, int64_t n, int64_t k) {
    KernelRequest request{&find_op("batch_matmul"),
                          {},
                          {whole({dtype, {1, m, k}, {}}), whole({dtype, {1, k, n}, {}})},
                          {whole({dtype, {1, m, n}, {}})},
                          {}};
    request.prologue = Prologue{0, normalising_loop({1, m, k}, dtype, dtype)};
    for (const TensorType& type : std::vector<TensorType>{{dtype, {1, m, k}, {}},
                                                          {DType::f32, {1, m, 1}, {}},
                                                          {DType::f32, {1, m, 1}, {}},
                                                          {dtype, {k}, {}},
                                                          {dtype, {k}, {}}})
      request.inputs.push_back(whole(type));
    add_computed(request);
  }

  /// A convolution whose kernels normalise the channels of each pixel when they read or copy them.
  void add_normalised_images(DType dtype, const Shape& x, const Shape& w, const Conv2dOptions& options) {
    const Attrs attrs = conv_attrs(options);
    KernelRequest request{&find_op("conv2d"),
                          attrs,
                          {whole({dtype, x, {}}), whole({dtype, w, {}})},
                          {whole({dtype, ConvProblem(x, w, attrs).y, {}})},
                          {}};
    use_layouts(request);
    if (!request.inputs[0].channels_last()) return;
    const int64_t channels = x[1], pixels = x.size() / channels;
    request.prologue = Prologue{0, normalising_loop({1, pixels, channels}, dtype, dtype)};
    request.inputs.push_back(request.inputs[0]);
    add_norm(request, pixels, channels, dtype);
    add_computed(request);
  }

  /// All candidates of a product of training. Rows of odd length are as far apart as plans have them.
  void add_problem(const testing::TrainingProduct& p, DType dtype) {
    const auto matrix = [&](int64_t rows, int64_t columns, bool turned) {
      const int64_t run = turned ? rows : columns, lines = turned ? columns : rows,
                    apart = run % 8 == 0 ? run : ceil_div(run, 64) * 64;
      OperandDesc operand{dtype, {p.batch, rows, columns}, {}, {lines * apart, apart, 1}};
      if (turned) std::swap(operand.strides[1], operand.strides[2]);
      operand.padding = apart - run;
      return operand;
    };
    const KernelRequest request{&find_op("batch_matmul"),
                                {},
                                {matrix(p.m, p.k, p.a_turned), matrix(p.k, p.n, p.b_turned)},
                                {matrix(p.m, p.n, false)},
                                {}};
    problem_ = {{"problem", p.name}, {"batch", p.batch}, {"m", p.m}, {"n", p.n}, {"k", p.k}};
    add(request, own_, to_string(dtype), {});
  }

  /// All candidates of a convolution of training and of its gradients.
  void add_problem(const testing::TrainingConvolution& p, DType dtype) {
    const Shape x{p.images, p.channels, p.pixels, p.pixels}, w{p.results, p.channels, p.taps, p.taps},
        y{p.images, p.results, p.pixels, p.pixels};
    Attrs attrs = conv_attrs({.padding = p.taps / 2});
    const int64_t pixels = p.images * p.pixels * p.pixels, taps = p.taps * p.taps;
    const auto name = [&](const char* direction, int64_t m, int64_t n, int64_t k) {
      problem_ = {{"problem", p.name + std::string(direction)}, {"batch", 1}, {"m", m}, {"n", n}, {"k", k}};
    };
    name("", p.results, pixels, p.channels * taps);
    add("conv2d", attrs, dtype, {x, w}, y, {}, "conv ");
    name(" dw", p.results, p.channels * taps, pixels);
    Attrs weights = attrs;
    weights.set("weight_shape", w.to_ints());
    add("conv2d_weight_grad", weights, dtype, {x, y}, w, {}, "conv ");
    name(" dx", p.channels, pixels, p.results * taps);
    attrs.set("input_shape", x.to_ints());
    add("conv2d_input_grad", attrs, dtype, {y, w}, x, {}, "conv ");
  }

  /// The first candidate of each kind for an op's own cases, in one dtype of each kind. Throws
  /// Error(internal) if there is none.
  void add_cases(const Op& op) {
    bool any = false;
    for (const DType dtype : testing::one_of_each_kind(op.dtypes))
      for (const OpCase& one : op.cases) {
        std::vector<TensorType> types;
        for (const Sample& sample : one.inputs)
          types.push_back({sample.dtype.value_or(dtype), sample.shape, {}});
        const TensorType result = op.infer(types, one.attrs);
        if (!gpu_has_kernel(op, types, result, one.attrs, own_)) continue;
        KernelRequest request{&op, one.attrs, {}, {whole(result)}, {}};
        for (const TensorType& type : types) request.inputs.push_back(whole(type));
        for (const GpuCandidate& candidate : gpu_candidates(request, own_)) {
          any = true;
          if (testing::is_first_of_kind(op.name, dtype, candidate.name))
            write(candidate, op.name, to_string(dtype), {});
        }
      }
    if (!any)
      throw Error(ErrorCode::internal, fmt::format("the op '{}' has a template, but no kernel", op.name), {},
                  "Give its declaration a case that the template computes");
  }
  /// The kernel by which the exchanges of OpenCL's units are tried.
  void add_exchange() {
    if (target_ != GpuTarget::opencl || units().empty() || !units().front().exchanges_lanes()) return;
    write({.name = "exchange", .launches = {gpu::exchange_trial(units().front()).launch}}, "exchange", "u32",
          {});
  }
  void finish() { write_file_atomically((folder_ / "launches.json").string(), list_.dump(2) + "\n"); }

 private:
  static OperandDesc whole(const TensorType& type) {
    return {type.dtype, type.shape, {}, contiguous_strides(type.shape)};
  }

  /// Has images lie in memory as plans keep them.
  void use_layouts(KernelRequest& request) const {
    std::vector<TensorType> types;
    for (const OperandDesc& input : request.inputs) types.push_back({input.dtype, input.shape, {}});
    const OperandDesc& output = request.output();
    const auto layouts =
        gpu_layouts(*request.op, types, {output.dtype, output.shape, {}}, request.attrs, own_);
    if (layouts.empty()) return;
    const auto use = [](OperandDesc& operand, Layout layout) {
      if (layout.is_channels_last()) operand.strides = channels_last_strides(operand.shape);
    };
    for (size_t i = 0; i < request.inputs.size(); ++i) use(request.inputs[i], layouts[i]);
    use(request.outputs[0], layouts.back());
  }

  /// What normalises a prologue's input: two numbers for each row, two for each column.
  static void add_norm(KernelRequest& request, int64_t rows, int64_t columns, DType dtype) {
    for (const TensorType& type : std::vector<TensorType>{{DType::f32, {rows}, {}},
                                                          {DType::f32, {rows}, {}},
                                                          {dtype, {columns}, {}},
                                                          {dtype, {columns}, {}}})
      request.inputs.push_back(whole(type));
  }

  /// The candidates of a request that compute its prologue.
  void add_computed(const KernelRequest& request) {
    const auto computes = [](const GpuCandidate& one) { return !one.name.starts_with("a loop"); };
    for (const GpuCandidate& candidate : gpu_candidates(request, own_) | std::views::filter(computes)) {
      write(candidate, request.op->name, to_string(request.output().dtype), "normalised: ");
      if (first_only_) break;
    }
  }

  void add(const KernelRequest& request, const GpuTraits& traits, std::string_view type,
           const std::string& title) {
    auto candidates = gpu_candidates(request, traits);
    if (!problem_.is_null()) {
      int64_t elements = request.output().shape.size();
      for (const OperandDesc& input : request.inputs) elements += input.shape.size();
      problem_["bytes"] = elements * static_cast<int64_t>(size_of(request.output().dtype));
    }
    if (first_only_) {
      // Of another kind than the first: with or without boxes, or all of attention's gradients in one kernel.
      const auto kind = [](const GpuCandidate& one) {
        return one.parameters.contains("boxes") || one.parameters.contains("parts");
      };
      const auto other = std::ranges::find(candidates, !kind(candidates.front()), kind);
      const bool several = other != candidates.end();
      if (several) candidates[1] = *other;
      candidates.resize(several ? 2 : 1);
    }
    for (size_t i = 0; i < candidates.size(); ++i) {
      if (!problem_.is_null()) problem_["candidate"] = i;
      write(candidates[i], std::string(request.op->name), type, title);
    }
  }

  void write(const GpuCandidate& candidate, const std::string& op, std::string_view type,
             const std::string& title) {
    for (const GpuLaunch& launch : candidate.launches) {
      std::string source = render(launch, target_);
      if (!seen_.insert(source).second && problem_.is_null()) continue;
      const std::string name =
          fmt::format("{:03}_{}_{}.{}", list_.size() + 1, op, launch.name, name_of(target_).suffix);
      write_file_atomically((folder_ / name).string(), source);
      nlohmann::json entry = {{"file", name},
                              {"op", op},
                              {"kernel", title + candidate.name},
                              {"dtype", type},
                              {"compile_options", launch.compile_options},
                              {"group_size", launch.group_size},
                              {"local_bytes", launch.local_bytes}};
      if (!problem_.is_null()) {
        entry.update(problem_);
        entry["launch"] = launch.name;
        entry["groups"] = launch.groups[0] * launch.groups[1] * launch.groups[2];
        entry["scratch_bytes"] = candidate.scratch_bytes;
        entry["parameters"] = candidate.parameters;
      }
      list_.push_back(std::move(entry));
    }
  }

  std::filesystem::path folder_;
  GpuTarget target_;
  bool first_only_;
  nlohmann::json list_ = nlohmann::json::array();
  GpuTraits traits_, own_;  // own_: with the architecture's local memory; other templates get less
  std::set<std::string> seen_;
  nlohmann::json problem_;  // of training, and the candidate's number; null for others
};

/// `title`: a layer's name, with which its kernels' names start.
void add_convolution(Writer& writer, DType dtype, const Shape& x, const Shape& w,
                     const Conv2dOptions& options, const std::string& title = {}, bool gradients = true) {
  const auto direction = [&](const char* name) { return title.empty() ? title : title + name; };
  Attrs attrs = conv_attrs(options);
  const Shape y = ConvProblem(x, w, attrs).y;
  writer.add("conv2d", attrs, dtype, {x, w}, y, {}, direction(": "));
  if (!gradients) return;
  Attrs images = attrs;
  images.set("input_shape", x.to_ints());
  writer.add("conv2d_input_grad", images, dtype, {y, w}, x, {}, direction(" dx: "));
  attrs.set("weight_shape", w.to_ints());
  writer.add("conv2d_weight_grad", attrs, dtype, {x, y}, w, {}, direction(" dw: "));
}

void add_attention(Writer& writer, DType dtype, const Shape& x, bool causal,
                   ComputeType compute = ComputeType::by_dtypes, const std::string& title = {}) {
  const Attrs attrs = {{"causal", causal}, {"scale", 0.125}};
  const Shape rows{x[0], x[1], x[2]};
  const auto add = [&](const char* op, const std::vector<Shape>& inputs,
                       const std::vector<std::string>& with = {}) {
    writer.add(op, attrs, dtype, inputs, x, with, title, compute);
  };
  add("scaled_dot_product_attention", {x, x, x});
  add("attention_grad_q", {x, x, x, x, rows, rows});
  add("attention_grad_k", {x, x, x, x, rows, rows}, {"attention_grad_v"});
  add("attention_grad_q", {x, x, x, x, rows, rows}, {"attention_grad_k", "attention_grad_v"});
}

// Kernels that a step has only if not all gradients are wanted, and one that takes little of its time.
void add_rest_of_attention(Writer& writer, DType dtype, const Shape& x, bool causal) {
  const Attrs attrs = {{"causal", causal}, {"scale", 0.125}};
  const Shape rows{x[0], x[1], x[2]};
  writer.add("attention_grad_k", attrs, dtype, {x, x, x, x, rows, rows}, x);
  writer.add("attention_grad_v", attrs, dtype, {x, x, x, x, rows, rows}, x);
  writer.add("attention_lse", attrs, dtype, {x, x}, rows);
}

void write_products(const char* folder, GpuTarget target, std::string_view architecture) {
  Writer writer(folder, target, architecture, true);
  const Shape matrix{1, 4096, 4096};
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    writer.add("batch_matmul", {}, dtype, {matrix, matrix}, matrix);
  for (const bool b_along_k : {false, true}) writer.add_tf32(4096, b_along_k);
  for (const DType dtype : {DType::i8, DType::f8e4m3})
    for (const bool b_along_k : {false, true}) writer.add_bytes(dtype, 4096, b_along_k);
  for (const DType dtype : {DType::f32, DType::f16}) writer.add_normalised(dtype, 4096, 4096, 4096);
  for (const DType dtype : {DType::f32, DType::f16}) writer.add_groups(dtype);
  // The attention of GPT-2 small, with 8 texts.
  const auto units = writer.units();
  const Shape texts{8, 12, 1024, 64};
  if (!units.empty()) add_attention(writer, DType::f16, texts, true);
  if (writer.takes_f32(false)) add_attention(writer, DType::f32, texts, true);
  if (writer.takes_f32(true)) add_attention(writer, DType::f32, texts, true, ComputeType::tf32);
  writer.finish();
}

/// All kernels of GPT-2 small's attention, and of one with heads of 128.
void write_attention(const char* folder, GpuTarget target, std::string_view architecture) {
  Writer writer(folder, target, architecture, false);
  for (const int64_t features : {64, 128})
    add_attention(writer, DType::f16, {8, 12, 1024, features}, true, ComputeType::by_dtypes,
                  fmt::format("heads of {}: ", features));
  writer.finish();
}

/// ResNet-50's convolutions at batch 32.
void write_convolutions(const char* folder, GpuTarget target, std::string_view architecture) {
  Writer writer(folder, target, architecture, true);
  const DType dtype = matrix_units(target, architecture).empty() ? DType::f32 : DType::f16;
  const auto add = [&](const char* title, int64_t channels, int64_t pixels, int64_t results, int64_t taps,
                       const Conv2dOptions& options = {}, bool gradients = false) {
    add_convolution(writer, dtype, {32, channels, pixels, pixels}, {results, channels, taps, taps}, options,
                    title, gradients);
  };
  add("7x7/2 3>64", 3, 224, 64, 7, {.stride = 2, .padding = 3});
  add("1x1 64>256", 64, 56, 256, 1);
  add("3x3 64", 64, 56, 64, 3, {.padding = 1}, true);
  add("3x3/2 128", 128, 56, 128, 3, {.stride = 2, .padding = 1}, true);
  add("3x3 128", 128, 28, 128, 3, {.padding = 1});
  add("3x3 256", 256, 14, 256, 3, {.padding = 1});
  add("1x1 1024>256", 1024, 14, 256, 1, {}, true);
  add("3x3 512", 512, 7, 512, 3, {.padding = 1}, true);
  writer.finish();
}

/// Products in f16 and some in f32; convolutions as write_convolutions.
void write_guesses(const char* folder, GpuTarget target, std::string_view architecture) {
  Writer writer(folder, target, architecture, false);
  for (const testing::TrainingProduct& product : testing::training_products) {
    writer.add_problem(product, DType::f16);
    if (product.in_f32) writer.add_problem(product, DType::f32);
  }
  const DType dtype = matrix_units(target, architecture).empty() ? DType::f32 : DType::f16;
  for (const testing::TrainingConvolution& one : testing::training_convolutions)
    writer.add_problem(one, dtype);
  writer.finish();
}

void write(const char* folder, GpuTarget target, std::string_view architecture) {
  Writer writer(folder, target, architecture, false);
  for (const DType dtype : {DType::f16, DType::bf16})
    writer.add("batch_matmul", {}, dtype, {{1, 4096, 4096}, {1, 4096, 4096}}, {1, 4096, 4096});
  for (const bool b_along_k : {false, true}) writer.add_tf32(4096, b_along_k);
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    writer.add_normalised(dtype, 1024, 1024, 768);
  for (const DType dtype : {DType::i8, DType::f8e4m3, DType::f8e5m2})
    writer.add("wide_batch_matmul", {}, dtype, {{1, 4096, 4096}, {1, 4096, 4096}}, {1, 4096, 4096});
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const Shape& mnk :
         std::vector<Shape>{{1024, 1024, 1024}, {128, 10, 512}, {1, 1000, 1000}, {7, 5, 3000}})
      writer.add("batch_matmul", {}, dtype, {{1, mnk[0], mnk[2]}, {1, mnk[2], mnk[1]}}, {1, mnk[0], mnk[1]});
  // Lanes exchange elements before they store whole tiles of it.
  for (const DType dtype : {DType::f16, DType::bf16})
    writer.add("batch_matmul", {}, dtype, {{1, 128, 256}, {1, 256, 96}}, {1, 128, 96});
  add_convolution(writer, DType::f32, {64, 64, 32, 32}, {64, 64, 3, 3}, {.padding = 1});
  add_convolution(writer, DType::f32, {8, 3, 64, 64}, {64, 3, 7, 7}, {.stride = 2, .padding = 3});
  add_convolution(writer, DType::f32, {8, 64, 30, 30}, {64, 1, 3, 3}, {.padding = 1, .groups = 64});
  add_convolution(writer, DType::f32, {8, 64, 30, 30}, {3, 64, 5, 5}, {.padding = 2});
  add_convolution(writer, DType::bf16, {8, 64, 28, 28}, {64, 64, 3, 3}, {.padding = 1});
  add_convolution(writer, DType::bf16, {8, 64, 28, 28}, {128, 64, 1, 1}, {});
  add_convolution(writer, DType::bf16, {8, 3, 64, 64}, {64, 3, 7, 7}, {.stride = 2, .padding = 3});
  for (const int64_t taps : {3, 1})
    writer.add_normalised_images(DType::bf16, {8, 64, 28, 28}, {64, 64, taps, taps}, {.padding = taps / 2});
  for (const bool causal : {false, true}) {
    add_attention(writer, DType::f32, {4, 8, 200, 64}, causal);
    add_rest_of_attention(writer, DType::f32, {4, 8, 200, 64}, causal);
  }
  if (writer.takes_f32(true)) add_attention(writer, DType::f32, {4, 8, 200, 64}, true, ComputeType::tf32);
  add_attention(writer, DType::f16, {4, 8, 200, 64}, true);
  add_rest_of_attention(writer, DType::f16, {4, 8, 200, 64}, true);
  add_attention(writer, DType::f16, {4, 8, 200, 128}, false);
  add_attention(writer, DType::bf16, {4, 8, 200, 64}, false);
  writer.add_gated_attention(DType::f32, {4, 8, 200, 64}, false);
  writer.add_gated_attention(DType::f16, {4, 8, 200, 64}, true);
  writer.add_gated_attention(DType::bf16, {4, 8, 200, 128}, false);
  for (const DType dtype : {DType::f32, DType::f16})
    writer.add_normalised_attention(dtype, {4, 8, 200, 64}, true);
  for (const std::string& op : gpu::ops_with_templates()) writer.add_cases(find_op(op));
  writer.add_exchange();
  writer.finish();
}

}  // namespace
}  // namespace athanor

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs(
        "usage: write_candidates FOLDER [hip|cuda|opencl [all|products|attention|convolutions|guesses "
        "[ARCHITECTURE]]]\n",
        stderr);
    return 2;
  }
  try {
    const std::string_view asked = argc > 2 ? argv[2] : "hip";
    const auto target = asked == "cuda"     ? athanor::GpuTarget::cuda
                        : asked == "opencl" ? athanor::GpuTarget::opencl
                                            : athanor::GpuTarget::hip;
    const std::string_view architecture = argc > 4 ? argv[4] : "";
    const std::string_view kind = argc > 3 ? argv[3] : "all";
    if (kind == "products")
      athanor::write_products(argv[1], target, architecture);
    else if (kind == "attention")
      athanor::write_attention(argv[1], target, architecture);
    else if (kind == "convolutions")
      athanor::write_convolutions(argv[1], target, architecture);
    else if (kind == "guesses")
      athanor::write_guesses(argv[1], target, architecture);
    else
      athanor::write(argv[1], target, architecture);
  } catch (const athanor::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
