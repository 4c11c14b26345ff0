// Where libraries of CUDA and HIP are searched, on machines made of folders.
#include "athanor/device/vendor_libraries.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "athanor/base/file.h"
#include "tests/support/temp_folder.h"

namespace athanor::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class VendorLibraries : public ::testing::Test {
 protected:
  void add(const std::string& path, const std::string& text = "") {
    std::filesystem::create_directories((folder_ / path.substr(1)).parent_path());
    write_file_atomically(folder_ / path.substr(1), text);
  }
  Machine machine() const { return Machine(folder_.path()); }
  /// The names that are files.
  static std::vector<std::string> files(const std::vector<std::string>& names) {
    std::vector<std::string> all;
    for (const std::string& name : names)
      if (name.starts_with('/')) all.push_back(name);
    return all;
  }
  TempFolder folder_{TempFolder::Where::memory};
};

#ifndef _WIN32
TEST_F(VendorLibraries, KnowEveryRelease) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(nvrtc_names(machine()),
            (Names{"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"}));
  EXPECT_EQ(hip_names(machine()),
            (Names{"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"}));
  EXPECT_THAT(cuda_names(), ElementsAre("libcuda.so.1"));
  // A driver cannot load what a newer CUDA compiled.
  EXPECT_EQ(nvrtc_names(machine(), 12040).front(), "libnvrtc.so.12");
  EXPECT_EQ(nvrtc_names(machine(), 11080).front(), "libnvrtc.so.11.2");
  EXPECT_EQ(nvrtc_names(machine(), 13020).front(), "libnvrtc.so.13");
}

TEST_F(VendorLibraries, AreFoundInToolkitsAndWheels) {
  add("/proc/self/environ", "PATH=/home/ada/venv/bin:/usr/bin\nCUDA_HOME=/opt/mine\nHOME=/home/ada\n");
  add("/opt/mine/lib64/libnvrtc.so.12");
  add("/usr/local/cuda-13.0/lib64/libnvrtc.so.13");
  add("/home/ada/venv/lib/python3.12/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12");
  add("/home/ada/venv/lib/python3.12/site-packages/nvidia/cu13/lib/libnvrtc.so.13");
  add("/home/bob/venv/lib/python3.12/site-packages/nvidia/cu13/lib/libnvrtc.so.13");
  EXPECT_THAT(
      files(nvrtc_names(machine())),
      ElementsAre("/usr/local/cuda-13.0/lib64/libnvrtc.so.13",
                  "/home/ada/venv/lib/python3.12/site-packages/nvidia/cu13/lib/libnvrtc.so.13",
                  "/opt/mine/lib64/libnvrtc.so.12",
                  "/home/ada/venv/lib/python3.12/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12"));
}

TEST_F(VendorLibraries, OfHipAreOfOneRelease) {
  add("/proc/self/environ", "PATH=/venv/bin\n");
  add("/opt/rocm-6.4.3/lib/libamdhip64.so.6");
  add("/opt/rocm-6.4.3/lib/libhiprtc.so.6");
  add("/opt/rocm-7.1.0/lib/libhiprtc.so.7");
  add("/venv/lib/python3.11/site-packages/_rocm_sdk_core/lib/libamdhip64.so.7");
  EXPECT_THAT(files(hip_names(machine())),
              ElementsAre("/venv/lib/python3.11/site-packages/_rocm_sdk_core/lib/libamdhip64.so.7",
                          "/opt/rocm-6.4.3/lib/libamdhip64.so.6"));
  EXPECT_EQ(hiprtc_names(machine(), "/opt/rocm-6.4.3/lib/libamdhip64.so.6").front(),
            "/opt/rocm-6.4.3/lib/libhiprtc.so.6");
  EXPECT_THAT(files(hiprtc_names(machine(), "libamdhip64.so.6")),
              ElementsAre("/opt/rocm-6.4.3/lib/libhiprtc.so.6"));
  EXPECT_EQ(hiprtc_names(machine(), "libamdhip64.so.5").front(), "libhiprtc.so.5");
}
#endif

