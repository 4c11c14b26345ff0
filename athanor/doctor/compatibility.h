// Which versions work together, by data/compatibility.toml or a newer file of that form: drivers, CUDA and
// ROCm, frameworks, Python.
//
// A version that is newer than the data is never called bad: the answer is "unknown".
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/device/chip_order.h"
#include "athanor/doctor/version.h"

namespace athanor::doctor {

struct Compatibility {
  /// Compute capabilities (sm_86: 86) that kernels are compiled for, the oldest first.
  struct SmList {
    std::vector<int> all;
    bool ptx = false;  // newer chips can run it too

    int oldest() const { return all.front(); }
    /// A kernel runs on its chip and on newer ones of that generation: sm_80's on sm_86, not on sm_90.
    bool run_on(int sm) const;
    /// Whether some of them run on some chip from `from` to below `below`.
    bool run_between(int from, int below) const;
  };
  struct Toolkit {
    Version version, driver;
    SmList sm;  // the oldest of each generation
  };
  struct DriverBranch {  // of NVIDIA's driver: the newest one for chips from `from_sm` to below `below_sm`
    int from_sm = 0, below_sm = 0;
    uint32_t branch = 0;
    std::string chips;  // "Maxwell, Pascal, Volta"
  };
  struct Framework {  // PyTorch and TensorFlow
    Version version, oldest_python, newest_python;
    std::vector<Version> cuda;
    std::string rocm, cudnn;  // "" for none
  };
  struct TorchArch {
    Version version, cuda;
    SmList sm;
  };
  struct TorchGfx {  // releases of torch whose wheels for these releases of ROCm have these kernels
    Version torch_from, torch_to, rocm_from, rocm_to;
    Chips targets;
    bool some = false;  // they may have more
  };
  struct TheRock {  // an index of AMD's with ROCm and torch, whose extra device-gfx... brings a chip's
                    // kernels
    Version rocm, torch, oldest_python, newest_python;
    std::string url;
    Chips targets;  // empty: not known
  };
  /// What a goal needs; nullopt: not known.
  struct Room {
    std::string goal, on;  // "pytorch", "cuda"; see data/compatibility.toml
    std::string what, source;
    std::optional<uint64_t> download, installed, memory, vram;  // bytes
  };
  struct JaxPython {
    Version version, oldest;
  };
  struct JaxCuda {
    uint32_t major = 0;
    Version driver;
    int oldest_sm = 0;
    std::string cudnn;  // the oldest
  };
  struct JaxRocm {
    uint32_t major = 0;         // of ROCm
    std::string plugin, extra;  // "jax-rocm7-plugin", which jax[rocm7-local] brings
    std::string jax;            // the newest version for which the following is known
    Version rocm;               // the oldest release that the plugin works with
    Version oldest_python, newest_python;
    Chips targets;
  };
  struct OnnxRuntime {  // onnxruntime-gpu, from this version on
    Version version;
    uint32_t cuda = 0, cudnn = 0;  // major versions
  };
  struct Rocm {
    Version version;
    std::string pytorch, tensorflow;   // the newest; "" for none
    Chips targets;                     // empty: not known
    std::vector<std::string> systems;  // "debian 12"; empty: not known
  };
  /// The source and date of a table.
  struct Origin {
    std::string source, date;
  };

  std::vector<Toolkit> cuda;                   // all lists: the newest last
  std::map<uint32_t, Version> minimum_driver;  // by CUDA's major version
  std::vector<DriverBranch> last_branch;       // the oldest chips first
  std::vector<Framework> pytorch, tensorflow;
  std::vector<TorchArch> torch_arch;
  std::vector<TorchGfx> torch_gfx;
  std::string torch_index;
  Version oldest_torch_xpu;
  Chips xpu_targets;  // Intel's chips that torch's XPU wheels are made for
  std::vector<TheRock> therock;
  Chips therock_tested;
  std::map<std::string, Chips> therock_families;  // by name in lower case: "gfx110x-all"
  std::vector<Room> room;
  std::vector<JaxPython> jax_python;
  std::vector<JaxCuda> jax_cuda;
  std::vector<JaxRocm> jax_rocm;
  Version newest_jax;
  std::vector<OnnxRuntime> onnxruntime;
  Version newest_onnxruntime;
  std::vector<Rocm> rocm;
  Chips override_10_3_0, hipblaslt, broken_half;
  std::map<std::string, Origin> origins;  // "cuda", "pytorch", ...
  std::string date;                       // of the whole data: "2026-11-22"
  std::string file;                       // that the data was read from; "" for the built-in data

  /// Throws Error(format) that says which table and row of `file` is malformed.
  static Compatibility parse(std::string_view toml, const std::string& file = "compatibility.toml");
  /// The data that doctor uses: the built-in data, until `use` is called.
  static const Compatibility& known();
  static const Compatibility& built_in();
  /// Uses a file from now on. Throws Error(io) and Error(format); then nothing has changed.
  static void use(const std::string& file);
  static void use_built_in();

  /// Days from `date` to a time in seconds since 1970; none if the time is before it.
  std::optional<int64_t> age_in_days(int64_t now) const;

  /// The release with the same first two numbers as `version`; nullptr if the data does not have it.
  static const Framework* find(const std::vector<Framework>& releases, const Version& version);
  const Toolkit* toolkit(const Version& version) const;
  const Rocm* rocm_release(const Version& version) const;
  /// The oldest driver that runs programs of this CUDA version; none if its major version is unknown.
  std::optional<Version> oldest_driver(const Version& cuda_version) const;
  /// The last branch of NVIDIA's driver for a compute capability (61); nullptr if newer branches run it too.
  const DriverBranch* last_driver(int sm) const;
  /// The chips for which a branch is the last; nullptr if the data does not have it.
  const DriverBranch* driver_branch(uint32_t number) const;
  /// The row for a version; nullptr for versions older or newer than the data.
  const OnnxRuntime* onnxruntime_gpu(const Version& version) const;
  /// Compute capabilities that a torch wheel has kernels for; none if they are unknown.
  struct TorchSm {
    SmList sm;
    bool certain = false;  // read for this wheel, and not only derived from what its toolkit can compile
  };
  std::optional<TorchSm> torch_sm(const Version& torch, const Version& cuda_version) const;
  enum class Has { no, yes, unknown };
  /// Whether torch's wheels of that version for that ROCm have kernels for a chip.
  Has torch_has(const Version& torch, const Version& rocm_version, std::string_view gfx) const;
  /// The chips that these wheels are known to have kernels for.
  const TorchGfx* torch_targets(const Version& torch, const Version& rocm_version) const;
  /// Whether any release of torch is known to have kernels for a chip: newer ones are then assumed to have
  /// them too.
  bool torch_had(std::string_view gfx) const;
  /// The newest of AMD's indexes that is known to have kernels for these chips; nullptr for none.
  const TheRock* therock_for(const Chips& gfx, const std::optional<Version>& python) const;
  const Room* room_for(std::string_view goal, std::string_view on) const;
};

}  // namespace athanor::doctor
