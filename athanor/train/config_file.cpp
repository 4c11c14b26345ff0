#include "athanor/train/config_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "athanor/base/error.h"
#include "athanor/base/file.h"
#include "athanor/base/text.h"
#include "athanor/base/toml.h"

namespace athanor {
namespace {

using nlohmann::json;

/// "" if `value` has the type of `example`; otherwise that type in words.
std::string mistake(const json& value, const json& example) {
  if (example.is_boolean()) return value.is_boolean() ? "" : "true or false";
  if (example.is_string()) return value.is_string() ? "" : "text in quotes";
  if (example.is_number_unsigned() || example.is_number_integer()) {
    if (!value.is_number_integer()) return "a whole number";
    return example.is_number_unsigned() && !value.is_number_unsigned() && value.get<int64_t>() < 0
               ? "a whole number from 0 on"
               : "";
  }
  return value.is_number() ? "" : "a number";  // the learning rate's default is null
}

// TOML's numbers end at 2^63 - 1: a larger seed is text.
constexpr uint64_t largest_in_toml = INT64_MAX;

json from_text(const json& value) {
  const auto* text = value.get_ptr<const std::string*>();
  uint64_t number = 0;
  if (text == nullptr) return value;
  const auto [end, failed] = std::from_chars(text->data(), text->data() + text->size(), number);
  const bool whole = failed == std::errc() && end == text->data() + text->size();
  return whole && number > largest_in_toml ? json(number) : value;
}

bool is_too_large_for_toml(const json& value) {
  return value.is_number_unsigned() && value.get<uint64_t>() > largest_in_toml;
}

}  // namespace

nlohmann::json read_config_file(const std::filesystem::path& path) {
  constexpr uint64_t longest = 1 << 20;
  const json defaults = to_json(TrainConfig{});
  std::vector<std::string_view> known;
  for (const auto& [name, value] : defaults.items()) known.push_back(name);
  json fields = json::object();
  json document = parse_toml(read_text_file(path, longest), path.string());
  for (auto& [key, value] : document.items()) {
    std::string name = key;
    std::ranges::replace(name, '-', '_');
    if (!defaults.contains(name))
      throw Error(ErrorCode::usage, fmt::format("there is no option '{}'", key), path.string(),
                  nearest_hint(name, known));
    if (name == "checkpoint_every" && value.is_number_integer()) value = value.dump();
    if (defaults[name].is_number_unsigned()) value = from_text(value);
    if (const std::string wanted = mistake(value, defaults[name]); !wanted.empty())
      throw Error(ErrorCode::usage, fmt::format("{} = {} is not {}", key, value.dump(), wanted),
                  path.string(), "'athanor train --help' tells what each option takes");
    fields[name] = value;
  }
  return fields;
}

TrainConfig with_fields(const TrainConfig& base, const nlohmann::json& fields) {
  json all = to_json(base);
  for (const auto& [name, value] : fields.items()) all[name] = value;
  return train_config_from_json(all, "options");
}

std::string to_toml(const TrainConfig& config) {
  std::string text = "# The options of this run. To train another like it: athanor train --config FILE\n";
  const json all = to_json(config);
  for (const auto& [name, value] : all.items())
    if (!value.is_null())  // JSON's values are TOML's
      text += fmt::format("{0} = {2}{1}{2}\n", name, value.dump(), is_too_large_for_toml(value) ? "\"" : "");
  return text;
}

}  // namespace athanor
