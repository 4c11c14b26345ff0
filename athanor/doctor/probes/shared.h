// What several families of probes use.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/doctor/compatibility.h"
#include "athanor/doctor/facts.h"
#include "athanor/doctor/probe.h"
#include "athanor/doctor/version.h"

namespace athanor::doctor {

/// GPUs of a vendor that someone means to compute on: the discrete ones, or the integrated where there are no
/// others. A card that a virtual machine was given (vfio-pci) is not this system's, nor one that NVIDIA's
/// driver leaves alone while it runs others.
std::vector<const Gpu*> computing_gpus(const Facts& facts, Vendor vendor);

/// The same of every vendor, discrete before integrated; of other vendors those that a backend lists.
std::vector<const Gpu*> computing_gpus(const Facts& facts);

/// Whose GPUs a torch was built for; Vendor::other for the CPU alone, and where it does not say.
Vendor vendor_of(const TorchBuild& torch);

/// The folder in /sys of a switch that joins NVIDIA's GPUs; "" where there is none.
std::string nvswitch_folder(const Facts& facts);

/// The finding for a file that the user may not open: who owns it, and {path}, {group}, {gid} and {kind},
/// which selects the fix: "group" (join it), "relogin" (joined, but the session is older), "container" (the
/// group has no name here), "udev" (only root may).
Finding not_permitted(const Facts& facts, const std::string& path);

struct InstalledRocm {
  Version version;
  std::string file;  // that says so
};
/// The newest ROCm in /opt; none if there is none.
std::optional<InstalledRocm> newest_rocm(const Facts& facts);

/// The newest CUDA with a plugin of JAX that the GPUs, and the driver where one is known, are new enough for;
/// nullptr where there is none.
const Compatibility::JaxCuda* jax_cuda_for(const Facts& facts, const std::vector<const Gpu*>& gpus);

/// A package of DKMS whose module did not build for the running kernel, with {version}.
std::optional<Finding> failed_dkms(const Facts& facts, std::string_view package);

/// "yes", the pip index of the torch wheel that fits this machine and Python, and what pip is to install from
/// it as {wheel}, {index} and {torch}; {wheel} is "no" where none does.
void add_torch_wheel(const Facts& facts, const PythonEnvironment& environment, Finding& finding);

/// For what cannot be told because a recorded machine has nothing of that folder.
Finding not_recorded(const std::string& folder);
/// The same where CUDA or HIP, whichever serves the GPU, was not asked.
Finding runtime_not_recorded(const Gpu& gpu);

/// The first word of a line, or the whole text of a short file, cut to fit a report.
std::string shortened(std::string_view text, size_t most = 120);

/// "2026-11-21 17:05" of seconds since 1970, in UTC.
std::string date_text(int64_t seconds);

}  // namespace athanor::doctor
