#include "athanor/cli/detect_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "athanor/base/text.h"
#include "athanor/base/wrap.h"
#include "athanor/device/spoken.h"

namespace athanor::cli {
namespace {

class DetectStyle {
 public:
  DetectStyle(const Screen& screen, int columns) : screen_(screen), columns_(columns) {}
  std::string bold(const std::string& text) const { return wrap("1", text); }
  std::string dim(const std::string& text) const { return wrap("2", text); }
  std::string good(const std::string& text) const { return wrap("32", text); }
  std::string bad(const std::string& text) const { return wrap("33", text); }
  const char* dot() const { return screen_.unicode ? " · " : "; "; }
  std::string row(const std::string& title, const std::string& text) const {
    return fmt::format("  {:<{}} {}\n", title, name_width, wrapped(text, columns_ - behind, behind));
  }
  /// A name and a place; the place in a line of its own if both do not fit.
  std::string head(const std::string& name, const std::string& where) const {
    const bool fits = text_columns(name) + 2 + text_columns(where) <= columns_;
    return fmt::format("{}{}{}\n", bold(wrapped(name, columns_, 0)), fits ? "  " : "\n  ", where);
  }
  std::string entry(const std::string& text) const { return "  " + wrapped(text, columns_ - 2, 2) + "\n"; }
  /// A line of a list below a title.
  std::string item(const std::string& text) const { return "      " + wrapped(text, columns_ - 6, 6) + "\n"; }

