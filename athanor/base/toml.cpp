#include "athanor/base/toml.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "athanor/base/error.h"

// Depth is bounded there: what is nested deeper is refused.
#define TOML_MAX_NESTED_VALUES 64
#include <toml++/toml.h>

namespace athanor {
namespace {

nlohmann::json to_json(const toml::node& node) {
  if (const auto* table = node.as_table()) {
    auto object = nlohmann::json::object();
    for (const auto& [key, value] : *table) object[std::string(key.str())] = to_json(value);
    return object;
  }
  if (const auto* array = node.as_array()) {
    auto list = nlohmann::json::array();
    for (const auto& value : *array) list.push_back(to_json(value));
    return list;
  }
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return number->get();
  if (const auto* number = node.as_floating_point()) return number->get();
  if (const auto* flag = node.as_boolean()) return flag->get();
  std::ostringstream text;
  if (const auto* date = node.as_date()) text << *date;
  if (const auto* time = node.as_time()) text << *time;
  if (const auto* date_time = node.as_date_time()) text << *date_time;
  return text.str();
}

}  // namespace

nlohmann::json parse_toml(std::string_view text, const std::string& where) {
  try {
    return to_json(toml::parse(text));
  } catch (const toml::parse_error& error) {
    throw Error(ErrorCode::format, std::string(error.description()),
                fmt::format("{}:{}", where, error.source().begin.line), "See https://toml.io for the format");
  }
}

}  // namespace athanor
