// Tests every declared op on every device. Its cases run in every dtype, and with each pass of the compiler
// switched off, and are compared with its reference. Its decomposition, its gradients and their gradients are
// tested too. There is one test for each op, with its name; a new op is included as soon as it is declared.
#include <algorithm>
#include <cstdlib>
#include <ostream>

#include "athanor/compile/options.h"
#include "athanor/runtime/evaluate.h"
#include "tests/ops/op_harness.h"
#include "tests/support/gpu_devices.h"
#include "tests/support/reduced.h"

namespace athanor::testing {
namespace {

/// The host, or every GPU (see gpu_devices.h). Devices are looked up when the test runs, not when it is
/// listed.
enum class Where : uint8_t { host, gpu };

struct OpOnDevice {
  const Op* op;
  Where where;
};

void PrintTo(const OpOnDevice& one, std::ostream* to) {
  *to << one.op->name << (one.where == Where::host ? " on the host" : " on GPUs");
}

std::vector<OpOnDevice> ops_on_devices() {
  std::vector<OpOnDevice> all;
  for (const Where where : {Where::host, Where::gpu})
    for (const Op* op : all_ops()) all.push_back({op, where});
  return all;
}

class OpTable : public ::testing::TestWithParam<OpOnDevice> {
 protected:
  void SetUp() override {
    if (GetParam().where == Where::host) {
      devices_ = {Device{}};
      return;
    }
    ATHANOR_NEEDS_GPU();
    for (const DeviceInfo& info : gpu_devices()) devices_.push_back(info.device);
  }
  void TearDown() override { test_device() = {}; }
  template <class Body>
  void on_each_device(Body body) {
    for (const Device device : devices_) {
      SCOPED_TRACE(to_string(device));
      test_device() = device;
      body();
    }
  }
  bool on_host() const { return test_device() == Device{}; }
  const Op& op() const { return *GetParam().op; }
  /// Whether the case needs f64 and the device does not have it.
  static bool needs_missing_f64(const FilledCase& c) {
    const auto properties = info_of(test_device()).properties;
    const auto f64 = properties.find("f64");
    if (f64 == properties.end() || f64->second.value != "no") return false;
    std::vector<TensorType> types;
    for (const HostArray& input : c.inputs) types.push_back({input.dtype, input.shape, {}});
    types.push_back(c.op.infer(types, c.spec.attrs));
    return std::ranges::any_of(types, [](const TensorType& type) { return type.dtype == DType::f64; });
  }
  /// The dtypes in which a case runs: all of the op's, or only one if the case sets them all.
  std::vector<DType> dtypes_of(const OpCase& spec) const {
    for (const Sample& sample : spec.inputs)
      if (!sample.dtype) return op().dtypes;
    return {op().dtypes.front()};
  }
  void check_whole();
  void check_gradients();

