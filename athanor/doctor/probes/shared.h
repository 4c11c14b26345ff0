// Functions that several families of probes use.
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

/// GPUs of a vendor that are meant for computing: the discrete ones, or the integrated ones if there are no
/// others. A card that was given to a virtual machine (vfio-pci) does not count, nor one that NVIDIA's driver
/// ignores while it runs others.
std::vector<const Gpu*> computing_gpus(const Facts& facts, Vendor vendor);

/// The same for every vendor, discrete before integrated; of other vendors those that a backend lists.
std::vector<const Gpu*> computing_gpus(const Facts& facts);

/// The vendor whose GPUs a torch was built for; Vendor::other for the CPU alone, and if it is not known.
Vendor vendor_of(const TorchBuild& torch);

/// The folder in /sys of a switch that joins NVIDIA's GPUs; "" if there is none.
std::string nvswitch_folder(const Facts& facts);

/// The finding for a file that the user may not open: who owns it, and {path}, {group}, {gid} and {kind},
/// which selects the fix: "group" (join it), "relogin" (joined, but the session is older), "container" (the
/// group has no name here), "udev" (only root may).
Finding not_permitted(const Facts& facts, const std::string& path);

struct InstalledRocm {
  Version version;
  std::string file;  // the source of it
};
/// The newest ROCm in /opt; none if there is none.
std::optional<InstalledRocm> newest_rocm(const Facts& facts);

/// The newest CUDA with a plugin of JAX for which the GPUs, and the driver if it is known, are new enough;
/// nullptr if there is none.
const Compatibility::JaxCuda* jax_cuda_for(const Facts& facts, const std::vector<const Gpu*>& gpus);

/// A package of DKMS whose module did not build for the running kernel, with {version}.
std::optional<Finding> failed_dkms(const Facts& facts, std::string_view package);

/// Adds as {wheel}, {index} and {torch} whether a torch wheel fits this machine and Python ("yes", or "no" if
/// none does), its pip index, and the package for pip.
void add_torch_wheel(const Facts& facts, const PythonEnvironment& environment, Finding& finding);

/// For a question that cannot be answered, because a recorded machine has nothing of that folder.
Finding not_recorded(const std::string& folder);
/// The same if CUDA or HIP, whichever serves the GPU, was not asked.
Finding runtime_not_recorded(const Gpu& gpu);

/// The first word of a line, or the whole text of a short file, cut to fit a report.
std::string shortened(std::string_view text, size_t most = 120);

/// Seconds since 1970 as "2026-11-21 17:05", in UTC.
std::string date_text(int64_t seconds);

}  // namespace athanor::doctor
