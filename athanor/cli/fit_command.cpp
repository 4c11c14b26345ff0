#include "athanor/cli/fit_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "athanor/nn/models.h"
#include "athanor/train/task.h"

namespace athanor::cli {
namespace {

// The fields that people look for first.
const std::vector<std::string> leading_fields{"model",      "data",        "context",   "device",
                                              "optimizer",  "batch_size",  "precision", "offload",
                                              "accumulate", "memory_limit"};

/// A size as the command line takes it, rounded down.
std::string bytes_option(int64_t bytes) {
  constexpr int64_t kibi = 1 << 10, mebi = 1 << 20;
  if (bytes < 16 * mebi) return fmt::format("{}KiB", bytes / kibi);
  return fmt::format("{}MiB", bytes / mebi);
}

std::string data_option(const ModelStepOptions& options, const ExampleSpec& spec) {
  if (options.given.contains("data")) return options.config.data;
  if (nn::is_language_model(options.config.model)) return "FILE.txt";
  return is_of_default_data(options.config, spec) ? options.config.data : "DIR";
}

/// An argument, quoted if a shell would not take it as it is.
std::string quoted(const std::string& text) {
  const std::string plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,+=@%";
  if (!text.empty() && text.find_first_not_of(plain) == std::string::npos) return text;
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? "'\\''" : std::string(1, c);
  return result + "'";
}

}  // namespace

bool is_of_default_data(const TrainConfig& config, const ExampleSpec& spec) {
  return task_kind(config) == TaskKind::classification && spec.input == Shape{1, 28, 28} &&
         spec.classes == 10;
}

std::string train_command(const ModelStepOptions& options, const ExampleSpec& spec, const FitPoint& point,
                          int64_t limit) {
  TrainConfig config = options.config;
  const TrainConfig usual = default_config(config.model, config.task);
  config.data = data_option(options, spec);
  config.validation = usual.validation;
  config.batch_size = point.of.batch_size;
  config.accumulate = point.of.parts;
  config.precision = to_string(point.of.precision);
  config.memory_limit = point.of.again || options.given.contains("memory_limit") ? limit : 0;
  const nlohmann::json wanted = to_json(config), known = to_json(usual);
  std::string line = "athanor train";
  const auto add = [&](const std::string& name) {
    const nlohmann::json& value = wanted[name];
    if (value == known[name] && name != "model" && name != "batch_size") return;
    line += " " + option_name(name);
    if (name == "memory_limit")
      line += " " + bytes_option(config.memory_limit);
    else if (value.is_string())
      line += " " + quoted(value.get<std::string>());
    else if (!value.is_boolean())
      line += " " + value.dump();
  };
  for (const std::string& name : leading_fields) add(name);
  for (const auto& [name, value] : wanted.items())
    if (std::ranges::find(leading_fields, name) == leading_fields.end()) add(name);
  return line;
}

}  // namespace athanor::cli
