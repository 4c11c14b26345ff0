// What a plan does with each GPU: cards that drivers no longer support, other vendors' cards, the chosen one.
#include <gmock/gmock.h>

#include <filesystem>
#include <string>

#include "athanor/base/error.h"
#include "tests/doctor/plans.h"

namespace athanor::doctor {
namespace {

using ::athanor::testing::write_text;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// A Kepler card with driver 595, whose log says that 470 is the last for it. That driver runs CUDA 11 (needs
// 450), but not CUDA 12 (needs 525).
TEST(PlansForGpus, AreForTheLastDriverOfACardThatWasDropped) {
  const InstallPlan torch = plan_on("trap-kepler", "pytorch");
  ASSERT_EQ(torch.broken(), nullptr);
  EXPECT_THAT(torch.index, HasSubstr("/whl/cu118"));
  EXPECT_THAT(torch.packages, ElementsAre("torch==2.3.*"));  // the last with cuDNN 8, which still runs it
  EXPECT_EQ(link_of(torch, "driver").value, "NVIDIA 450 to 470");
  EXPECT_THAT(link_of(torch, "driver").reason.en, HasSubstr("595.58.03 is too new: 470 is the last branch"));
  EXPECT_THAT(link_of(torch, "CUDA").newer.en, HasSubstr("CUDA 12.0 and newer do not support Kepler"));
  EXPECT_THAT(link_of(torch, "PyTorch").reason.en, HasSubstr("is not known"));  // which Kepler it is
  EXPECT_THAT(link_of(torch, "PyTorch").newer.en, HasSubstr("2.4 and newer have no wheel"));
  EXPECT_THAT(plan_as(torch, "script"), HasSubstr("of branch 470 at most"));
  {
    const UnpackedMachine k80("doctor/trap-kepler");
    write_text(k80.root() / "sys/bus/pci/devices/0000:01:00.0/device", "0x102d\n");
    const Facts facts(*k80);
    const InstallPlan known = make_plan(facts, "pytorch");
    ASSERT_EQ(known.broken(), nullptr);
    EXPECT_THAT(known.packages, ElementsAre("torch==2.3.*"));
    EXPECT_THAT(link_of(known, "CUDA").newer.en, HasSubstr("CUDA 12.0 and newer do not support sm_37"));
    EXPECT_THAT(link_of(known, "PyTorch").reason.en, HasSubstr("wheels run on this GPU and driver"));
  }
  EXPECT_THAT(plan_on("trap-kepler", "tensorflow").packages, ElementsAre("tensorflow[and-cuda]==2.14.*"));
  const InstallPlan jax = plan_on("trap-kepler", "jax");
  ASSERT_NE(jax.broken(), nullptr);
  EXPECT_THAT(jax.broken()->reason.en, AllOf(HasSubstr("525"), HasSubstr("sm_52")));
  EXPECT_THAT(jax.broken()->newer.en, HasSubstr("--device cpu"));
  EXPECT_EQ(link_of(plan_on("trap-kepler", "athanor"), "driver").value, "NVIDIA, branch 470 at most");
  const InstallPlan pascal = plan_on("trap-driver-too-new", "pytorch");
  ASSERT_EQ(pascal.broken(), nullptr);
  EXPECT_THAT(pascal.index, HasSubstr("/whl/cu126"));
  EXPECT_THAT(link_of(pascal, "driver").reason.en, HasSubstr("595.58.03 is too new: 580"));
  EXPECT_THAT(link_of(pascal, "CUDA").newer.en, HasSubstr("CUDA 13.0 and newer do not support sm_61"));
}

// If the driver runs one card and ignores another one, every plan leaves out the ignored one.
TEST(PlansForGpus, LeaveOutACardThatTheDriverIgnores) {
  const auto other = [](const InstallPlan& plan) { return plan.gpus.at(1).reason; };
  for (const char* goal : {"pytorch", "tensorflow", "jax", "athanor"}) {
    SCOPED_TRACE(goal);
    const InstallPlan plan = plan_on("trap-driver-ignores-old-card", goal);
    ASSERT_EQ(plan.broken(), nullptr);
    EXPECT_THAT(uses_of(plan), ElementsAre("used", "unused"));
    EXPECT_THAT(other(plan).en,
                HasSubstr("not used: the driver 595.58.03 is too new: 580 is the last branch"));
    EXPECT_THAT(other(plan).zh, HasSubstr("580"));
    EXPECT_THAT(plan_as(plan, "script"), HasSubstr("echo 'GPU 1: NVIDIA GeForce GTX 1080"));
    const InstallPlan alone = plan_with("doctor/trap-driver-ignores-old-card", goal, {"", "1"});
    ASSERT_NE(alone.broken(), nullptr);
    EXPECT_EQ(alone.broken()->part, "driver");
  }
  EXPECT_THAT(other(plan_on("trap-driver-ignores-old-card", "pytorch")).en, HasSubstr("/whl/cu126"));
  EXPECT_THAT(other(plan_on("trap-driver-ignores-old-card", "jax")).en, HasSubstr("jax[cuda12]"));
  // A driver that is installed but not loaded cannot run both either.
  const UnpackedMachine unloaded("doctor/trap-driver-ignores-old-card");
  for (const char* path :
       {"proc/driver/nvidia", "sys/module/nvidia", "sys/bus/pci/devices/0000:01:00.0/driver"})
    std::filesystem::remove_all(unloaded.root() / path);
  const InstallPlan later = make_plan(Facts(*unloaded), "pytorch");
  EXPECT_THAT(uses_of(later), ElementsAre("used", "unused"));
  EXPECT_THAT(later.gpus.at(0).reason.en, HasSubstr("NVIDIA's driver is not loaded"));
  EXPECT_THAT(other(later).en, AllOf(HasSubstr("595.58.03 is too new"), HasSubstr("/whl/cu126")));
  // If the data does not have the chip, only the log shows the last driver.
  const UnpackedMachine kepler("doctor/trap-driver-ignores-old-card");
  write_text(kepler.root() / "sys/bus/pci/devices/0000:02:00.0/device", "0x10ff\n");
  std::filesystem::create_directories(kepler.root() / "var/log");
  write_text(kepler.root() / "var/log/dmesg",
             "[    6.1] NVRM:  supported through the NVIDIA 470.xx Legacy drivers. Please\n");
  const Facts facts(*kepler);
  const InstallPlan plan = make_plan(facts, "pytorch");
  EXPECT_THAT(uses_of(plan), ElementsAre("used", "unused"));
  EXPECT_THAT(other(plan).en,
              AllOf(HasSubstr("470 is the last branch that runs Kepler"), HasSubstr("cu118")));
}

// Problems that a plan does not fix are named with the GPU, in any layer, but not those of other goals.
TEST(PlansForGpus, SayWhatTheyDoNotMend) {
  const auto reason = [](const char* machine, const char* goal) {
    return plan_on(machine, goal).gpus.at(0).reason.en;
  };
  for (const char* goal : {"pytorch", "tensorflow", "jax"})
    EXPECT_THAT(reason("row23-fabric-manager", goal), HasSubstr("The fabric manager does not run"));
  EXPECT_THAT(reason("row11-hiprtc-headers", "pytorch"), HasSubstr("has no C++ headers"));
  EXPECT_THAT(reason("row24-mixed-libraries", "pytorch"), HasSubstr("LD_LIBRARY_PATH"));
  EXPECT_EQ(reason("row24-mixed-libraries", "jax"), "used");  // the problem is in torch's copies
  EXPECT_EQ(reason("row26-cpu-wheel", "pytorch"), "used");    // the plan fixes it
}

TEST(PlansForGpus, SayWhatBecomesOfTheOtherVendorsGpu) {
  const std::string name = "doctor/trap-amd-and-nvidia";
  for (const char* goal : {"pytorch", "tensorflow", "jax"}) {
    const InstallPlan plan = plan_with(name, goal);
    EXPECT_THAT(uses_of(plan), ElementsAre("used", "apart")) << goal;  // NVIDIA's card is first on the bus
    EXPECT_THAT(plan.gpus.at(1).reason.en, HasSubstr("environment of its own"));
    EXPECT_THAT(plan_text(plan, Language::en), HasSubstr("--vendor amd"));
    EXPECT_THAT(plan_as(plan, "script"), HasSubstr("echo 'GPU 1: AMD Radeon RX 6800"));
    const InstallPlan amd = plan_with(name, goal, {"amd", ""});
    EXPECT_THAT(uses_of(amd), ElementsAre("apart", "used")) << goal;
    // The two environments have different names.
    EXPECT_THAT(plan_as(plan, "script"), HasSubstr(std::string("/venvs/") + goal + "-nvidia\""));
    EXPECT_THAT(plan_as(amd, "conda"), HasSubstr(std::string("\nname: athanor-") + goal + "-amd\n"));
  }
  EXPECT_THAT(plan_with(name, "pytorch").index, HasSubstr("/whl/cu12"));
  EXPECT_THAT(plan_with(name, "pytorch", {"amd", ""}).index, HasSubstr("/whl/rocm"));
  const InstallPlan athanor = plan_with(name, "athanor");  // one program uses both
  EXPECT_THAT(uses_of(athanor), ElementsAre("used", "used"));
  EXPECT_THAT(plan_as(athanor, "dockerfile"), HasSubstr("--gpus all --device=/dev/dri"));
}

TEST(PlansForGpus, TakeTheDeviceThatIsAskedFor) {
  ATHANOR_NEEDS_BACKENDS();
  const std::string name = "doctor/trap-amd-and-nvidia";
  for (const char* device : {"1", "0000:03:00.0", "03:00.0", "rx 6800", "6800"})
    EXPECT_THAT(plan_with(name, "pytorch", {"", device}).index, HasSubstr("/whl/rocm")) << device;
  const InstallPlan cpu = plan_with(name, "pytorch", {"", "cpu"});
  EXPECT_THAT(cpu.index, HasSubstr("/cpu"));
  EXPECT_THAT(uses_of(cpu), ElementsAre("unused", "unused"));
  EXPECT_THAT(cpu.gpus.at(0).reason.en, HasSubstr("the CPU was asked for"));
  // A GPU can be chosen by detect's name, even the integrated one, which no plan takes by itself.
  EXPECT_THAT(uses_of(plan_with("phoenix-7900xtx", "athanor", {"", "opencl:1"})),
              ElementsAre("unused", "used"));
  EXPECT_NE(plan_with("phoenix-7900xtx", "jax", {"", "780M"}).broken(), nullptr);
  // A name that eight GPUs share means all eight.
  EXPECT_THAT(plan_text(plan_with("h100x8", "pytorch", {"", "H100"}), Language::en),
              HasSubstr("8 x NVIDIA H100"));
  // What is installed for one of them also works for the others.
  const std::string first = plan_text(plan_with("h100x8", "pytorch", {"", "0"}), Language::en);
  EXPECT_THAT(first, AllOf(HasSubstr("not used: another one was asked for"), Not(HasSubstr("no kernels"))));
  const auto refused = [&](const PlanChoice& choice, const std::string& hint) {
    try {
      plan_with(name, "pytorch", choice);
      ADD_FAILURE() << "taken: " << choice.vendor << choice.device;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::usage);
      EXPECT_THAT(error.hint(), HasSubstr(hint));
    }
  };
  refused({"", "7"}, "0 NVIDIA GeForceRTX4090");
  refused({"", "Voodoo"}, "1 AMD Radeon RX 6800");
  refused({"intel", ""}, "0 NVIDIA GeForceRTX4090");
  refused({"nvidai", ""}, "nvidia");
  refused({"amd", "0"}, "1 AMD");
}

}  // namespace
}  // namespace athanor::doctor
