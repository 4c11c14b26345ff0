#include "athanor/compile/options.h"

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "athanor/base/error.h"
#include "athanor/base/text.h"

namespace athanor {
namespace {

constexpr std::array<std::string_view, pass_count> names = {
    "dedicated", "epilogue", "simplify",  "layout",    "fuse",     "inplace", "join",
    "tune",      "replay",   "recompute", "libraries", "prologue", "chain"};

bool env_flag(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' && std::strcmp(value, "0") != 0;
}

CompileOptions from_environment() {
  CompileOptions options;
  if (const char* disable = std::getenv("ATHANOR_DISABLE")) options.disabled = parse_passes(disable);
  options.deterministic = env_flag("ATHANOR_DETERMINISTIC");
  options.check_nan = env_flag("ATHANOR_CHECK_NAN");
  if (const char* ops = std::getenv("ATHANOR_HOST_OPS")) {
    std::istringstream list(ops);
    for (std::string name; std::getline(list, name, ',');)
      if (!name.empty()) options.host_ops.push_back(name);
  }
  return options;
}

}  // namespace

std::string_view to_string(Pass pass) { return names.at(static_cast<size_t>(pass)); }

std::string_view to_string(Tuning tuning) {
  constexpr std::array<std::string_view, 3> tunings = {"off", "quick", "full"};
  return tunings.at(static_cast<size_t>(tuning));
}

const std::vector<std::string>& tuning_names() {
  static const std::vector<std::string> all = {"off", "quick", "full"};
  return all;
}

Tuning parse_tuning(const std::string& name) {
  for (const Tuning tuning : {Tuning::off, Tuning::quick, Tuning::full})
    if (to_string(tuning) == name) return tuning;
  throw Error(ErrorCode::usage, fmt::format("there is no tuning '{}'", name), "--tune",
              "Give off, quick or full");
}

CompileOptions& compile_options() {
  thread_local CompileOptions options = from_environment();
  return options;
}

uint32_t parse_passes(std::string_view list) {
  uint32_t bits = 0;
  while (!list.empty()) {
    const auto comma = list.find(',');
    const auto name = list.substr(0, comma);
    list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
    if (name.empty()) continue;
    bool known = false;
    for (size_t i = 0; i < names.size(); ++i)
      if (names[i] == name) bits |= 1U << i, known = true;
    if (!known)
      throw Error(ErrorCode::name, fmt::format("unknown pass '{}'", name), "ATHANOR_DISABLE",
                  nearest_hint(name, {names.begin(), names.end()}));
  }
  return bits;
}

ScopedDisable::ScopedDisable(std::string_view list) : before_(compile_options().disabled) {
  compile_options().disabled |= parse_passes(list);
}
ScopedDisable::~ScopedDisable() { compile_options().disabled = before_; }

}  // namespace athanor
