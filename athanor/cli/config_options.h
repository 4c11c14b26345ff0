// The options that make up a TrainConfig: one table for train and for the commands that look at its step.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "athanor/train/config.h"

namespace CLI {
class App;
}

namespace athanor::cli {

/// The options of a command.
struct ConfigOptions {
  TrainConfig config;
  std::string config_file;       // --config
  std::string checkpoint_every;  // as it was given
};

/// Which options a command has: all, or those that decide what a training step computes and how.
enum class OptionsFor { run, step };

/// Adds the options to a command, with --config and --trust. `device_help`: help for --device; "": the usual
/// one.
void add_config_options(CLI::App& command, ConfigOptions& options, OptionsFor use,
                        const std::string& device_help = {});

/// The fields that were given: on the command line, or in the file and not on the command line. Throws
/// Error(usage) for numbers below 1 if 1 is the least.
nlohmann::json given_fields(const CLI::App& command, ConfigOptions& options);

/// The defaults of the other fields. They depend on the model and the task: those given, those that suit the
/// given data, or those `known`.
TrainConfig defaults_of(const nlohmann::json& given, const TrainConfig& known, bool goes_on);

}  // namespace athanor::cli
