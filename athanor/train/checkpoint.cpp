#include "athanor/train/checkpoint.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/formats/safetensors.h"
#include "athanor/nn/models.h"
#include "athanor/train/param_groups.h"

namespace athanor {
namespace {

using nlohmann::json;

constexpr const char* format_name = "athanor-checkpoint-1";
constexpr const char* hint = "Take another checkpoint, or start a new run";

json to_json(const ColumnEncoding& column) {
  return {{"name", column.name},
          {"mean", column.mean},
          {"stddev", column.stddev},
          {"may_miss", column.may_miss},
          {"categories", column.categories}};
}

ColumnEncoding column_from_json(const json& source) {
  return {.name = source.at("name"),
          .mean = source.at("mean"),
          .stddev = source.at("stddev"),
          .may_miss = source.at("may_miss"),
          .categories = source.at("categories")};
}

json to_json(const ExampleSpec& spec) {
  json columns = json::array();
  for (const ColumnEncoding& column : spec.columns) columns.push_back(to_json(column));
  json targets = json::array();
  for (const TargetScale& scale : spec.targets)
    targets.push_back({{"mean", scale.mean}, {"stddev", scale.stddev}});
  return {{"columns", columns},
          {"input", spec.input.to_ints()},
          {"classes", spec.classes},
          {"class_names", spec.class_names},
          {"mean", spec.normalization.mean},
          {"stddev", spec.normalization.stddev},
          {"fingerprint", spec.fingerprint},
          {"targets", targets},
          {"pixels", spec.pixels}};
}

ExampleSpec spec_from_json(const json& source) {
  ExampleSpec spec;
  spec.input = Shape(source.at("input").get<Ints>());
  source.at("classes").get_to(spec.classes);
  source.at("class_names").get_to(spec.class_names);
  source.at("mean").get_to(spec.normalization.mean);
  source.at("stddev").get_to(spec.normalization.stddev);
  for (const json& column : source.value("columns", json::array()))  // older files have none
    spec.columns.push_back(column_from_json(column));
  spec.fingerprint = source.value("fingerprint", "");               // older files have none
  for (const json& scale : source.value("targets", json::array()))  // older files have none
    spec.targets.push_back({.mean = scale.at("mean"), .stddev = scale.at("stddev")});
  spec.pixels = source.value("pixels", false);
  const bool text = spec.input.rank() == 1;
  const size_t channels = static_cast<size_t>(text ? 1 : spec.input.rank() == 3 ? spec.input[0] : 0);
  const auto fits = [&](const std::vector<float>& values) {
    return values.size() == 1 || values.size() == channels;
  };
  if (!spec.targets.empty() && std::ssize(spec.targets) != spec.classes)
    throw Error(ErrorCode::format, "the description of the targets is inconsistent");
  if (channels == 0 || spec.classes < 1 || !fits(spec.normalization.mean) || !fits(spec.normalization.stddev))
    throw Error(ErrorCode::format, "the description of the training data is inconsistent");
  return spec;
}

json to_json(const RunState& state) {
  json epochs = json::array();
  for (const auto& epoch : state.epochs) epochs.push_back(athanor::to_json(epoch));
  return {{"step", state.step},
          {"skipped_steps", state.skipped_steps},
          {"loader", {{"epoch", state.loader.epoch}, {"next_batch", state.loader.next_batch}}},
          {"random", {{"seed", state.random.seed}, {"draws", state.random.draws}}},
          {"metrics_bytes", state.metrics_bytes},
          {"epoch_sum", athanor::to_json(state.epoch_sum)},
          {"epochs", epochs},
          {"train_seconds", state.train_seconds}};
}

RunState state_from_json(const json& source) {
  RunState state;
  source.at("step").get_to(state.step);
  state.skipped_steps = source.value("skipped_steps", int64_t{0});  // older files have none
  state.loader = {source.at("loader").at("epoch"), source.at("loader").at("next_batch")};
  state.random = {source.at("random").at("seed"), source.at("random").at("draws")};
  source.at("metrics_bytes").get_to(state.metrics_bytes);
  state.epoch_sum = metrics_sum_from_json(source.at("epoch_sum"));
  for (const auto& epoch : source.at("epochs")) state.epochs.push_back(epoch_metrics_from_json(epoch));
  source.at("train_seconds").get_to(state.train_seconds);
  return state;
}

/// The tensors whose names begin with `prefix`, without it.
nn::StateDict with_prefix(std::map<std::string, HostArray>& tensors, std::string_view prefix) {
  nn::StateDict state;
  for (auto& [name, array] : tensors)
    if (name.starts_with(prefix)) state.emplace(name.substr(prefix.size()), std::move(array));
  return state;
}

}  // namespace

// NOLINTNEXTLINE(performance-unnecessary-value-param): its arrays are moved from
void write_checkpoint(const std::filesystem::path& path, Checkpoint checkpoint) {
  SafeTensors content;
  for (auto& [name, array] : checkpoint.model) content.tensors.emplace("model." + name, std::move(array));
  for (auto& [name, array] : checkpoint.optimizer)
    content.tensors.emplace("optimizer." + name, std::move(array));
  for (auto& [name, array] : checkpoint.scaler) content.tensors.emplace("scaler." + name, std::move(array));
  for (auto& [name, array] : checkpoint.average) content.tensors.emplace("average." + name, std::move(array));
  content.metadata = {{"format", format_name},
                      {"config", athanor::to_json(checkpoint.config).dump()},
                      {"device", checkpoint.device},
                      {"threads", std::to_string(checkpoint.threads)},
                      {"most_threads", std::to_string(checkpoint.most_threads)},
                      {"data", to_json(checkpoint.data).dump()},
                      {"state", to_json(checkpoint.state).dump()},
                      {"kernels", json(checkpoint.kernels).dump()}};
  if (!checkpoint.kernels_to_come.empty())
    content.metadata["kernels_to_come"] = json(checkpoint.kernels_to_come).dump();
  if (!checkpoint.threads_to_come.empty())
    content.metadata["threads_to_come"] = json(checkpoint.threads_to_come).dump();
  if (!checkpoint.tokenizer.empty()) content.metadata["tokenizer"] = checkpoint.tokenizer;
  write_safetensors(path, content);
}

Checkpoint read_checkpoint(const std::filesystem::path& path) {
  SafeTensors content = read_safetensors(path);
  if (content.metadata["format"] != format_name)
    throw Error(ErrorCode::format, "the file is not a checkpoint of this version of Athanor", path.string(),
                hint);
  Checkpoint checkpoint;
  try {
    const auto part = [&](const char* name) { return json::parse(content.metadata.at(name)); };
    checkpoint.config = train_config_from_json(part("config"), path.string());
    checkpoint.device = content.metadata["device"];  // older files have none
    checkpoint.threads = part("threads");
    checkpoint.most_threads = checkpoint.threads;  // older files do not say
    if (content.metadata.contains("most_threads")) checkpoint.most_threads = part("most_threads");
    checkpoint.data = spec_from_json(part("data"));
    checkpoint.state = state_from_json(part("state"));
    part("kernels").get_to(checkpoint.kernels);
    if (content.metadata.contains("kernels_to_come"))
      part("kernels_to_come").get_to(checkpoint.kernels_to_come);
    if (content.metadata.contains("threads_to_come"))
      part("threads_to_come").get_to(checkpoint.threads_to_come);
  } catch (const std::exception& error) {
    throw Error(ErrorCode::format, fmt::format("the checkpoint is damaged: {}", error.what()), path.string(),
                hint);
  }
  checkpoint.model = with_prefix(content.tensors, "model.");
  checkpoint.optimizer = with_prefix(content.tensors, "optimizer.");
  checkpoint.scaler = with_prefix(content.tensors, "scaler.");
  checkpoint.average = with_prefix(content.tensors, "average.");
  checkpoint.tokenizer = content.metadata["tokenizer"];
  return checkpoint;
}

std::unique_ptr<nn::Module> restore_model(const Checkpoint& checkpoint, const std::filesystem::path& path) {
  if (nn::is_own_model(checkpoint.config.model))
    (void)nn::objective_of(checkpoint.config.model);  // throws its own errors
  try {
    auto model = nn::make_model(checkpoint.config.model, checkpoint.data.input, checkpoint.data.classes);
    add_adapters(*model, checkpoint.config);
    nn::StateDict values = checkpoint.model;
    for (const auto& [name, array] : checkpoint.average) values[name] = array;
    model->load_state_dict(values);
    return model;
  } catch (const Error& error) {
    throw Error(ErrorCode::format, fmt::format("the checkpoint does not fit its model: {}", error.problem()),
                path.string(), hint);
  }
}

}  // namespace athanor