 private:
  std::vector<Device> devices_;
};

/// GPUs run all cases of an op only if its plan has at most this many steps: each needs a kernel to compile.
constexpr size_t most_steps = 4;
constexpr const char* all_passes = "dedicated,epilogue,simplify,layout,fuse,inplace,join,tune";

void OpTable::check_whole() {
  EXPECT_FALSE(op().doc.empty()) << op().name << " has no documentation";
  EXPECT_EQ(op().prim == Prim::none, static_cast<bool>(op().decompose))
      << op().name << " must decompose, or else be a primitive";
  if (op().prim == Prim::input) return;
  EXPECT_FALSE(op().cases.empty()) << op().name << " has no test cases";
  ASSERT_TRUE(op().reference) << op().name << " has no reference meaning";
  std::vector<std::string> all_off{"",     "dedicated", "epilogue", "simplify", "layout",
                                   "fuse", "inplace",   "tune",     all_passes};
  // Passes do not depend on the device. Only kernels do, fused or each op alone. Other tests (tests/kernels)
  // cover candidates to choose from.
  if (!on_host()) all_off = {"tune", "tune,dedicated", "tune,fuse"};
  const bool reduced = !on_host() && is_reduced();  // only the first case
  if (reduced) all_off.resize(1);
  const bool everything = on_host() || std::getenv("ATHANOR_TEST_EVERYTHING") != nullptr;
  for (const std::string& off : all_off) {
    const ScopedDisable scope(off);
    SCOPED_TRACE("passes switched off: " + (off.empty() ? "none" : off));
    // A decomposed op has many kernels to compile for each shape.
    size_t cases = !reduced && (everything || off == "tune") ? op().cases.size()
                                                             : std::min<size_t>(1, op().cases.size());
    for (size_t i = 0; i < cases; ++i) {
      auto dtypes = dtypes_of(op().cases[i]);
      // Every dtype runs through both kinds of kernels; the other passes do not depend on it. Devices that
      // compile a kernel for each shape and dtype run every dtype in one shape, and every shape in one dtype.
      const bool all_dtypes =
          on_host() ? off.empty() || off == "dedicated" || off == "fuse" : off == "tune" && i == 0;
      if (!all_dtypes) dtypes.resize(1);
      if (reduced) dtypes = one_of_each_kind(dtypes);
      for (DType dtype : dtypes) {
        const FilledCase c = fill(op(), i, dtype);
        if (needs_missing_f64(c)) continue;
        try {
          const Tensor output = call_op(op(), tensors_of(c, false), c.spec.attrs);
          // Most of these kernels belong to other ops, which have their own tests. The host runs all cases.
          if (!everything && plan_for({output})->steps.size() > most_steps) cases = 1;
          if (!expect_reference(c, output.to_host())) return;
        } catch (const std::exception& error) {
          FAIL() << describe(c) << ": " << error.what();
        }
      }
    }
  }
}

void OpTable::check_gradients() {
  // A gradient's gradient is a graph of other ops, and its rule is the same on every device.
  if (!on_host() && op().name.ends_with("_grad") && std::getenv("ATHANOR_TEST_EVERYTHING") == nullptr) return;
  const ScopedDisable untuned(on_host() ? "" : "tune");
  for (size_t i = 0; i < op().cases.size(); ++i) {
    if (!is_float(op().dtypes.front())) continue;
    const FilledCase c = fill(op(), i, DType::f64);
    if (!has_gradient(c) || needs_missing_f64(c)) continue;
    SCOPED_TRACE(describe(c));
    expect_gradient(c);
    if (!on_host() && i > 0) return;  // the gradient rules are the same on every device
    if (!on_host()) continue;
    expect_second_gradient(c);
    if (call_op(op(), tensors_of(c, false), c.spec.attrs).dtype() == DType::f64) expect_shared_gradient(c);
    for (DType dtype : op().dtypes)
      if (is_float(dtype) && dtype != DType::f64) expect_gradient_in(dtype, fill(op(), i, dtype));
    if (HasFailure()) return;
  }
}

TEST_P(OpTable, DecomposesIntoPrimitives) {
  if (op().prim != Prim::none || !on_host()) return;
  const ScopedDisable scope("dedicated");
  for (size_t i = 0; i < op().cases.size(); ++i) {
    const FilledCase c = fill(op(), i, op().dtypes.front());
    const Tensor output = call_op(op(), tensors_of(c, false), c.spec.attrs);
    for (const PlanStep& step : plan_for({output})->steps) {
      if (!step.request) continue;
      EXPECT_NE(step.request->op->prim, Prim::none) << op().name << " runs as " << step.request->op->name;
    }
  }
}

TEST_P(OpTable, IsWholeAndRight) {
  on_each_device([&] { check_whole(); });
}
TEST_P(OpTable, HasRightGradients) {
  on_each_device([&] { check_gradients(); });
}

INSTANTIATE_TEST_SUITE_P(Ops, OpTable, ::testing::ValuesIn(ops_on_devices()), [](const auto& one) {
  return one.param.op->name + (one.param.where == Where::host ? "" : "_on_gpu");
});

}  // namespace
}  // namespace athanor::testing