 private:
  std::string wrap(const char* code, const std::string& text) const {
    return screen_.color ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : text;
  }
  static constexpr int name_width = 20, behind = name_width + 3;
  const Screen& screen_;
  int columns_;
};

struct Line {
  const char* property;
  const char* title;
};

// In the order of interest.
constexpr Line lines[] = {{"possible_models", "one of"},
                          {"architecture", "architecture"},
                          {"family", "family"},
                          {"compute_units", "compute units"},
                          {"threads", "threads"},
                          {"wave_width", "wave width"},
                          {"vector_instructions", "vector instructions"},
                          {"clock_mhz", "clock at most"},
                          {"memory_bytes", "memory"},
                          {"bandwidth_gb_s", "memory bandwidth"},
                          {"f32_tflops", "f32 rate"},
                          {"f16_matrix_tflops", "f16 matrix rate"},
                          {"f16", "f16 arithmetic"},
                          {"bf16", "bf16 arithmetic"},
                          {"matrix_units", "matrix units"},
                          {"l2_cache_bytes", "L2 cache"},
                          {"l3_cache_bytes", "L3 cache"},
                          {"pcie_link", "PCIe link now"},
                          {"pcie_link_best", "PCIe link at best"},
                          {"pcie_link_inside", "PCIe link inside"},
                          {"kernel_driver", "kernel driver"},
                          {"driver_version", "driver version"},
                          {"libraries", "libraries"}};

// "72 (KFD, data sheet) · 36 work-group processors (HIP, OpenCL)": readings that agree are joined.
std::string readings_text(const std::string& property, const Fact& fact, const DetectStyle& style) {
  struct Said {
    std::string text;
    std::vector<std::string> sources;
  };
  std::vector<Said> all;
  const auto add = [&](const Reading& reading, bool first) {
    std::string text = to_text(property, reading.value);
    if (!reading.meaning.empty())
      text +=
          first || reading.source == "user" ? fmt::format(" ({})", reading.meaning) : " " + reading.meaning;
    for (Said& said : all)
      if (said.text == text) return said.sources.push_back(spoken(reading.source));
    all.push_back({text, {spoken(reading.source)}});
  };
  add(fact.in_use, false);
  for (const Reading& other : fact.others) add(other, false);
  std::string line;
  for (const Said& said : all) {
    std::vector<std::string> sources;  // each once, because several platforms may agree
    for (const std::string& source : said.sources)
      if (std::find(sources.begin(), sources.end(), source) == sources.end()) sources.push_back(source);
    line += fmt::format("{}{} {}", line.empty() ? "" : style.dot(), said.text,
                        style.dim(fmt::format("({})", join(sources))));
  }
  return line;
}

void add_property(std::string& text, const FoundDevice& device, const std::string& property,
                  const std::string& title, const DetectStyle& style) {
  const auto found = device.properties.find(property);
  if (found == device.properties.end()) return;
  std::string line = readings_text(property, found->second, style);
  if (property == "compute_units" && !device.text("launch_mode").empty())
    line += fmt::format("{}launches in {} mode", style.dot(), device.text("launch_mode"));
  text += style.row(title, line);
  if (!found->second.note.empty()) text += style.row("", style.dim(found->second.note));
}

void add_device(std::string& text, const FoundDevice& device, const DetectStyle& style, bool all) {
  const std::string place = device.text("pci_address");
  const std::string part =
      device.number("partition") > 0 ? fmt::format(", part {}", device.number("partition")) : "";
  text += style.head(device.name, device.kind + (place.empty() ? "" : " at " + place) + part);
  std::vector<std::string> usable;
  bool not_known = false;
  for (const BackendUse& use : device.backends) {
    if (use.usable) usable.push_back(use.device);
    not_known = not_known || use.not_known;
  }
  text += style.row("use it with", !usable.empty() ? style.good("--device " + join(usable, " | "))
                                   : not_known     ? "not known"
                                                   : style.bad("nothing here"));
  for (const BackendUse& use : device.backends)
    if (!use.usable) text += style.row((use.not_known ? "perhaps " : "not ") + use.backend, use.reason);
  std::set<std::string> shown{"launch_mode"};
  for (const Line& line : lines) {
    add_property(text, device, line.property, line.title, style);
    shown.insert(line.property);
  }
  for (const auto& [property, fact] : device.properties) {
    if (shown.contains(property) || (!all && fact.note.empty())) continue;
    std::string title = property;
    std::replace(title.begin(), title.end(), '_', ' ');
    add_property(text, device, property, title, style);
  }
}

}  // namespace

std::string describe(const Detection& detection, const Screen& screen, int columns, bool all) {
  const DetectStyle style(screen, columns);
  std::string text;
  for (const FoundDevice& device : detection.devices) {
    if (!text.empty()) text += '\n';
    add_device(text, device, style, all);
  }
  if (!detection.dangers.empty()) text += "\n" + style.bold("Settings to look at") + "\n";
  for (const Danger& danger : detection.dangers)
    text +=
        style.entry(style.bad(danger.setting)) + style.item(danger.what) + style.item("fix:  " + danger.fix);
  bool first = true;
  for (const RuntimeState& state : detection.runtimes) {
    if (!all && (state.problem.starts_with("no ") || state.name == "drm"))
      continue;  // not installed: the devices that need it say so
    if (state.problem == "its answers were not recorded" && !all) continue;
    if (first) text += "\n" + style.bold("Runtimes") + "\n";
    first = false;
    std::string answer = !state.answered         ? style.bad(state.problem)
                         : state.version.empty() ? "answers"
                                                 : state.version;
    if (!state.settings.empty()) answer += fmt::format(" · obeys {}", fmt::join(state.settings, ", "));
    text += style.row(spoken(state.name), answer);
  }
  return text;
}

std::string describe(const std::vector<FailedExamination>& failed, const Screen& screen, int columns) {
  if (failed.empty()) return {};
  const DetectStyle style(screen, columns);
  std::string text = "\n" + style.bold("Refused: failed their examinations") + "\n";
  for (const FailedExamination& one : failed)
    text += style.entry(style.bad(one.device)) + style.item(one.driver) + style.item(one.what);
  return text + style.item("--trust uses such a device all the same, and every summary says so.");
}

}  // namespace athanor::cli
