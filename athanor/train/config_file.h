// Options of a run in a TOML file.
#pragma once
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "athanor/train/config.h"

namespace athanor {

/// The options in a file, by the names of TrainConfig's fields:
///
///     model = "resnet18"
///     batch_size = 64     # or batch-size, as on the command line
///     lr = 0.05
///
/// Throws Error(io), Error(format) for what is not TOML, and Error(usage) naming the file for an unknown
/// option, with the nearest match, and for a value of another type.
nlohmann::json read_config_file(const std::filesystem::path& path);

/// `base` with some fields replaced.
TrainConfig with_fields(const TrainConfig& base, const nlohmann::json& fields);

/// A file that read_config_file() reads, with every option that has a value.
std::string to_toml(const TrainConfig& config);

}  // namespace athanor
