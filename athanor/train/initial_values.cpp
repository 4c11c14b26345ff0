#include "athanor/train/initial_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "athanor/base/error.h"
#include "athanor/base/text.h"
#include "athanor/formats/safetensors.h"

namespace athanor {
namespace {

/// The name in the model of a tensor in a file; "" for one that no model has.
std::string name_in_model(std::string name, bool is_checkpoint) {
  if (is_checkpoint) return name.starts_with("model.") ? name.substr(6) : "";
  for (const std::string_view prefix : {"_orig_mod.", "module.", "transformer."})
    if (name.starts_with(prefix)) name.erase(0, prefix.size());
  // Masks of older GPT-2 files; and the embedding again.
  if (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") || name == "lm_head.weight")
    return "";
  return name;
}

/// The first rows of a longer table.
HostArray first_rows(const HostArray& table, const Shape& shape) {
  HostArray rows(table.dtype, shape);
  std::copy_n(table.bytes.begin(), rows.bytes.size(), rows.bytes.begin());
  return rows;
}

bool is_longer_table(const std::string& name, const Shape& in_file, const Shape& wanted) {
  return name == "wpe.weight" && in_file.rank() == 2 && in_file[0] > wanted[0] && in_file[1] == wanted[1];
}

}  // namespace

std::string load_initial_values(const nn::Module& model, const std::filesystem::path& path) {
  SafeTensors file = read_safetensors(path);
  const bool is_checkpoint = file.metadata["format"].starts_with("athanor-checkpoint");
  const nn::StateDict drawn = model.state_dict();
  nn::StateDict values;
  std::vector<std::string> new_ones;
  for (auto& [file_name, array] : file.tensors) {
    const std::string name = name_in_model(file_name, is_checkpoint);
    if (name.empty()) continue;
    const auto known = drawn.find(name);
    if (known != drawn.end() && known->second.shape != array.shape) {
      if (is_longer_table(name, array.shape, known->second.shape)) {
        array = first_rows(array, known->second.shape);
      } else if (name == "fc.weight" || name == "fc.bias") {
        new_ones.push_back(name);
        array = known->second;
      }
    }
    values[name] = std::move(array);
  }
  const size_t taken = values.size() - new_ones.size();
  for (const auto& [name, array] : drawn)
    if (name.ends_with("num_batches_tracked")) values.try_emplace(name, array);  // older files have none
  try {
    model.load_state_dict(values);
  } catch (const Error& error) {
    throw Error(
        error.code(), error.problem(), path.string(),
        "--init takes files with torchvision's names for resnet18, 34, 50 and Hugging Face's for gpt2; "
        "--model, --data and --context decide the shapes");
  }
  std::string note = fmt::format("{} tensors of {}", taken, path.filename().string());
  if (!new_ones.empty()) note += fmt::format("; {} are new, for other classes", join(new_ones));
  return note;
}

}  // namespace athanor
