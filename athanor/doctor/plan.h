// One consistent chain for a machine (driver, runtime, framework and flavour, Python), or the link that makes
// it impossible. A plan is for GPUs of one vendor, and says of every GPU in the machine what it does with it.
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
  std::string flavour;  // "cu128", "rocm6.4", "xpu", "cpu"; "" where none uses the GPU
  std::string index;    // for pip's --index-url; "" likewise
  Version version;      // of torch, two numbers
  Version oldest_python, newest_python;
  std::string package = "torch";  // for pip; of AMD's own builds "torch[device-gfx1010]"
  bool therock = false;           // AMD's own build, which brings ROCm along
  std::string variable, value;    // to be set for it (HSA_OVERRIDE_GFX_VERSION), or ""
  Text obstacle;                  // why there is none
  bool driver_too_old = false;    // which is the obstacle
};

/// For GPUs of one vendor (none: for the CPU), and for an environment's Python where that is given.
TorchWheel torch_wheel(const Facts& facts, const std::vector<const Gpu*>& gpus,
                       const std::optional<Version>& python);
/// For those GPUs of the machine that a plan would be for.
TorchWheel torch_wheel(const Facts& facts, const std::optional<Version>& python);

/// One part of the chain, and why it is this one.
struct Link {
  std::string part;   // "GPU", "driver", "ROCm", "PyTorch", "Python"
  std::string value;  // "2.11, rocm7.2"
  Text reason;
  Text newer;           // what would have to change for a newer one; may be empty
  bool broken = false;  // nothing fits here: the plan is impossible
};

/// What a plan does with one GPU of the machine.
struct PlannedGpu {
  size_t index = 0;                          // what --device takes
  std::string name, place, address, vendor;  // name with the architecture; place for people
  enum class Use {
    used,    // by what is installed
    apart,   // can be used, but by an environment of its own
    unused,  // and `reason` says why
  } use = Use::unused;
  Text reason;
};

/// Which GPUs a plan is asked to be for; all "" leaves it to the plan.
struct PlanChoice {
  std::string vendor;  // "amd", "nvidia", "intel"
  std::string device;  // a GPU's number, PCI address, name or part of it; "opencl:0"; or "cpu"
};

struct InstallPlan {
  std::string goal;                         // "pytorch"
  std::string name;                         // of its environment: "pytorch-amd" beside other vendors' GPUs
  std::vector<PlannedGpu> gpus;             // every one of the machine
  std::vector<Link> links;                  // these stand first among them
  std::string python;                       // "3.12"; "" where none is needed
  std::vector<std::string> packages;        // for pip, or for apt where the goal is athanor
  std::vector<std::string> image_packages;  // for apt in an image, which has no driver of the machine's
  std::vector<std::pair<std::string, std::string>> image_variables;  // likewise, besides variables
  std::string index, find_links;  // pip's --index-url and --find-links; "" for none
  std::vector<std::pair<std::string, std::string>> variables;
  std::string image;        // that a Dockerfile starts from
  std::string check;        // Python that says whether the GPU is used
  std::string driver_test;  // shell: succeeds where the driver is there; "" for none
  std::string driver_hint;  // what to do where it is not

  /// The link that makes the plan impossible; nullptr if it is possible.
  const Link* broken() const;
};

/// `goal` is pytorch, tensorflow, jax or athanor. Without a choice: for the discrete GPUs, else for the
/// integrated; of several vendors for the first of NVIDIA, AMD and Intel that the goal is possible with. For
/// the CPU where there is no GPU, where none but integrated ones are and the goal has nothing for them, or
/// where it is asked for. Throws Error(usage) for another goal, and for a choice that fits nothing here.
InstallPlan make_plan(const Facts& facts, const std::string& goal, const PlanChoice& choice = {});

/// Lines of at most `columns` columns.
std::string plan_text(const InstallPlan& plan, Language language, int columns = 100);
nlohmann::ordered_json plan_json(const InstallPlan& plan, Language language);
/// The plan as a bash script, a Dockerfile or a conda environment that can be run as it is. `form` is script,
/// dockerfile or conda. Throws Error(usage) for another form, and Error(value) naming the broken link if the
/// plan is impossible.
std::string plan_as(const InstallPlan& plan, const std::string& form);

}  // namespace athanor::doctor
