// One consistent chain for a machine (driver, runtime, framework and flavour, Python), or the link that makes
// it impossible. A plan is for GPUs of one vendor, and says for each GPU of the machine how it is used.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/doctor/compatibility.h"
#include "athanor/doctor/facts.h"

namespace athanor::doctor {

/// The newest torch wheel that runs here.
struct TorchWheel {
  std::string flavour;  // "cu128", "rocm6.4", "xpu", "cpu"; "" if none uses the GPU
  std::string index;    // for pip's --index-url; "" likewise
  Version version;      // of torch, two numbers
  Version oldest_python, newest_python;
  std::string package = "torch";  // for pip; for AMD's own builds "torch[device-gfx1010]"
  bool therock = false;           // AMD's own build, which brings ROCm along
  std::string variable, value;    // that it needs (HSA_OVERRIDE_GFX_VERSION), or ""
  Text obstacle;                  // why there is none
  bool driver_too_old = false;    // this is the obstacle
};

/// For GPUs of one vendor (none: for the CPU), and for the given Python of an environment, if any.
TorchWheel torch_wheel(const Facts& facts, const std::vector<const Gpu*>& gpus,
                       const std::optional<Version>& python);
/// For the GPUs of the machine that a plan would choose.
TorchWheel torch_wheel(const Facts& facts, const std::optional<Version>& python);

/// One part of the chain, and the reason for it.
struct Link {
  std::string part;   // "GPU", "driver", "ROCm", "PyTorch", "Python"
  std::string value;  // "2.11, rocm7.2"
  Text reason;
  Text newer;           // what a newer one would need; may be empty
  bool broken = false;  // nothing fits here: the plan is impossible
};

/// How a plan uses one GPU of the machine.
struct PlannedGpu {
  size_t index = 0;                          // its number for --device
  std::string name, place, address, vendor;  // name with the architecture; place for people
  enum class Use {
    used,    // by the installed programs
    apart,   // can be used, but needs an environment of its own
    unused,  // see `reason`
  } use = Use::unused;
  Text reason;
};

/// The GPUs that a plan is asked to be for; if all are "", the plan chooses.
struct PlanChoice {
  std::string vendor;  // "amd", "nvidia", "intel"
  std::string device;  // a GPU's number, PCI address, name or part of it; "opencl:0"; or "cpu"
};

struct InstallPlan {
  std::string goal;                         // "pytorch"
  std::string name;                         // of its environment: "pytorch-amd" beside other vendors' GPUs
  std::vector<PlannedGpu> gpus;             // every GPU of the machine
  std::vector<Link> links;                  // those of GPUs come first
  std::string python;                       // "3.12"; "" if none is needed
  std::vector<std::string> packages;        // for pip; for apt if the goal is athanor
  std::vector<std::string> image_packages;  // for apt in an image, which has no driver
  std::vector<std::pair<std::string, std::string>> image_variables;  // besides `variables`
  std::string index, find_links;  // pip's --index-url and --find-links; "" for none
  std::vector<std::pair<std::string, std::string>> variables;
  std::string image;        // the base image of a Dockerfile
  std::string check;        // Python code that tests whether the GPU is used
  std::string driver_test;  // shell: succeeds if the driver is there; "" for none
  std::string driver_hint;  // what to do if it is missing

  /// The link that makes the plan impossible; nullptr if it is possible.
  const Link* broken() const;
};

/// `goal` is pytorch, tensorflow, jax or athanor. Without a choice: for the discrete GPUs, otherwise for the
/// integrated ones; if there are several vendors, for the first of NVIDIA, AMD and Intel with which the goal
/// is possible. For the CPU if there is no GPU, if there are only integrated ones for which the goal has
/// nothing, or if it is asked for. Throws Error(usage) for another goal, and for a choice that fits nothing
/// here.
InstallPlan make_plan(const Facts& facts, const std::string& goal, const PlanChoice& choice = {});

/// Lines of at most `columns` columns.
std::string plan_text(const InstallPlan& plan, Language language, int columns = 100);
nlohmann::ordered_json plan_json(const InstallPlan& plan, Language language);
/// The plan as a bash script, a Dockerfile or a conda environment that can be run as it is. `form` is script,
/// dockerfile or conda. Throws Error(usage) for another form, and Error(value) naming the broken link if the
/// plan is impossible.
std::string plan_as(const InstallPlan& plan, const std::string& form);

}  // namespace athanor::doctor
