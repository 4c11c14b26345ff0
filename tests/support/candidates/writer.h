// Writes the launches of kernel candidates for a chip.
#pragma once
#include <nlohmann/json.hpp>

#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/kernels/gpu/gpu_kernel.h"

namespace athanor {

class Writer {
 public:
  /// `first_only`: of a request's candidates only the first, and the first that copies boxes or not.
  Writer(std::filesystem::path folder, GpuTarget target, std::string_view architecture, bool first_only);

  GpuTarget target() const { return target_; }
  /// With the architecture's local memory.
  const GpuTraits& traits() const { return own_; }
  std::span<const MatrixUnit> units() const { return own_.matrix_units; }
  /// Whether units multiply f32, or factors rounded to tf32, in attention.
  bool takes_f32(bool tf32) const;

  /// The candidates of an op on operands of one dtype. `title`: what the kernels' names start with.
  void add(const char* op, const Attrs& attrs, DType dtype, const std::vector<Shape>& inputs,
           const Shape& output, const std::vector<std::string>& with = {}, const std::string& title = {},
           ComputeType compute = ComputeType::by_dtypes);
  /// Those of a request. `type`: how launches.json names its dtype.
  void add(const KernelRequest& request, std::string_view type, const std::string& title = {});
  /// Those that compute its prologue.
  void add_computed(const KernelRequest& request);
  void write(const GpuCandidate& candidate, const std::string& op, std::string_view type,
             const std::string& title = {});
  /// What launches.json says of the candidates that follow, beside what their time depends on.
  void begin_problem(nlohmann::json facts) { problem_ = std::move(facts); }
  void finish();

 private:
  void add(const KernelRequest& request, const GpuTraits& traits, std::string_view type,
           const std::string& title);

  std::filesystem::path folder_;
  GpuTarget target_;
  bool first_only_;
  nlohmann::json list_ = nlohmann::json::array();
  GpuTraits traits_, own_;  // own_: with the architecture's local memory; other templates get less
  std::set<std::string> seen_;
  nlohmann::json problem_;  // of training, and the candidate's number; null for others
};

OperandDesc whole(const TensorType& type);
/// Has images lie in memory as plans keep them.
void use_layouts(KernelRequest& request, const GpuTraits& traits);
/// What normalises a prologue's input: two numbers for each row, two for each column.
void add_norm(KernelRequest& request, int64_t rows, int64_t columns, DType dtype);

}  // namespace athanor
