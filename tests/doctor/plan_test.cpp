// Plans: one consistent chain for many machines, and outputs that can be run.
#include "athanor/doctor/plan.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "athanor/base/error.h"
#include "athanor/device/chip_order.h"
#include "athanor/doctor/compatibility.h"
#include "athanor/doctor/diagnosis.h"
#include "athanor/doctor/room.h"
#include "tests/doctor/fixture.h"
#include "tests/doctor/plans.h"

namespace athanor::doctor {
namespace {

using ::athanor::testing::TemporaryFolder;
using ::athanor::testing::UnpackedMachine;
using ::athanor::testing::write_text;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(PytorchPlans, TakeTheNewestWheelThatRuns) {
  struct Case {
    const char *machine, *index, *package;
  };
  for (const Case& one :
       {Case{"healthy-rx6800xt", "https://download.pytorch.org/whl/rocm7.14", "torch==2.14.*"},
        Case{"healthy-mi300x8", "https://download.pytorch.org/whl/rocm7.14", "torch==2.14.*"},
        // Driver 570 cannot run CUDA 13, and 2.14 was the last release for CUDA 12.
        Case{"healthy-rtx4090", "https://download.pytorch.org/whl/cu126", "torch==2.14.*"},
        Case{"healthy-h100x8", "https://download.pytorch.org/whl/cu132", "torch==2.15.*"},  // driver 580
        // The same driver, and a chip that needs CUDA 12.8. The last release for CUDA 12.8 was 2.11.
        Case{"row19-no-kernel-image", "https://download.pytorch.org/whl/cu128", "torch==2.11.*"},
        Case{"healthy-no-gpu", "https://download.pytorch.org/whl/cpu", "torch==2.15.*"},
        Case{"healthy-integrated-and-discrete", "https://download.pytorch.org/whl/rocm7.14", "torch==2.14.*"},
        Case{"row13-apu-memory", "https://download.pytorch.org/whl/rocm7.14", "torch==2.14.*"},
        // AMD's own index, by chip, if PyTorch's wheels are not known to support the chip.
        Case{"row14-half-precision", "https://repo.amd.com/rocm/whl-multi-arch/",
             "torch[device-gfx1010]==2.12.*"},
        Case{"row01-invalid-device-function", "https://repo.amd.com/rocm/whl-multi-arch/",
             "torch[device-gfx1031]==2.12.*"},
        Case{"healthy-therock-phoenix", "https://download.pytorch.org/whl/rocm7.14", "torch==2.14.*"}}) {
    const InstallPlan plan = plan_on(one.machine, "pytorch");
    EXPECT_EQ(plan.broken(), nullptr) << one.machine;
    EXPECT_EQ(plan.index, one.index) << one.machine;
    EXPECT_THAT(plan.packages, ElementsAre(one.package)) << one.machine;
    EXPECT_EQ(plan.python, "3.12") << one.machine;  // the installed one
    for (const Link& link : plan.links)
      EXPECT_FALSE(link.reason.en.empty() || link.reason.zh.empty()) << link.part;
  }
}

// AMD's own builds need newer Pythons than this one.
TEST(PytorchPlans, PretendWhereOnlyThatHelps) {
  const UnpackedMachine machine("doctor/row01-invalid-device-function");
  const Facts facts(*machine);
  const TorchWheel wheel = torch_wheel(facts, Version::parse("3.10"));
  EXPECT_EQ(wheel.variable, "HSA_OVERRIDE_GFX_VERSION");
  EXPECT_EQ(wheel.value, "10.3.0");
  EXPECT_EQ(wheel.package, "torch");
  EXPECT_THAT(wheel.index, HasSubstr("download.pytorch.org"));
  EXPECT_EQ(torch_wheel(facts, Version::parse("3.12")).variable, "");
}

TEST(PytorchPlans, ExportVariables) {
  InstallPlan plan = plan_on("healthy-rx6800xt", "pytorch");
  plan.variables = {{"HSA_OVERRIDE_GFX_VERSION", "10.3.0"}};
  EXPECT_THAT(plan_as(plan, "script"), HasSubstr("export HSA_OVERRIDE_GFX_VERSION=10.3.0"));
  EXPECT_THAT(plan_as(plan, "conda"), HasSubstr("HSA_OVERRIDE_GFX_VERSION: \"10.3.0\""));
}

TEST(PytorchPlans, SayWhatIsKnownOfAmdsOwnBuilds) {
  const InstallPlan plan = plan_on("row14-half-precision", "pytorch");  // gfx1010
  const std::string text = plan_text(plan, Language::en);
  EXPECT_THAT(text, HasSubstr("AMD's own build"));
  EXPECT_THAT(text, HasSubstr(Compatibility::built_in().origins.at("therock").date));
  EXPECT_THAT(text, HasSubstr("ROCm 10.1"));  // for which it is not known
  EXPECT_THAT(
      plan_as(plan, "script"),
      HasSubstr("'torch[device-gfx1010]==2.12.*' --index-url https://repo.amd.com/rocm/whl-multi-arch/"));
  EXPECT_THAT(plan_as(plan, "conda"), HasSubstr("- \"torch[device-gfx1010]==2.12.*\""));
}

TEST(PytorchPlans, NameTheLinkThatMakesThemImpossible) {
  const InstallPlan chip = plan_on("trap-polaris", "pytorch");  // gfx803
  ASSERT_NE(chip.broken(), nullptr);
  EXPECT_EQ(chip.broken()->part, "PyTorch");
  EXPECT_THAT(chip.broken()->reason.en, HasSubstr("gfx803"));
  EXPECT_THROW(plan_as(chip, "script"), Error);
  const InstallPlan driver =
      plan_on("row20-driver-too-old", "pytorch");  // 470: only CUDA 11, and 2.7 was the last for it
  ASSERT_EQ(driver.broken(), nullptr);
  EXPECT_THAT(driver.packages, ElementsAre("torch==2.7.*"));
  EXPECT_THAT(driver.index, HasSubstr("cu118"));
}

TEST(TensorflowPlans, FitTheMachine) {
  EXPECT_THAT(plan_on("healthy-rtx4090", "tensorflow").packages, ElementsAre("tensorflow[and-cuda]==2.21.*"));
  EXPECT_THAT(plan_on("healthy-no-gpu", "tensorflow").packages, ElementsAre("tensorflow==2.21.*"));
  const InstallPlan amd = plan_on("healthy-rx7900xtx", "tensorflow");
  EXPECT_THAT(amd.packages, ElementsAre("tensorflow-rocm==2.20.*"));
  EXPECT_THAT(amd.find_links, HasSubstr("rocm-rel-7.2"));
  const InstallPlan old = plan_on("row20-driver-too-old", "tensorflow");
  ASSERT_EQ(old.broken(), nullptr);  // 2.14 is for CUDA 11.8
  EXPECT_THAT(old.packages, ElementsAre("tensorflow[and-cuda]==2.14.*"));
  ASSERT_NE(plan_on("row14-half-precision", "tensorflow").broken(), nullptr);
}

TEST(JaxPlans, FitTheMachine) {
  EXPECT_THAT(plan_on("healthy-rtx4090", "jax").packages, ElementsAre("jax[cuda12]"));
  EXPECT_THAT(plan_on("healthy-h100x8", "jax").packages, ElementsAre("jax[cuda13]"));
  EXPECT_THAT(plan_on("healthy-no-gpu", "jax").packages, ElementsAre("jax"));
  EXPECT_THAT(plan_on("healthy-rx7900xtx", "jax").packages, ElementsAre("jax[rocm7-local]==0.10.2"));
  const InstallPlan old = plan_on("row20-driver-too-old", "jax");
  ASSERT_NE(old.broken(), nullptr);
  EXPECT_EQ(old.broken()->part, "driver");
}

// Plans for a recorded machine, with another release of ROCm.
InstallPlan jax_with_rocm(const std::string& machine_name, const std::string& release) {
  const UnpackedMachine machine(machine_name);
  std::filesystem::create_directories(machine.root() / "opt/rocm/.info");
  write_text(machine.root() / "opt/rocm/.info/version", release + "\n");
  return make_plan(Facts(*machine), "jax");
}

TEST(JaxPlans, UseTheRocmThatIsThere) {
  for (const char* name : {"doctor/healthy-rx6800xt", "doctor/healthy-mi300x8"}) {
    const InstallPlan six = jax_with_rocm(name, "6.4.3-128");
    ASSERT_EQ(six.broken(), nullptr) << name;
    EXPECT_THAT(six.packages, ElementsAre("jax[rocm]==0.5.0"));
    EXPECT_EQ(link_of(six, "ROCm").value, "6.4");
    EXPECT_THAT(link_of(six, "ROCm").reason.en, HasSubstr("installed; jax-rocm60-plugin"));
    EXPECT_THAT(link_of(six, "ROCm").newer.en, HasSubstr("ROCm 7.2"));
    EXPECT_EQ(six.python, "3.12");  // the last Python with wheels
    EXPECT_THAT(plan_as(six, "script"), HasSubstr("grep -q '^6.4' /opt/rocm/.info/version"));
    EXPECT_THAT(plan_as(six, "dockerfile"), HasSubstr("FROM rocm/dev-ubuntu-24.04:6.4-complete\n"));
    EXPECT_THAT(jax_with_rocm(name, "7.2.0-43").packages, ElementsAre("jax[rocm7-local]==0.10.2"));
  }
}

TEST(JaxPlans, SayWhyAnotherRocmIsNeeded) {
  const InstallPlan old = jax_with_rocm("doctor/healthy-rx6800xt", "6.2.4-1");
  EXPECT_THAT(old.packages, ElementsAre("jax[rocm7-local]==0.10.2"));
  EXPECT_EQ(link_of(old, "ROCm").value, "7.2");
  EXPECT_EQ(link_of(old, "ROCm").reason.en,
            "to be installed: 6.2.4 is installed, and jax-rocm60-plugin 0.5.0 needs 6.3");
  const InstallPlan none = plan_on("healthy-rx6800xt", "jax");
  EXPECT_EQ(link_of(none, "ROCm").reason.en, "to be installed: none is installed");
  const UnpackedMachine pip("doctor/healthy-rx6800xt");
  std::filesystem::create_directories(
      pip.root() / "home/ada/venv/lib/python3.12/site-packages/rocm_sdk_core-7.14.0.dist-info");
  EXPECT_EQ(link_of(make_plan(Facts(*pip), "jax"), "ROCm").reason.en,
            "to be installed: rocm-sdk-core 7.14.0 of pip serves /home/ada/venv alone");
  EXPECT_THAT(link_of(jax_with_rocm("doctor/healthy-rx6800xt", "9.0.0"), "ROCm").reason.en,
              HasSubstr("no plugin is known"));
  const InstallPlan chip = jax_with_rocm("doctor/row14-half-precision", "6.4.3-128");  // gfx1010
  ASSERT_NE(chip.broken(), nullptr);
  EXPECT_EQ(chip.broken()->part, "JAX");
  EXPECT_THAT(chip.broken()->reason.en, HasSubstr("gfx1010"));
}

TEST(Plans, SayWhetherThereIsRoomOnTheGpu) {
  ATHANOR_NEEDS_BACKENDS();  // they report how much memory the driver sees
  EXPECT_THAT(link_of(plan_on("trap-no-room-on-the-gpu", "pytorch"), "room").reason.en,
              HasSubstr("381 MiB needed"));
}

TEST(Plans, SayWhetherThereIsRoom) {
  for (const char* goal : {"pytorch", "tensorflow", "jax"}) {
    const InstallPlan none = plan_on("trap-no-room", goal);  // 3 GB free
    ASSERT_NE(none.broken(), nullptr) << goal;
    EXPECT_EQ(none.broken()->part, "room");
    EXPECT_THAT(none.broken()->reason.en, HasSubstr("2.79 GiB free on the disk")) << goal;
    EXPECT_THAT(none.broken()->reason.en, HasSubstr(Compatibility::built_in().origins.at("room").date));
    EXPECT_THROW(plan_as(none, "script"), Error);
    const InstallPlan enough = plan_on("healthy-rtx4090", goal);
    EXPECT_EQ(enough.broken(), nullptr) << goal;
    EXPECT_THAT(link_of(enough, "room").reason.en, HasSubstr("GiB on the disk")) << goal;
  }
  EXPECT_EQ(plan_on("trap-no-room", "athanor").broken(), nullptr);
  EXPECT_THAT(link_of(plan_on("trap-no-room", "pytorch"), "room").reason.en, HasSubstr("5.08 GiB needed"));
  // JAX would fit, but not the ROCm that it needs.
  const InstallPlan rocm = plan_on("trap-no-room-for-rocm", "jax");
  EXPECT_FALSE(link_of(rocm, "room").broken);
  EXPECT_TRUE(link_of(rocm, "room for ROCm").broken);
}

// The table has the size of one release for each goal, but a plan may install another release.
TEST(Plans, SayWhoseSizeTheyTakeForTheirOwn) {
  const auto said_by = [](const char* machine, const char* goal) {
    return link_of(plan_on(machine, goal), "room").reason;
  };
  EXPECT_THAT(said_by("healthy-h100x8", "pytorch").en, HasSubstr(": torch 2.15.0 takes 5.08 GiB"));
  const Text older = said_by("healthy-rtx4090", "pytorch");  // torch==2.14.*
  EXPECT_THAT(older.en, HasSubstr(": about as much as torch 2.15.0 takes: 5.08 GiB"));
  EXPECT_THAT(older.zh, HasSubstr("：与 torch 2.15.0 大致相同，即 磁盘 5.08 GiB"));
  EXPECT_THAT(said_by("healthy-no-gpu", "pytorch").en, HasSubstr("about as much as torch 2.12.0+cpu takes"));
  EXPECT_THAT(said_by("row14-half-precision", "pytorch").en,  // 2.12
              HasSubstr("about as much as torch 2.14 and torchvision for one chip takes"));
  EXPECT_THAT(said_by("healthy-no-gpu", "tensorflow").en, HasSubstr(": tensorflow 2.21.0 takes"));
  EXPECT_THAT(said_by("healthy-no-gpu", "jax").en, HasSubstr("about as much as jax"));  // the newest release
}

TEST(Chips, AreListedAsPeopleCountThem) {
  EXPECT_THAT((Chips{"gfx1201", "gfx90a", "gfx1030", "gfx908", "gfx900", "gfx803"}),
              ElementsAre("gfx803", "gfx900", "gfx908", "gfx90a", "gfx1030", "gfx1201"));
  EXPECT_THAT((Chips{"nvidia sm_120", "amd gfx1100", "amd gfx906", "nvidia sm_86"}),
              ElementsAre("amd gfx906", "amd gfx1100", "nvidia sm_86", "nvidia sm_120"));
  const UnpackedMachine machine("rx6600x2");
  const Diagnosis diagnosis = diagnose(checks(), Facts(*machine));
  EXPECT_THAT(diagnosis.find("amd.rocblas")->finding.values.at("known"),
              HasSubstr("gfx942, gfx1030, gfx1100"));
}

TEST(Room, IsJudgedByWhatIsKnown) {
  Compatibility::Room need{"x", "cpu", "x", "test", std::nullopt, 10, 20, 30};
  EXPECT_THAT(shortages(need, {"/", 10, 20, 30}), ::testing::IsEmpty());
  EXPECT_THAT(shortages(need, {}), ::testing::IsEmpty());  // nothing is known
  const auto all = shortages(need, {"/", 9, 19, 29});
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].kind, RoomKind::disk);
  EXPECT_EQ(all[1].kind, RoomKind::memory);
  EXPECT_EQ(all[2].kind, RoomKind::vram);
  EXPECT_EQ(all[2].needed, 30U);
  need.installed = std::nullopt, need.download = 5;  // installed, it takes at least that
  EXPECT_THAT(shortages(need, {"/", 4, 20, 30}), ::testing::SizeIs(1));
}

