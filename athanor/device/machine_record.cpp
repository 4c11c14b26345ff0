#include "athanor/device/machine_record.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "athanor/base/error.h"
#include "athanor/base/toml.h"

namespace athanor {
namespace {

using nlohmann::json;

class Reader {
 public:
  explicit Reader(const std::string& where) : where_(where) {}

  [[noreturn]] void fail(const std::string& problem) const {
    throw Error(ErrorCode::format, problem, where_, "athanor/device/machine.h describes the file");
  }

  /// A table of `parent`, empty if there is none.
  json table(const json& parent, const char* name) const {
    const auto found = parent.find(name);
    if (found == parent.end()) return json::object();
    if (!found->is_object()) fail(std::string("[") + name + "] should be a table");
    return *found;
  }

  template <class T>
  std::optional<T> number(const json& parent, const char* name) const {
    const auto found = parent.find(name);
    if (found == parent.end()) return std::nullopt;
    if (!found->is_number_integer() || found->get<int64_t>() < 0)
      fail(std::string(name) + " should be a number");
    return static_cast<T>(found->get<int64_t>());
  }

  /// "0660"
  std::optional<uint32_t> mode(const json& parent) const {
    const auto found = parent.find("mode");
    if (found == parent.end()) return std::nullopt;
    uint32_t value = 0;
    const std::string text = found->is_string() ? found->get<std::string>() : "";
    const auto end = std::from_chars(text.data(), text.data() + text.size(), value, 8);
    if (text.empty() || end.ec != std::errc() || end.ptr != text.data() + text.size() || value > 07777)
      fail("mode should be octal, in quotes: \"0660\"");
    return value;
  }

  std::optional<FileStatus::Kind> kind(const json& parent) const {
    const auto found = parent.find("kind");
    if (found == parent.end()) return std::nullopt;
    if (*found == "file") return FileStatus::Kind::file;
    if (*found == "device") return FileStatus::Kind::device;
    fail("kind should be \"file\" or \"device\"");
  }

 private:
  const std::string& where_;
};

}  // namespace

bool lies_under(std::string_view path, std::string_view folder) {
  while (folder.ends_with('/')) folder.remove_suffix(1);
  return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

Machine::Record Machine::Record::parse(std::string_view text, const std::string& where) {
  const json all = parse_toml(text, where);
  const Reader reader(where);
  const json files = reader.table(all, "files"), disks = reader.table(all, "disks"),
             environment = reader.table(all, "environment");
  Record record;
  record.as_json = all.dump(-1, ' ', false, json::error_handler_t::replace);
  for (const auto& [path, facts] : files.items()) {
    if (!facts.is_object()) reader.fail("[files] should have a table for each path");
    record.files[path] = {reader.mode(facts), reader.number<uint32_t>(facts, "uid"),
                          reader.number<uint32_t>(facts, "gid"), reader.kind(facts)};
  }
  for (const auto& [path, facts] : disks.items()) {
    if (!facts.is_object()) reader.fail("[disks] should have a table for each folder");
    const auto read_only = facts.find("read_only");
    record.disks[path] = {reader.number<uint64_t>(facts, "total_bytes").value_or(0),
                          reader.number<uint64_t>(facts, "free_bytes").value_or(0),
                          read_only != facts.end() && *read_only == true};
  }
  for (const auto& [name, value] : environment.items()) {
    if (!value.is_string()) reader.fail("[environment] should have texts");
    record.environment[name] = value;
  }
  record.now = reader.number<int64_t>(reader.table(all, "clock"), "now");
  return record;
}

std::optional<DiskSpace> Machine::Record::disk_of(std::string_view path) const {
  const DiskSpace* best = nullptr;
  size_t length = 0;
  for (const auto& [folder, space] : disks)
    if (lies_under(path, folder) && (best == nullptr || folder.size() > length))
      best = &space, length = folder.size();
  return best == nullptr ? std::nullopt : std::optional(*best);
}

}  // namespace athanor
