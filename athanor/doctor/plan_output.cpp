#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "athanor/base/error.h"
#include "athanor/base/text.h"
#include "athanor/base/wrap.h"
#include "athanor/doctor/plan.h"
#include "athanor/doctor/report.h"

namespace athanor::doctor {
namespace {

std::string heading(const InstallPlan& plan) {
  std::string lines;
  for (const Link& link : plan.links)
    lines += printable(fmt::format("#   {}: {} ({})", link.part, link.value, link.reason.en)) + "\n";
  return lines;
}

std::string pip_arguments(const InstallPlan& plan) {
  std::string words;
  for (const std::string& package : plan.packages) words += " " + shell_word(package);
  if (!plan.index.empty()) words += " --index-url " + plan.index;
  if (!plan.find_links.empty()) words += " --find-links " + plan.find_links;
  return words;
}

// The script also prints which GPUs it leaves out, because nobody reads its head when it runs.
std::string said_of_gpus(const InstallPlan& plan) {
  std::string lines;
  for (const Link& link : plan.links)
    if (link.part.starts_with("GPU") && link.reason.en.starts_with("not used"))
      lines += fmt::format(
          "echo {} >&2\n",
          shell_word(printable(fmt::format("{}: {}: {}", link.part, link.value, link.reason.en))));
  return lines.empty() ? "" : "\n" + lines;
}

std::string script(const InstallPlan& plan) {
  std::string text = fmt::format(
      "#!/usr/bin/env bash\n# Made by: athanor doctor --plan {} --as script\n{}set -euo pipefail\n",
      plan.goal, heading(plan));
  if (!plan.driver_test.empty())
    text += fmt::format("\nif ! {{ {}; }}; then\n  echo {} >&2\n  exit 1\nfi\n", plan.driver_test,
                        shell_word(plan.driver_hint));
  text += said_of_gpus(plan);
  if (plan.goal == "athanor") {
    std::string variables;
    for (const auto& [name, value] : plan.variables)
      variables += fmt::format("export {0}={1}\necho 'Put this into ~/.profile as well: export {0}={1}'\n",
                               name, value);
    return text + fmt::format(
                      "\nif [ ! -x ./quickstart ]; then\n  echo 'Run this in a checkout of Athanor.' >&2\n  "
                      "exit 1\nfi\n"
                      "sudo apt-get update\nsudo apt-get install -y "
                      "--no-install-recommends{}\n{}./quickstart\nbuild/release/athanor detect\n",
                      pip_arguments(plan), variables);
  }
  text += fmt::format(
      "\nvenv=${{1:-\"$HOME/venvs/{}\"}}\nif ! python=$(command -v python{}) || "
      // pyenv may put a program of that name on PATH that starts no Python.
      "! \"$python\" -c '' 2>/dev/null; then\n"
      "  echo 'Python {} is missing. With uv (docs.astral.sh/uv): uv python install {}' >&2\n  exit 1\nfi\n",
      plan.name, plan.python, plan.python, plan.python);
  text += "\"$python\" -m venv \"$venv\"\n\"$venv/bin/python\" -m pip install --upgrade pip\n";
  text += fmt::format("\"$venv/bin/python\" -m pip install{}\n", pip_arguments(plan));
  for (const auto& [name, value] : plan.variables) {
    text += fmt::format("export {0}={1}\necho 'export {0}={1}' >>\"$venv/bin/activate\"\n", name, value);
  }
  text += fmt::format("\"$venv/bin/python\" -c {}\necho \"Ready: source $venv/bin/activate\"\n",
                      shell_word(plan.check));
  return text;
}

std::string dockerfile(const InstallPlan& plan) {
  std::string text =
      fmt::format("# Made by: athanor doctor --plan {} --as dockerfile\n{}", plan.goal, heading(plan));
  const bool nvidia = plan.driver_test.find("nvidia-smi") != std::string::npos,
             kfd = plan.driver_test.find("/dev/kfd") != std::string::npos;
  const bool render = plan.driver_test.find("/dev/dri") != std::string::npos;
  text += fmt::format(
      "# docker build -t {0} . && docker run --rm --shm-size=8g{1} {0}\nFROM {2}\n",
      plan.goal == "athanor" ? std::string("athanor") : "athanor-" + plan.name,
      std::string(nvidia ? " --gpus all" : "") + (kfd ? " --device=/dev/kfd" : "") +
          (kfd || render ? " --device=/dev/dri --group-add $(stat -c %g /dev/dri/renderD128)" : ""),
      plan.image);
  if (nvidia) text += "ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility\n";
  for (const auto& variables : {plan.variables, plan.image_variables})
    for (const auto& [name, value] : variables) text += fmt::format("ENV {}={}\n", name, value);
  std::string image_packages;
  for (const std::string& package : plan.image_packages)
    if (std::find(plan.packages.begin(), plan.packages.end(), package) == plan.packages.end())
      image_packages += " " + package;
  if (plan.goal == "athanor")
    return text + fmt::format(
                      "RUN apt-get update && apt-get install -y --no-install-recommends{}{}\n{}"
                      "COPY . /athanor\nWORKDIR /athanor\nRUN tools/install-packages build data && cmake "
                      "--preset release -DATHANOR_TESTS=OFF -DATHANOR_EXAMPLES=OFF -DATHANOR_BENCH=OFF && "
                      "cmake --build --preset release\n"
                      "CMD [\"build/release/athanor\", \"detect\"]\n",
                      pip_arguments(plan), image_packages,
                      // The library comes from the host; the file that names it does not.
                      nvidia ? "RUN mkdir -p /etc/OpenCL/vendors && echo libnvidia-opencl.so.1 "
                               ">/etc/OpenCL/vendors/nvidia.icd\n"
                             : "");
  // ROCm's images have the system's Python, which refuses packages beside its own.
  if (plan.image.starts_with("rocm/"))
    text +=
        "RUN apt-get update && apt-get install -y --no-install-recommends python3-venv && python3 -m venv "
        "/venv\nENV PATH=/venv/bin:$PATH\n";
  if (!image_packages.empty())
    text +=
        fmt::format("RUN apt-get update && apt-get install -y --no-install-recommends{}\n", image_packages);
  text += fmt::format("RUN python3 -m pip install --no-cache-dir{}\n", pip_arguments(plan));
  return text + fmt::format("CMD [\"python3\", \"-c\", {}]\n", nlohmann::json(plan.check).dump());
}

std::string conda(const InstallPlan& plan) {
  if (plan.python.empty())
    throw Error(ErrorCode::usage, "Athanor is built with the system's compiler, not with conda", "--as conda",
                "Take --as script or --as dockerfile");
  std::string text = fmt::format(
      "# Made by: athanor doctor --plan {0} --as conda\n{1}# conda env create -f environment.yml && conda "
      "activate athanor-{2}\n",
      plan.goal, heading(plan), plan.name);
  text += fmt::format(
      "name: athanor-{}\nchannels:\n  - conda-forge\ndependencies:\n  - python={}\n  - pip\n  - pip:\n",
      plan.name, plan.python);
  if (!plan.index.empty()) text += fmt::format("      - --index-url {}\n", plan.index);
  if (!plan.find_links.empty()) text += fmt::format("      - --find-links {}\n", plan.find_links);
  for (const std::string& package : plan.packages) text += fmt::format("      - \"{}\"\n", package);
  if (!plan.variables.empty()) text += "variables:\n";
  for (const auto& [name, value] : plan.variables) text += fmt::format("  {}: \"{}\"\n", name, value);
  return text;
}

}  // namespace

std::string plan_text(const InstallPlan& plan, Language language, int columns) {
  size_t part = 0, value = 0;
  for (const Link& link : plan.links)
    part = std::max(part, link.part.size()), value = std::max(value, link.value.size());
  std::string text;
  for (const Link& link : plan.links) {
    const std::string indent(part + 4, ' ');
    const int width = columns - static_cast<int>(indent.size());
    text += fmt::format("{} {:<{}}  {}\n", link.broken ? "x" : " ", link.part, part,
                        wrapped(link.value, width, static_cast<int>(indent.size())));
    text += indent + wrapped(link.reason.in(language), width, static_cast<int>(indent.size())) + "\n";
    if (link.newer.en.empty()) continue;
    const bool zh = language == Language::zh;
    const char* label = link.broken ? (zh ? "改为：" : "instead: ") : (zh ? "更新：" : "newer: ");
    text += indent + wrapped(label + link.newer.in(language), width, static_cast<int>(indent.size())) + "\n";
  }
  if (const Link* broken = plan.broken())
    return text + (language == Language::zh ? "\n不可行，原因在于：" : "\nImpossible, because of: ") +
           broken->part + "\n";
  const std::string command =
      fmt::format("athanor doctor --plan {} --as {}", plan.goal,
                  plan.python.empty() ? "script|dockerfile" : "script|dockerfile|conda");
  return text + (language == Language::zh ? "\n可直接运行的形式：" : "\nTo run it: ") + command + "\n";
}

nlohmann::ordered_json plan_json(const InstallPlan& plan, Language language) {
  auto links = nlohmann::ordered_json::array();
  for (const Link& link : plan.links)
    links.push_back({{"part", link.part},
                     {"value", link.value},
                     {"reason", link.reason.in(language)},
                     {"newer", link.newer.in(language)},
                     {"broken", link.broken}});
  auto gpus = nlohmann::ordered_json::array();
  for (const PlannedGpu& gpu : plan.gpus)
    gpus.push_back({{"index", gpu.index},
                    {"name", printable(gpu.name)},
                    {"address", printable(gpu.address)},
                    {"vendor", gpu.vendor},
                    {"use", gpu.use == PlannedGpu::Use::used    ? "used"
                            : gpu.use == PlannedGpu::Use::apart ? "apart"
                                                                : "unused"},
                    {"reason", gpu.reason.in(language)}});
  return {{"schema", 1},
          {"goal", plan.goal},
          {"possible", plan.broken() == nullptr},
          {"gpus", gpus},
          {"links", links},
          {"python", plan.python},
          {"packages", plan.packages},
          {"index", plan.index},
          {"find_links", plan.find_links},
          {"variables", plan.variables}};
}

std::string plan_as(const InstallPlan& plan, const std::string& form) {
  if (form != "script" && form != "dockerfile" && form != "conda")
    throw Error(ErrorCode::usage, fmt::format("a plan has no form '{}'", form), "--as",
                nearest_hint(form, {"script", "dockerfile", "conda"}));
  if (const Link* broken = plan.broken())
    throw Error(ErrorCode::value, fmt::format("this machine cannot run {}: {}", plan.goal, broken->reason.en),
                broken->part, broken->newer.en);
  return form == "script" ? script(plan) : form == "dockerfile" ? dockerfile(plan) : conda(plan);
}

}  // namespace athanor::doctor