TEST(Room, OfMainMemoryIsJudgedForEachGoal) {
  const UnpackedMachine unpacked("doctor/healthy-no-gpu");
  const auto goals_without = [&](int64_t available_kib) {
    write_text(unpacked.root() / "proc/meminfo",
               "MemTotal: 4000000 kB\nMemAvailable: " + std::to_string(available_kib) + " kB\n");
    const Machine machine(unpacked.root());
    const Result* room = nullptr;
    const Diagnosis diagnosis = diagnose(checks(), Facts(machine));
    room = diagnosis.find("system.room");
    return room == nullptr || room->verdict == Verdict::ok ? "" : room->finding.values.at("goals");
  };
  EXPECT_EQ(goals_without(2'000'000), "");
  EXPECT_EQ(goals_without(300'000), "TensorFlow");  // PyTorch is installed
  EXPECT_EQ(goals_without(100'000), "TensorFlow, JAX");
}

TEST(AthanorPlans, WorkForEveryVendor) {
  for (const char* machine :
       {"healthy-rtx4090", "healthy-rx6800xt", "healthy-arc", "healthy-no-gpu", "row14-half-precision"})
    EXPECT_EQ(plan_on(machine, "athanor").broken(), nullptr) << machine;
  // Here the driver is installed, so nothing must be installed. An image has no driver.
  const InstallPlan arc = plan_on("healthy-arc", "athanor");
  EXPECT_THAT(plan_as(arc, "script"), ::testing::Not(HasSubstr("intel-opencl-icd")));
  EXPECT_THAT(plan_as(arc, "dockerfile"), HasSubstr("intel-opencl-icd"));
  EXPECT_THROW(plan_as(plan_on("healthy-arc", "athanor"), "conda"), Error);
}

TEST(AthanorPlans, TakeTheOpenclDriverThatIsThere) {
  const InstallPlan amd = plan_on("healthy-rx6800xt", "athanor");  // amdocl64
  EXPECT_THAT(amd.packages, ::testing::Not(::testing::Contains("mesa-opencl-icd")));
  EXPECT_EQ(link_of(amd, "OpenCL").value, "amdocl64.icd");
  EXPECT_THAT(plan_as(amd, "dockerfile"), HasSubstr("mesa-opencl-icd"));  // an image does not have amdocl64
  const InstallPlan none = plan_on("row25-no-icd", "athanor");
  EXPECT_THAT(none.packages, ::testing::Contains("mesa-opencl-icd"));
  EXPECT_THAT(plan_as(none, "script"), HasSubstr("export RUSTICL_ENABLE=radeonsi\n"));
  const InstallPlan hidden = plan_on("trap-rusticl-other-driver", "athanor");
  EXPECT_THAT(hidden.packages, ::testing::Not(::testing::Contains("mesa-opencl-icd")));
  EXPECT_EQ(link_of(hidden, "variable").value, "RUSTICL_ENABLE=iris:0,radeonsi");
  EXPECT_TRUE(plan_on("healthy-rusticl", "athanor").variables.empty());
}

TEST(AthanorPlans, AskForNoOpenclDriverThatThereIsNot) {
  const UnpackedMachine machine("doctor/healthy-haswell");
  const InstallPlan haswell = make_plan(Facts(*machine), "athanor");
  EXPECT_THAT(haswell.packages, ::testing::Not(::testing::Contains("intel-opencl-icd")));
  EXPECT_THAT(haswell.gpus.at(0).reason.en, HasSubstr("before Broadwell"));
  EXPECT_EQ(link_of(haswell, "backend").value, "CPU");
  // The kernel driver "radeon" runs chips for two drivers of Mesa.
  const std::filesystem::path device = machine.root() / "sys/bus/pci/devices/0000:00:02.0";
  write_text(device / "vendor", "0x1002\n");
  std::filesystem::remove(device / "driver");
  std::filesystem::create_symlink("../../../../bus/pci/drivers/radeon", device / "driver");
  for (const auto& [id, driver] : {std::pair("0x6718\n", "r600"), {"0x6798\n", "radeonsi"}}) {
    write_text(device / "device", id);
    EXPECT_THAT(make_plan(Facts(*machine), "athanor").variables,
                ElementsAre(::testing::Pair("RUSTICL_ENABLE", driver)));
  }
}

// A problem that no package fixes is named with the GPU; a package that fixes one is installed.
TEST(AthanorPlans, SayWhatKeepsAGpuFromWorking) {
  ATHANOR_NEEDS_BACKENDS();
  const auto reason = [](const std::string& name) {
    const UnpackedMachine machine(name);
    return make_plan(Facts(*machine), "athanor").links.front().reason.en;
  };
  EXPECT_THAT(reason("container-bare"),
              HasSubstr("once this is mended (athanor doctor): This container was not given"));
  EXPECT_THAT(reason("doctor/trap-kfd-device-missing"), HasSubstr("/dev/kfd is missing"));
  EXPECT_THAT(reason("doctor/row04-driver-not-loaded"), HasSubstr("No driver runs AMD Radeon"));
  EXPECT_THAT(reason("doctor/row22-nouveau"), HasSubstr("nouveau runs NVIDIA GeForce"));
  EXPECT_THAT(reason("doctor/row23-uvm-lost"), HasSubstr("nvidia_uvm is not loaded"));
  EXPECT_THAT(reason("doctor/trap-visible-devices"),
              HasSubstr("once nothing hides it: CUDA_VISIBLE_DEVICES=-1"));
  EXPECT_THAT(reason("doctor/healthy-rx6800xt"), Not(HasSubstr("once")));
  const UnpackedMachine loader("doctor/trap-no-opencl-loader"), sys("doctor/only-sys-amd");
  const InstallPlan with_loader = make_plan(Facts(*loader), "athanor");
  EXPECT_TRUE(std::ranges::any_of(with_loader.links, [](const Link& link) {
    return link.value == "ocl-icd-libopencl1" &&
           link.reason.en.find("libOpenCL.so.1 is missing") != std::string::npos;
  }));
  EXPECT_THAT(link_of(make_plan(Facts(*sys), "athanor"), "OpenCL").reason.en, HasSubstr("was not recorded"));
}

TEST(AthanorPlans, SayThatARunTakesOneOfSeveralGpus) {
  ATHANOR_NEEDS_BACKENDS();
  EXPECT_THAT(link_of(plan_with("h100x8", "athanor"), "Athanor").reason.en, HasSubstr("on one device"));
  EXPECT_THAT(link_of(plan_with("rtx4090", "athanor"), "Athanor").reason.en, Not(HasSubstr("on one device")));
}

TEST(AthanorPlans, SayThatWindowsDriverHasNoOpencl) {
  ATHANOR_NEEDS_BACKENDS();
  EXPECT_THAT(uses_of(plan_with("wsl-rtx4090", "athanor")), ElementsAre("used"));  // through CUDA
  const InstallPlan plan = plan_on("healthy-wsl", "athanor");
  EXPECT_THAT(uses_of(plan), ElementsAre("unused"));
  EXPECT_THAT(plan.gpus.at(0).reason.en, HasSubstr("WSL"));
  EXPECT_EQ(link_of(plan, "backend").value, "CPU");
}

TEST(PytorchPlans, SeeWhatWindowsShows) {
  ATHANOR_NEEDS_BACKENDS();
  const InstallPlan plan = plan_with("wsl-rtx4090", "pytorch");
  EXPECT_THAT(uses_of(plan), ElementsAre("used"));
  EXPECT_THAT(plan.index, HasSubstr("/whl/cu12"));  // Windows' driver 572: no CUDA 13
  EXPECT_EQ(link_of(plan, "driver").value, "NVIDIA 572.16");
  EXPECT_THAT(plan_with("wsl-rtx4090", "jax").packages, ElementsAre("jax[cuda12]"));
  // A driver whose version could not be read is not reported as missing.
  EXPECT_THAT(link_of(plan_with("doctor/healthy-wsl", "pytorch"), "driver").reason.en,
              HasSubstr("Windows has it"));
  EXPECT_THAT(link_of(plan_with("doctor/only-sys-nvidia", "pytorch"), "driver").reason.en,
              HasSubstr("its version could not be read"));
  EXPECT_THAT(link_of(plan_with("doctor/trap-nvidia-without-driver", "pytorch"), "driver").reason.en,
              HasSubstr("none is loaded"));
}

TEST(PytorchPlans, HaveXpuWheelsForArc) {
  for (const char* name : {"arc-a770", "doctor/healthy-arc"}) {
    const InstallPlan plan = plan_with(name, "pytorch");
    ASSERT_EQ(plan.broken(), nullptr);
    EXPECT_EQ(plan.index, "https://download.pytorch.org/whl/xpu") << name;
    EXPECT_THAT(plan.check, HasSubstr("torch.xpu.is_available()"));
    EXPECT_THAT(plan_as(plan, "dockerfile"), HasSubstr("--device=/dev/dri"));
    EXPECT_THAT(plan_as(plan, "dockerfile"), HasSubstr("libze-intel-gpu1"));
    EXPECT_THAT(plan_as(plan, "conda"), HasSubstr("--index-url https://download.pytorch.org/whl/xpu"));
  }
  for (const char* goal : {"jax", "tensorflow"}) {  // these have no wheels, and do not silently use the CPU
    const InstallPlan plan = plan_with("arc-a770", goal);
    ASSERT_NE(plan.broken(), nullptr) << goal;
    EXPECT_THAT(plan.broken()->reason.en, HasSubstr("Intel"));
    EXPECT_EQ(plan_with("arc-a770", goal, {"", "cpu"}).broken(), nullptr);
  }
}

TEST(Plans, ThatAreUnknownAreUsageErrors) {
  const UnpackedMachine machine("doctor/healthy-no-gpu");
  try {
    make_plan(Facts(*machine), "pytroch");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::usage);
    EXPECT_THAT(error.hint(), HasSubstr("pytorch"));
  }
  EXPECT_THROW(plan_as(plan_on("healthy-no-gpu", "jax"), "tarball"), Error);
}

bool there_is(const char* command) {
  return std::system((std::string(command) + " >/dev/null 2>&1").c_str()) == 0;
}

// Calls `look` for every possible plan, on machines of every vendor.
template <class Look>
void for_all_plans(Look look) {
  int plans = 0;
  for (const char* machine : {"healthy-rtx4090", "healthy-h100x8", "healthy-rx6800xt", "healthy-rx7900xtx",
                              "healthy-mi300x8", "healthy-arc", "healthy-no-gpu",
                              "row01-invalid-device-function", "row13-apu-memory", "row20-driver-too-old"})
    for (const char* goal : {"pytorch", "tensorflow", "jax", "athanor"}) {
      const InstallPlan plan = plan_on(machine, goal);
      if (plan.broken() != nullptr) continue;
      ++plans;
      look(plan, std::string(machine) + "-" + goal);
    }
  EXPECT_GT(plans, 25);
}

// A shell parses every script completely; shellcheck too, if it is installed.
TEST(Plans, AreValidShell) {
  const TemporaryFolder folder;
  const bool shellcheck = there_is("command -v shellcheck");
  for_all_plans([&](const InstallPlan& plan, const std::string& name) {
    const auto file = folder.path() / (name + ".sh");
    write_text(file, plan_as(plan, "script"));
    EXPECT_EQ(std::system(("bash -n " + file.string()).c_str()), 0) << name;
    if (shellcheck) {
      EXPECT_EQ(std::system(("shellcheck " + file.string()).c_str()), 0) << name;
    }
  });
}

// Each line of a Dockerfile is a comment or one of these instructions, and its commands are valid shell.
TEST(Plans, AreValidDockerfiles) {
  const TemporaryFolder folder;
  for_all_plans([&](const InstallPlan& plan, const std::string& name) {
    std::vector<std::string> instructions;
    std::string shell;
    for (const std::string& line : split(plan_as(plan, "dockerfile"), '\n')) {
      if (line.empty() || line[0] == '#') continue;
      const std::string instruction = line.substr(0, line.find(' '));
      const std::string rest = line.size() > instruction.size() ? line.substr(instruction.size() + 1) : "";
      instructions.push_back(instruction);
      EXPECT_FALSE(rest.empty()) << name << ": " << line;
      if (instruction == "RUN")
        shell += rest + "\n";
      else if (instruction == "ENV")
        for (const std::string& word : split(rest, ' '))
          EXPECT_TRUE(word.find('=') != std::string::npos && word.find('=') > 0) << name << ": " << line;
      else if (instruction == "CMD")
        EXPECT_TRUE(nlohmann::json::parse(rest, nullptr, false).is_array()) << name << ": " << line;
      else if (instruction == "COPY")
        EXPECT_EQ(split(rest, ' ').size(), 2U) << name << ": " << line;
      else if (instruction == "FROM" || instruction == "WORKDIR")
        EXPECT_EQ(rest.find(' '), std::string::npos) << name << ": " << line;
      else
        ADD_FAILURE() << name << " has an unknown instruction: " << line;
    }
    ASSERT_GE(instructions.size(), 3U) << name;
    EXPECT_EQ(instructions.front(), "FROM") << name;
    EXPECT_EQ(instructions.back(), "CMD") << name;
    EXPECT_EQ(std::count(instructions.begin(), instructions.end(), "FROM"), 1) << name;
    write_text(folder.path() / "run.sh", shell);
    EXPECT_EQ(std::system(("bash -n " + (folder.path() / "run.sh").string()).c_str()), 0) << name;
  });
}

TEST(Plans, AreValidEnvironmentsOfConda) {
  if (!there_is("python3 -c 'import yaml'")) GTEST_SKIP() << "no python3 with yaml";
  const TemporaryFolder folder;
  write_text(folder.path() / "check.py", R"(import sys, yaml
for path in sys.argv[1:]:
    text = yaml.safe_load(open(path))
    assert set(text) <= {"name", "channels", "dependencies", "variables"}, path
    assert text["name"].startswith("athanor-") and text["channels"] == ["conda-forge"], path
    python, pip, packages = text["dependencies"]
    assert python.startswith("python=3.") and pip == "pip" and list(packages) == ["pip"], path
    assert all(isinstance(word, str) for word in packages["pip"]), path
    assert any(not word.startswith("--") for word in packages["pip"]), path
    assert all(isinstance(value, str) for value in text.get("variables", {}).values()), path
)");
  std::string files;
  for_all_plans([&](const InstallPlan& plan, const std::string& name) {
    if (plan.goal == "athanor") return;
    write_text(folder.path() / (name + ".yml"), plan_as(plan, "conda"));
    files += " " + (folder.path() / (name + ".yml")).string();
  });
  EXPECT_EQ(std::system(("python3 " + (folder.path() / "check.py").string() + files).c_str()), 0);
}

TEST(Plans, HaveDockerfilesAndEnvironments) {
  const InstallPlan plan = plan_on("healthy-rtx4090", "pytorch");
  const std::string docker = plan_as(plan, "dockerfile");
  EXPECT_THAT(docker, HasSubstr("\nFROM python:3.12-slim\n"));
  EXPECT_THAT(docker, HasSubstr("--gpus all"));
  EXPECT_THAT(docker, HasSubstr("'torch==2.14.*' --index-url https://download.pytorch.org/whl/cu126"));
  const std::string conda = plan_as(plan, "conda");
  EXPECT_THAT(conda, HasSubstr("  - python=3.12\n"));
  EXPECT_THAT(conda, HasSubstr("      - --index-url https://download.pytorch.org/whl/cu126\n"));
  EXPECT_THAT(plan_as(plan_on("healthy-rx6800xt", "pytorch"), "dockerfile"), HasSubstr("--device=/dev/kfd"));
}

TEST(Plans, AreData) {
  const auto json = plan_json(plan_on("trap-polaris", "pytorch"), Language::zh);
  EXPECT_EQ(json.at("schema"), 1);
  EXPECT_EQ(json.at("possible"), false);
  EXPECT_THAT(plan_text(plan_on("healthy-rtx4090", "pytorch"), Language::en), HasSubstr("CUDA 13"));
  EXPECT_THAT(plan_text(plan_on("trap-polaris", "pytorch"), Language::en), HasSubstr("Impossible"));
}

}  // namespace
}  // namespace athanor::doctor
