// The examination of a device: the host, which is right, and a backend that computes one op wrongly.
#include "athanor/examine/examine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "athanor/compile/options.h"
#include "athanor/examine/cases.h"
#include "athanor/examine/parts.h"
#include "athanor/graph/op.h"
#include "athanor/kernels/cache.h"
#include "athanor/kernels/kernel.h"
#include "athanor/ops/op_case.h"
#include "athanor/ops/ops.h"

namespace athanor {
namespace {

TEST(Examine, FindsTheHostRight) {
  std::vector<std::string> parts;
  ExamineOptions options;
  options.progress = [&](const std::string& part, size_t number, size_t of) {
    parts.push_back(part);
    EXPECT_EQ(number, parts.size());
    EXPECT_LE(number, of);
  };
  const Examination verdict = examine(Device{}, options);
  EXPECT_THAT(verdict.wrong, ::testing::IsEmpty());
  EXPECT_GT(verdict.checks, 80);
  EXPECT_EQ(parts.size(), examination_parts(false).size());
}

// Processes that examine one group each must together check what one process checks alone.
TEST(Examine, GroupsHaveEachPartOnce) {
  std::vector<std::string> grouped, all;
  int64_t checks = 0;
  for (const auto& group : examination_groups(3)) {
    grouped.insert(grouped.end(), group.begin(), group.end());
    const Examination verdict = examine(Device{}, {.only = group});
    EXPECT_THAT(verdict.wrong, ::testing::IsEmpty()) << ::testing::PrintToString(group);
    checks += verdict.checks;
  }
  for (const ExaminationPart& part : examination_parts(false)) all.push_back(part.name);
  EXPECT_THAT(grouped, ::testing::UnorderedElementsAreArray(all));
  EXPECT_EQ(checks, examine(Device{}).checks);
}

TEST(Examine, GroupsKeepTogetherWhatSharesKernels) {
  EXPECT_EQ(examination_groups(1).size(), 1U);
  EXPECT_EQ(examination_groups(1).front().size(), examination_parts(false).size());
  EXPECT_EQ(examination_groups(2).size(), 2U);
  EXPECT_EQ(examination_groups(5, true).size(), 5U);
  for (const auto& group : examination_groups(100))
    EXPECT_EQ(std::ranges::count(group, "a training step"),
              std::ranges::count(group, "convolutions and pooling"));
}

// PoCL takes 0.3 s to read the header of each program.
TEST(Examine, CompilesThePartsKernelsInOneProgram) {
  for (const DeviceInfo& info : list_devices()) {
    if (backend_of(info.device).compiles_side_by_side(info.device.index)) continue;
    const int64_t before = compilations();
    const Examination verdict = examine(info.device, {.only = {"fused loops"}});
    EXPECT_THAT(verdict.wrong, ::testing::IsEmpty()) << info.name;
    EXPECT_EQ(compilations() - before, 1) << info.name;
    return;  // one device is enough
  }
  GTEST_SKIP() << "no device here compiles one kernel at a time";
}

TEST(Examine, RefusesAPartThatDoesNotExist) {
  EXPECT_THROW(examine(Device{}, {.only = {"attention", "alchemy"}}), Error);
}

TEST(Examine, SaysOnceHowToMendWhatStopsEveryCase) {
  const Error old{
      ErrorCode::device, "NVRTC's code is too new for the driver", {}, "pip install nvidia-cuda-nvrtc-cu12"};
  Examination verdict;
  verdict.add("add", old);
  verdict.add("mul", old);
  verdict.add("div", {ErrorCode::device, "no kernel"});
  EXPECT_THAT(verdict.wrong,
              ::testing::ElementsAre(
                  "add: NVRTC's code is too new for the driver (pip install nvidia-cuda-nvrtc-cu12)",
                  "mul: NVRTC's code is too new for the driver", "div: no kernel"));
}

TEST(Examine, AsksEachPrimitiveInEachType) {
  std::set<Prim> asked;
  std::set<std::pair<std::string, DType>> types;
  for (const AskedPart& part : short_cases())
    for (const Asked& one : part.asked) {
      asked.insert(one.op->prim);
      const FilledCase c = fill(one);
      for (const HostArray& input : c.inputs) types.emplace(c.op.name, input.dtype);
    }
  for (const Op* op : all_ops()) EXPECT_TRUE(op->prim == Prim::input || asked.contains(op->prim)) << op->name;
  for (const DType dtype : find_op("cast").dtypes)
    EXPECT_TRUE(types.contains({"cast", dtype})) << to_string(dtype);
  for (const DType dtype : find_op("add").dtypes)
    EXPECT_TRUE(types.contains({"add", dtype})) << to_string(dtype);
}

// New kernel templates must be examined too, so they are found by their registration.
TEST(Examine, AsksEveryKernelOfGpus) {
  std::set<std::string> asked;
  for (const AskedPart& part : short_cases())
    for (const Asked& one : part.asked)
      if (has_gpu_kernel(one)) asked.insert(one.op->name);
  size_t kernels = 0;
  for (const Op* op : all_ops()) {
    bool any = false;
    for (size_t i = 0; i < op->cases.size(); ++i)
      for (const DType dtype : op->dtypes)
        any = any || (op->reference && op->prim != Prim::input &&
                      has_gpu_kernel({op, op->cases[i], dtype, i * 1000}));
    kernels += any;
    // cumsum is examined as a loop, as products and as a kernel of its own.
    EXPECT_TRUE(!any || asked.contains(op->name)) << op->name;
  }
  EXPECT_GT(kernels, 25U);
  for (const char* name : {"lstm", "gru_grad", "roi_align", "interpolate", "interpolate_grad", "ctc_loss"})
    EXPECT_TRUE(asked.contains(name)) << name;
}

// Reductions of rows, columns, a middle axis, several axes, and an axis that groups divide; a narrow type, an
// empty input, a scan.
TEST(Examine, AsksEachShapeOfALoop) {
  std::set<std::string> asked;
  for (const AskedPart& part : short_cases())
    if (part.name == "fused loops")
      for (const Asked& one : part.asked) {
        const FilledCase c = fill(one);
        const Shape& x = c.inputs.front().shape;
        const Ints axes = c.spec.attrs.has("axes") ? c.spec.attrs.get<Ints>("axes") : Ints{};
        if (c.op.prim == Prim::cumsum) asked.insert("scan");
        if (axes.empty()) continue;
        if (x.size() == 0) asked.insert("nothing");
        if (c.inputs.front().dtype == DType::bf16) asked.insert("bf16");
        if (axes.size() > 1) asked.insert("several axes");
        if (x.rank() == 1 && x.size() > 65'536) asked.insert("split");
        if (x.rank() == 2 && axes == Ints{1}) asked.insert("rows");
        if (x.rank() == 2 && axes == Ints{0}) asked.insert("columns");
        if (x.rank() == 3 && axes == Ints{1}) asked.insert("between");
      }
  EXPECT_THAT(asked, ::testing::UnorderedElementsAre("rows", "columns", "between", "several axes", "split",
                                                     "bf16", "nothing", "scan"));
}

// Equal inputs let many cases share one kernel.
TEST(Examine, FillsEqualNumbersAlikeWhateverTheOp) {
  std::set<std::vector<std::byte>> first;
  for (const AskedPart& part : short_cases())
    for (const Asked& one : part.asked)
      if (one.op->name == "sub" || one.op->name == "exp" || one.op->name == "erf")
        first.insert(fill(one).inputs.front().bytes);
  EXPECT_EQ(first.size(), 1);
}

TEST(Examine, LooksAtEveryOpWhenWhole) {
  std::set<std::string> names;
  for (const ExaminationPart& part : examination_parts(true)) names.insert(part.name);
  for (const Op* op : all_ops()) EXPECT_TRUE(op->prim == Prim::input || names.contains(op->name)) << op->name;
  for (const ExaminationPart& part : examination_parts(false))  // parts named after primitives are ops too
    EXPECT_TRUE(part.name == "primitives" || part.name == "other kernels" || names.contains(part.name))
        << part.name;
}

TEST(Examine, LeavesAloneWhatIsPending) {
  const Tensor mine = Tensor::from<float>({1, 2, 3}, {3}) * 2;
  examine(Device{});
  EXPECT_FALSE(mine.node()->value) << "the caller's values are not the examination's to compute";
  EXPECT_EQ(mine.to_vector<float>(), (std::vector<float>{2, 4, 6}));
}

// Mesa's llvmpipe silently ends loops after 65,535 rounds, so an MLP's first product is wrong there.
// tests/CMakeLists.txt runs this test on llvmpipe.
TEST(Examine, AgreesWithAnMlpsFirstProductOnLlvmpipe) {
  const auto devices = list_devices();
  const auto found = std::ranges::find_if(
      devices, [](const DeviceInfo& info) { return info.name.find("llvmpipe") != std::string::npos; });
  if (found == devices.end()) GTEST_SKIP() << "there is no llvmpipe here";
  const ScopedDisable untuned("tune");
  Examination verdict;
  for (const ExaminationPart& part : examination_parts(false))
    if (part.name == "products of matrices") part.run(found->device, verdict);
  const HostArray x = fill_case(find_op("neg"), OpCase{{{{128, 784}}}}, DType::f32, 1).inputs.front(),
                  w = fill_case(find_op("neg"), OpCase{{{{784, 512}}}}, DType::f32, 2).inputs.front();
  const auto product = [&](Device device) {
    return to_doubles(matmul(Tensor::from(x, device), Tensor::from(w, device)).to_host());
  };
  const std::vector<double> got = product(found->device), expected = product(Device{});
  bool right = true;
  for (size_t i = 0; i < got.size(); ++i) right = right && std::abs(got[i] - expected[i]) <= 1e-2;
  EXPECT_EQ(verdict.right(), right) << ::testing::PrintToString(verdict.wrong);
}

TEST(Examine, SaysHowAResultDiffers) {
  const FilledCase c = fill_case(find_op("sum"), 0, DType::f32);
  HostArray right = from_doubles(DType::f32, {}, c.op.reference(c.exact(), c.spec.attrs).data);
  EXPECT_EQ(mismatch(c, right), "");
  right.as<float>()[0] += 1e-3F;
  EXPECT_THAT(mismatch(c, right), ::testing::HasSubstr("element 0 of 1 is "));
  EXPECT_EQ(mismatch(c, right, 1e6), "") << "slack widens what is allowed";
}

}  // namespace
}  // namespace athanor