TEST_F(VendorLibraries, OldCardsNeedAnOldNvrtc) {
  add("/etc/os-release", "ID=fedora\nVERSION_ID=42\n");
  add("/usr/lib/x86_64-linux-gnu/libnvrtc.so.13");
  EXPECT_EQ(missing_compiler(machine(), "cuda", 13000, "sm_75").what, "");
  const Missing missing = missing_compiler(machine(), "cuda", 13000, "sm_61");
  EXPECT_THAT(missing.what, HasSubstr("no NVRTC library before release 13"));
  EXPECT_THAT(missing.fix,
              AllOf(HasSubstr("pip install nvidia-cuda-nvrtc-cu12"), HasSubstr("package cuda-nvrtc-12-9,")));
  EXPECT_THAT(missing_compiler(machine(), "cuda", 12040, "sm_61").fix, HasSubstr("cuda-nvrtc-12-4,"));
  add("/usr/lib/x86_64-linux-gnu/libnvrtc.so.12");
  EXPECT_EQ(missing_compiler(machine(), "cuda", 13000, "sm_61").what, "");
  add("/etc/os-release", "ID=arch\n");
  EXPECT_THAT(missing_nvrtc(machine(), 13000, "sm_61").fix, Not(HasSubstr("package")))
      << "Arch Linux has the newest CUDA only";
}

TEST_F(VendorLibraries, ThatAreMissingAreNamedWithWhatBringsThem) {
  EXPECT_EQ(missing_compiler(machine(), "cuda").what, "") << "of libraries nothing was recorded";
  add("/usr/lib/x86_64-linux-gnu/libcuda.so.1");
  EXPECT_THAT(missing_compiler(machine(), "cuda").what, HasSubstr("no NVRTC library"));
  EXPECT_THAT(missing_nvrtc(machine(), 12040).fix, HasSubstr("pip install nvidia-cuda-nvrtc-cu12"));
  EXPECT_THAT(missing_nvrtc(machine(), 11080).fix, HasSubstr("pip install nvidia-cuda-nvrtc-cu11"));
  EXPECT_THAT(missing_nvrtc(machine(), 13000, "sm_75").fix, Not(HasSubstr("-cu12")));
  const struct {
    const char *release, *package;
  } systems[] = {
      {"ID=debian\nVERSION_ID=\"12\"\n", "package libnvrtc11.2"},
      {"ID=debian\nVERSION_ID=\"13\"\n", "package libnvrtc12"},
      {"ID=ubuntu\nID_LIKE=debian\nVERSION_ID=\"22.04\"\n", "package libnvrtc11.2"},
      {"ID=linuxmint\nID_LIKE=\"ubuntu debian\"\nVERSION_ID=\"24\"\n", "package libnvrtc12"},
      {"ID=rocky\nID_LIKE=\"rhel centos fedora\"\nVERSION_ID=\"9.4\"\n", "package cuda-nvrtc-12-4,"},
      {"ID=arch\n", "package cuda"}};
  for (const auto& system : systems) {
    add("/etc/os-release", system.release);
    EXPECT_THAT(missing_nvrtc(machine(), 12040).fix, HasSubstr(system.package)) << system.release;
  }
  add("/usr/lib/x86_64-linux-gnu/libnvrtc.so.12");
  EXPECT_EQ(missing_compiler(machine(), "cuda").what, "");
}

TEST_F(VendorLibraries, KnowThatOldHipHasItsCompilerInside) {
  add("/usr/lib/x86_64-linux-gnu/libamdhip64.so.5");
  EXPECT_EQ(missing_compiler(machine(), "hip").what, "");
  add("/opt/rocm/lib/libamdhip64.so.6");
  EXPECT_THAT(missing_compiler(machine(), "hip").what, StartsWith("no hipRTC library"));
  EXPECT_THAT(missing_hiprtc(machine()).fix, HasSubstr("hip-runtime-amd"));
  add("/opt/rocm/lib/libhiprtc.so.6");
  EXPECT_EQ(missing_compiler(machine(), "hip").what, "");
}

// Debian's package has only the hipRTC of HIP 5.
TEST_F(VendorLibraries, AdvisesHipRtcOfTheRuntimesRelease) {
  add("/etc/os-release", "ID=debian\nVERSION_ID=\"12\"\n");
  EXPECT_THAT(missing_hiprtc(machine(), "libamdhip64.so.5").fix, HasSubstr("libamdhip64-5"));
  for (const char* hip : {"libamdhip64.so.6", "/venv/lib/libamdhip64.so.7"})
    EXPECT_THAT(missing_hiprtc(machine(), hip).fix, HasSubstr("hip-runtime-amd")) << hip;
}

}  // namespace
}  // namespace athanor::testing
