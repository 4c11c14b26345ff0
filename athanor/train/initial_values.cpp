#include "athanor/train/initial_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "athanor/base/error.h"
#include "athanor/base/text.h"
#include "athanor/formats/safetensors.h"
#include "athanor/nn/lora.h"
#include "athanor/train/foreign_names.h"
#include "athanor/train/run_folder.h"

namespace athanor {
namespace {

/// The model's part of a checkpoint.
std::map<std::string, HostArray> of_the_model(std::map<std::string, HostArray>&& tensors) {
  constexpr std::string_view prefix = "model.";
  std::map<std::string, HostArray> result;
  for (auto& [name, array] : tensors)
    if (name.starts_with(prefix)) result.emplace(name.substr(prefix.size()), std::move(array));
  return result;
}

/// The first rows of a longer table.
HostArray first_rows(const HostArray& table, const Shape& shape) {
  HostArray rows(table.dtype, shape);
  std::copy_n(table.bytes.begin(), rows.bytes.size(), rows.bytes.begin());
  return rows;
}

bool is_longer_table(const std::string& name, const Shape& in_file, const Shape& wanted) {
  return (name == "wpe.weight" || name == "bert.embeddings.position_embeddings.weight") &&
         in_file.rank() == 2 && in_file[0] > wanted[0] && in_file[1] == wanted[1];
}

/// The options of a checkpoint's adapters; a rank of 0: it has none.
nn::LoraOptions adapters_of(const std::string& config) {
  const auto json = nlohmann::json::parse(config, nullptr, false);
  if (!json.is_object()) return {.rank = 0};
  const auto number = [&](const char* name) {
    const auto found = json.find(name);
    return found != json.end() && found->is_number() ? found->get<double>() : 0;
  };
  return {.rank = static_cast<int64_t>(number("lora")), .alpha = number("lora_alpha")};
}

}  // namespace

std::string load_initial_values(nn::Module& model, const std::filesystem::path& path) {
  if (const RunFolder run{path}; std::filesystem::exists(run.checkpoint()))
    throw Error(ErrorCode::usage, "this is the folder of a run, a file is needed", path.string(),
                fmt::format("Give --init {}", run.checkpoint().string()));
  SafeTensors file = read_safetensors(path);
  const bool is_checkpoint = file.metadata["format"].starts_with("athanor-checkpoint");
  const nn::LoraOptions adapters =
      is_checkpoint ? adapters_of(file.metadata["config"]) : nn::LoraOptions{.rank = 0};
  if (adapters.rank > 0) nn::add_lora(model, adapters);
  const nn::StateDict drawn = model.state_dict();
  nn::StateDict values;
  std::vector<std::string> new_ones;
  auto tensors =
      is_checkpoint ? of_the_model(std::move(file.tensors)) : with_own_names(std::move(file.tensors));
  for (auto& [name, array] : tensors) {
    const auto known = drawn.find(name);
    if (known != drawn.end() && known->second.shape != array.shape) {
      if (is_longer_table(name, array.shape, known->second.shape)) {
        array = first_rows(array, known->second.shape);
      } else if (nn::is_of_classes(name)) {
        new_ones.push_back(name);
        array = known->second;
      }
    }
    values[name] = std::move(array);
  }
  const size_t taken = values.size() - new_ones.size();
  for (const auto& [name, array] : drawn)
    if (name.ends_with("num_batches_tracked")) values.try_emplace(name, array);  // older files have none
  // A file of BertModel is a BERT without a head.
  const bool headless =
      values.contains("bert.embeddings.word_embeddings.weight") && !values.contains("cls.predictions.bias");
  for (const auto& [name, array] : drawn)
    if (headless && name.starts_with("cls.predictions.") && values.emplace(name, array).second)
      new_ones.push_back(name);
  try {
    model.load_state_dict(values);
    nn::merge_lora(model);
  } catch (const Error& error) {
    nn::merge_lora(model);
    throw Error(
        error.code(), error.problem(), path.string(),
        "--init takes files with the names of torchvision (ResNets, Inception, ViT), timm (ViT) and Hugging "
        "Face (ViT, GPT-2, BERT); "
        "--model, --data and --context decide the shapes");
  }
  std::string note = fmt::format("{} tensors of {}", taken, path.filename().string());
  if (!new_ones.empty())
    note += fmt::format("; {} {} new", join(new_ones), new_ones.size() > 1 ? "are" : "is");
  return note;
}

}  // namespace athanor
