// The facts about a machine that probes ask for. Each fact is read once, at its first use.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "athanor/device/machine.h"
#include "athanor/doctor/facts/gpus.h"
#include "athanor/doctor/facts/nvidia.h"
#include "athanor/doctor/facts/packages.h"
#include "athanor/doctor/facts/python.h"
#include "athanor/doctor/facts/shell.h"
#include "athanor/doctor/facts/system.h"
#include "athanor/doctor/language.h"
#include "athanor/doctor/probe.h"

namespace athanor::doctor {

class Facts {
 public:
  /// `new_shell`: use variables as a new shell would have them, which is what a fix in a start file changes;
  /// otherwise those of this process.
  explicit Facts(const Machine& machine, bool new_shell = false) : machine_(machine), new_shell_(new_shell) {}

  const Machine& machine() const { return machine_; }
  const System& system() const;
  /// The device list that `athanor detect` prints. On this machine runtimes are asked, each in a child
  /// process.
  const Detection& detection() const;
  /// The GPUs of detection().
  const std::vector<Gpu>& gpus() const;
  std::vector<const Gpu*> gpus(Vendor vendor) const;
  const NvidiaDriver& nvidia() const;
  const std::vector<PythonEnvironment>& pythons() const;
  /// The builds of torch in the environments that have one.
  const std::vector<TorchBuild>& torches() const;
  const std::vector<Setting>& shell() const;
  const Packages& packages() const;
  /// The newest `most` lines of the kernel's log that contain all of the parts, oldest first.
  std::vector<std::string> log_lines(const std::vector<std::string_view>& parts, size_t most = 3) const;

  std::optional<std::string> variable(const std::string& name) const;
  /// Whether a module is loaded or built in, by /sys/module or by a device that it runs.
  bool has_module(std::string_view name) const;
  /// Folders of ROCm installations ("/opt/rocm-7.2.0"), newest last.
  std::vector<std::string> rocm_folders() const;
  /// Every folder with shared libraries of rocBLAS' kernels: of ROCm and of each torch.
  std::vector<std::string> rocblas_folders() const;

  /// The function of device.self_test; without it that check is skipped. It is not one of the facts, because
  /// computing needs the whole library, and time.
  using SelfTest = std::function<Finding()>;
  void set_self_test(SelfTest test) { self_test_ = std::move(test); }
  SelfTest self_test() const { return machine_.live() ? self_test_ : nullptr; }
  /// The function of device.examined, likewise.
  void set_examined(SelfTest test) { examined_ = std::move(test); }
  SelfTest examined() const { return machine_.live() ? examined_ : nullptr; }

  /// "amd gfx1030, debian 12": fixes that work on one machine of a kind should work on the others.
  std::string machine_kind() const;
  /// {user}, {home}, {distro} (Os::family), {os} (Os::id), {wsl}, {kernel}: values that every text may use.
  Values common_values() const;

 private:
  template <class T>
  using Once = std::optional<T>;

  const Machine& machine_;
  bool new_shell_;
  SelfTest self_test_, examined_;
  mutable Once<System> system_;
  mutable Once<Detection> detection_;
  mutable Once<std::vector<Gpu>> gpus_;
  mutable Once<NvidiaDriver> nvidia_;
  mutable Once<std::vector<PythonEnvironment>> pythons_;
  mutable Once<std::vector<TorchBuild>> torches_;
  mutable Once<std::vector<Setting>> shell_;
  mutable Once<Packages> packages_;
  mutable Once<std::vector<std::string>> log_;
};

/// The file with variables that `--fix` writes and the user's start file reads.
std::string environment_file(const Machine& machine);

}  // namespace athanor::doctor
