// Reads the file of compatibility data. Errors name the table and row.
#include "athanor/doctor/compatibility.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>

#include "athanor/base/error.h"
#include "athanor/base/toml.h"
#include "athanor/device/chip_order.h"
#include "athanor/doctor/facts/python.h"

namespace athanor::doctor {
namespace {

using Json = nlohmann::json;

// A part of the file, and its place there, which errors name.
class Part {
 public:
  Part(const Json& json, std::string where) : json_(json), where_(std::move(where)) {}

  Part at(const char* name) const {
    if (!json_.is_object()) fail("is not a table");
    if (!json_.contains(name)) fail(fmt::format("has no '{}'", name));
    return {json_.at(name), fmt::format("{}{}{}", where_, where_.empty() ? "" : ".", name)};
  }
  bool has(const char* name) const { return json_.is_object() && json_.contains(name); }
  std::vector<Part> rows() const {
    if (!json_.is_array()) fail("is not a list");
    std::vector<Part> all;
    for (size_t i = 0; i < json_.size(); ++i)
      all.push_back({json_.at(i), fmt::format("{}, row {}", where_, i + 1)});
    return all;
  }
  std::string text() const {
    if (!json_.is_string()) fail("is not text");
    return json_.get<std::string>();
  }
  std::string text(const char* name) const { return has(name) ? at(name).text() : ""; }
  Version version() const {
    const auto version = Version::parse(text());
    if (!version) fail(fmt::format("is '{}', which is not a version", text()));
    return *version;
  }
  int64_t number() const {
    if (!json_.is_number_integer() || json_.get<int64_t>() < 0) fail("is not a whole number");
    return json_.get<int64_t>();
  }
  template <class T>
  T count() const {
    const int64_t value = number();
    if (value > std::numeric_limits<T>::max()) fail(fmt::format("is {}, which is too large", value));
    return static_cast<T>(value);
  }
  bool flag(const char* name) const {
    if (!has(name)) return false;
    const Part part = at(name);
    if (!part.json_.is_boolean()) part.fail("is neither true nor false");
    return part.json_.get<bool>();
  }
  Chips names() const {
    Chips all;
    for (const Part& row : rows()) all.insert(row.text());
    return all;
  }
  std::pair<Version, Version> range() const {
    const auto ends = rows();
    if (ends.size() != 2) fail("must have two versions, from and to");
    return {ends[0].version(), ends[1].version()};
  }
  std::string day() const {
    std::string text = this->text();
    const auto digits = [&](size_t from, size_t to) {
      return std::all_of(text.begin() + static_cast<long>(from), text.begin() + static_cast<long>(to),
                         [](char c) { return c >= '0' && c <= '9'; });
    };
    if (text.size() != 10 || text[4] != '-' || text[7] != '-' || !digits(0, 4) || !digits(5, 7) ||
        !digits(8, 10) || !day_number(text))
      fail(fmt::format("is '{}', which is not a date (2026-11-22)", text));
    return text;
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::format, fmt::format("{} {}", where_.empty() ? "the file" : where_, what));
  }

  /// Days since 1970 of "2026-11-22".
  static std::optional<int64_t> day_number(std::string_view text) {
    const auto part = [&](size_t at, size_t size) {
      int value = 0;
      std::from_chars(text.data() + at, text.data() + at + size, value);
      return value;
    };
    const std::chrono::year_month_day day{std::chrono::year(part(0, 4)),
                                          std::chrono::month(static_cast<unsigned>(part(5, 2))),
                                          std::chrono::day(static_cast<unsigned>(part(8, 2)))};
    if (!day.ok()) return std::nullopt;
    return std::chrono::sys_days(day).time_since_epoch().count();
  }

 private:
  const Json& json_;
  std::string where_;
};

std::vector<Compatibility::Framework> frameworks(const Part& table) {
  std::vector<Compatibility::Framework> releases;
  for (const Part& row : table.at("release").rows()) {
    Compatibility::Framework one;
    one.version = row.at("version").version();
    std::tie(one.oldest_python, one.newest_python) = row.at("python").range();
    for (const Part& version : row.at("cuda").rows()) one.cuda.push_back(version.version());
    if (one.cuda.empty()) row.at("cuda").fail("is empty");
    if (row.has("rocm")) one.rocm = (row.at("rocm").version(), row.text("rocm"));
    if (row.has("cudnn")) one.cudnn = (row.at("cudnn").version(), row.text("cudnn"));
    releases.push_back(std::move(one));
  }
  if (releases.empty()) table.at("release").fail("is empty");
  return releases;
}

Compatibility::SmList sm_list(const Part& row) {
  Compatibility::SmList list{{}, row.flag("ptx")};
  for (const Part& one : row.at("sm").rows()) list.all.push_back(one.count<int>());
  if (list.all.empty()) row.at("sm").fail("is empty");
  if (!std::ranges::is_sorted(list.all)) row.at("sm").fail("is not in order");
  return list;
}

void read_cuda(Compatibility& all, const Part& table) {
  for (const Part& row : table.at("release").rows())
    all.cuda.push_back({row.at("version").version(), row.at("driver").version(), sm_list(row)});
  for (const Part& row : table.at("minimum_driver").rows())
    all.minimum_driver[row.at("major").count<uint32_t>()] = row.at("driver").version();
  for (const Part& row : table.at("last_branch").rows())
    all.last_branch.push_back({all.last_branch.empty() ? 0 : all.last_branch.back().below_sm,
                               row.at("below_sm").count<int>(), row.at("branch").count<uint32_t>(),
                               row.at("chips").text()});
  if (all.cuda.empty()) table.at("release").fail("is empty");
  if (all.minimum_driver.empty()) table.at("minimum_driver").fail("is empty");
}

void read_torch(Compatibility& all, const Part& table) {
  all.pytorch = frameworks(table);
  for (const Part& row : table.at("arch").rows())
    all.torch_arch.push_back({row.at("version").version(), row.at("cuda").version(), sm_list(row)});
  for (const Part& row : table.at("gfx").rows()) {
    const auto [torch_from, torch_to] = row.at("torch").range();
    const auto [rocm_from, rocm_to] = row.at("rocm").range();
    all.torch_gfx.push_back(
        {torch_from, torch_to, rocm_from, rocm_to, row.at("targets").names(), row.flag("some")});
  }
  all.torch_index = table.at("index").text();
}

void read_therock(Compatibility& all, const Part& table) {
  for (const Part& row : table.at("index").rows()) {
    const auto [oldest, newest] = row.at("python").range();
    all.therock.push_back({row.at("rocm").version(), row.at("torch").version(), oldest, newest,
                           row.at("url").text(), row.at("targets").names()});
  }
  all.therock_tested = table.at("tested").names();
  for (const Part& row : table.at("family").rows())
    all.therock_families[normalized(row.at("name").text())] = row.at("targets").names();
}

void read_jax(Compatibility& all, const Part& table) {
  for (const Part& row : table.at("python").rows())
    all.jax_python.push_back({row.at("version").version(), row.at("oldest").version()});
  for (const Part& row : table.at("cuda").rows())
    all.jax_cuda.push_back({row.at("major").count<uint32_t>(), row.at("driver").version(),
                            row.at("oldest_sm").count<int>(), row.at("cudnn").text()});
  for (const Part& row : table.at("rocm").rows()) {
    const auto [oldest, newest] = row.at("python").range();
    all.jax_rocm.push_back({row.at("major").count<uint32_t>(), row.at("plugin").text(),
                            row.at("extra").text(), row.at("jax").text(), row.at("rocm").version(), oldest,
                            newest, row.at("targets").names()});
  }
  for (const char* list : {"python", "cuda", "rocm"})
    if (table.at(list).rows().empty()) table.at(list).fail("is empty");
  all.newest_jax = table.at("newest").version();
}

void read_rocm(Compatibility& all, const Part& table) {
  for (const Part& row : table.at("release").rows()) {
    Compatibility::Rocm one;
    one.version = row.at("version").version();
    one.pytorch = row.text("pytorch");
    one.tensorflow = row.text("tensorflow");
    if (row.has("targets")) one.targets = row.at("targets").names();
    if (row.has("systems"))
      for (const Part& system : row.at("systems").rows()) one.systems.push_back(system.text());
    all.rocm.push_back(std::move(one));
  }
  if (all.rocm.empty()) table.at("release").fail("is empty");
  all.override_10_3_0 = table.at("override_10_3_0").names();
  all.hipblaslt = table.at("hipblaslt").names();
  all.broken_half = table.at("broken_half").names();
}

void read_room(Compatibility& all, const Part& table) {
  const auto bytes = [](const Part& row, const char* name) {
    return row.has(name) ? std::optional(static_cast<uint64_t>(row.at(name).number())) : std::nullopt;
  };
  for (const Part& row : table.at("need").rows())
    all.room.push_back({row.at("goal").text(), row.at("on").text(), row.at("what").text(),
                        row.at("source").text(), bytes(row, "download"), bytes(row, "installed"),
                        bytes(row, "memory"), bytes(row, "vram")});
}

Compatibility from_json(const Json& json) {
  const Part document(json, "");
  Compatibility all;
  if (const int64_t schema = document.at("schema").number(); schema != 3)
    throw Error(ErrorCode::format,
                fmt::format("the data is of schema {}; this Athanor reads schema 3", schema), {},
                schema > 3 ? "A newer Athanor reads it" : "Take a newer file");
  all.date = document.at("date").day();
  for (const char* name :
       {"cuda", "pytorch", "therock", "xpu", "tensorflow", "jax", "onnxruntime", "rocm", "room"}) {
    const Part table = document.at(name);
    all.origins[name] = {table.at("source").text(), table.at("date").day()};
  }
  read_cuda(all, document.at("cuda"));
  read_torch(all, document.at("pytorch"));
  read_therock(all, document.at("therock"));
  all.oldest_torch_xpu = document.at("xpu").at("oldest_torch").version();
  all.xpu_targets = document.at("xpu").at("targets").names();
  all.tensorflow = frameworks(document.at("tensorflow"));
  read_jax(all, document.at("jax"));
  const Part onnxruntime = document.at("onnxruntime");
  for (const Part& row : onnxruntime.at("release").rows())
    all.onnxruntime.push_back(
        {row.at("version").version(), row.at("cuda").count<uint32_t>(), row.at("cudnn").count<uint32_t>()});
  all.newest_onnxruntime = onnxruntime.at("newest").version();
  read_rocm(all, document.at("rocm"));
  read_room(all, document.at("room"));
  return all;
}

}  // namespace

Compatibility Compatibility::parse(std::string_view toml, const std::string& file) {
  try {
    return from_json(parse_toml(toml, file));
  } catch (const Error& error) {
    const Error there = error.at(file);
    if (!there.hint().empty()) throw Error(there);
    throw Error(there.code(), there.problem(), there.where(),
                "Take a whole file, of the form of data/compatibility.toml");
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::format, error.what(), file);
  }
}

std::optional<int64_t> Compatibility::age_in_days(int64_t now) const {
  const auto day = Part::day_number(date);
  const int64_t today = now / 86400;
  return day && today >= *day ? std::optional(today - *day) : std::nullopt;
}

}  // namespace athanor::doctor
