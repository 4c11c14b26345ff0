#include "athanor/device/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <deque>

#include "athanor/base/error.h"
#include "athanor/base/os/system.h"
#include "athanor/base/text.h"
#include "athanor/device/machine_record.h"

namespace athanor {
namespace {

namespace fs = std::filesystem;

constexpr int most_links = 40;          // as on Linux
constexpr size_t most_names = 100'000;  // read from a folder
constexpr size_t log_bytes = size_t{4} << 20;

std::optional<uint32_t> id_from(std::string_view text) {
  uint32_t value = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  return !text.empty() && end.ec == std::errc() ? std::optional(value) : std::nullopt;
}

void add_parts(std::deque<std::string>& parts, std::string_view path) {
  const auto names = split(path, '/');
  for (auto name = names.rbegin(); name != names.rend(); ++name)
    if (!name->empty() && *name != ".") parts.emplace_front(*name);
}

// "card2" before "card10".
bool stands_before(const std::string& a, const std::string& b) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (digit(a[i]) && digit(b[j])) {
      size_t i_end = i, j_end = j;
      while (i_end < a.size() && digit(a[i_end])) ++i_end;
      while (j_end < b.size() && digit(b[j_end])) ++j_end;
      while (i < i_end - 1 && a[i] == '0') ++i;
      while (j < j_end - 1 && b[j] == '0') ++j;
      if (i_end - i != j_end - j) return i_end - i < j_end - j;
      if (const int order = a.compare(i, i_end - i, b, j, j_end - j); order != 0) return order < 0;
      i = i_end, j = j_end;
    } else {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i, ++j;
    }
  }
  return a.size() - i != b.size() - j ? a.size() - i < b.size() - j : a < b;
}

FileStatus::Kind kind_of(os::FileFacts::Kind kind) {
  switch (kind) {
    case os::FileFacts::Kind::file:
      return FileStatus::Kind::file;
    case os::FileFacts::Kind::folder:
      return FileStatus::Kind::folder;
    case os::FileFacts::Kind::link:
      return FileStatus::Kind::link;
    case os::FileFacts::Kind::device:
      return FileStatus::Kind::device;
    default:
      return FileStatus::Kind::other;
  }
}

// Adds name and home from the user's line of /etc/passwd, "name:x:1000:1000:...:/home/name:/bin/sh".
void add_account(User& user, std::string_view passwd) {
  for (const std::string& line : split(passwd, '\n')) {
    const auto parts = split(line, ':');
    if (parts.size() < 6 || id_from(parts[2]) != user.uid) continue;
    user.name = parts[0];
    user.home = parts[5];
    return;
  }
}

// The user by the lines Uid, Gid and Groups of /proc/self/status.
User user_from(std::string_view status) {
  User user;
  for (const std::string& line : split(status, '\n')) {
    std::vector<uint32_t> ids;
    std::string words = line;
    std::replace(words.begin(), words.end(), '\t', ' ');
    for (const std::string& word : split(words, ' '))
      if (const auto id = id_from(word)) ids.push_back(*id);
    if (line.starts_with("Uid:") && !ids.empty()) user.uid = ids.size() > 1 ? ids[1] : ids[0];
    if (line.starts_with("Gid:") && !ids.empty()) user.gid = ids.size() > 1 ? ids[1] : ids[0];
    if (line.starts_with("Groups:")) user.groups.insert(ids.begin(), ids.end());
  }
  user.groups.insert(user.gid);
  return user;
}

void add_variables(std::map<std::string, std::string>& environment, const std::vector<std::string>& lines) {
  for (const std::string& line : lines)
    if (const size_t equals = line.find('='); equals != std::string::npos && equals > 0)
      environment[line.substr(0, equals)] = line.substr(equals + 1);
}

}  // namespace

Machine::Machine() : root_("/") {
  add_variables(environment_, os::environment());
  const os::ProcessUser process = os::process_user();
  user_.uid = process.uid;
  user_.gid = process.gid;
  user_.groups = {process.groups.begin(), process.groups.end()};
  user_.groups.insert(process.gid);
  add_account(user_, read("/etc/passwd").value_or(""));
  if (const auto home = environment("HOME"); home && !home->empty()) user_.home = *home;
}

Machine::Machine(fs::path root) : root_(std::move(root)) {
  std::error_code failed;
  if (!fs::is_directory(root_, failed))
    throw Error(ErrorCode::io, "this is not a folder with a recorded machine", root_.string(),
                "It should have sys/, proc/ and the like in it");
  const fs::path facts = root_ / "machine.toml";
  Record record;
  if (const auto text = os::read_some(facts, size_t{1} << 24)) record = Record::parse(*text, facts.string());
  record_ = std::make_shared<const Record>(std::move(record));
  user_ = user_from(read("/proc/self/status").value_or(""));
  add_account(user_, read("/etc/passwd").value_or(""));
  const std::string variables = read_bytes("/proc/self/environ").value_or("");
  const bool lines = variables.find('\0') == std::string::npos;
  add_variables(environment_, split(variables, lines ? '\n' : '\0'));
  for (const auto& [name, value] : record_->environment) environment_[name] = value;
  if (const auto home = environment("HOME"); home && !home->empty()) user_.home = *home;
}

bool Machine::live() const { return record_ == nullptr; }

const std::string& Machine::recorded() const {
  static const std::string nothing = "{}";
  return record_ ? record_->as_json : nothing;
}

fs::path Machine::on_disk(std::string_view resolved) const {
  while (resolved.starts_with('/')) resolved.remove_prefix(1);
  return root_ / fs::path(resolved);
}

std::optional<std::string> Machine::follow(std::string_view path, bool last_too, std::string* stopped) const {
  std::deque<std::string> pending;
  add_parts(pending, path);
  std::string reached;
  for (int links = 0; !pending.empty();) {
    const std::string name = std::move(pending.front());
    pending.pop_front();
    if (name == "..") {
      reached.resize(reached.empty() ? 0 : reached.rfind('/'));
      continue;
    }
    const std::string next = fmt::format("{}/{}", reached, name);
    const auto facts = os::file_facts(on_disk(next));
    if (!facts) {
      if (stopped != nullptr) *stopped = reached.empty() ? "/" : reached;
      return std::nullopt;
    }
    if (facts->kind != os::FileFacts::Kind::link || (pending.empty() && !last_too)) {
      reached = next;
      continue;
    }
    std::error_code failed;
    const std::string target = fs::read_symlink(on_disk(next), failed).string();
    if (failed || ++links > most_links) return std::nullopt;
    if (target.starts_with('/')) reached.clear();
    add_parts(pending, target);
  }
  return reached.empty() ? "/" : reached;
}

std::optional<std::string> Machine::read(std::string_view path, size_t limit) const {
  auto text = read_bytes(path, limit);
  if (text) text->resize(std::min(text->find('\0'), text->size()));
  return text;
}

bool Machine::covers(std::string_view path) const {
  return live() || exists(path.substr(0, path.find('/', 1)));
}

bool Machine::covers_libraries() const { return covers("/usr") || covers("/lib") || covers("/lib64"); }

std::optional<std::string> Machine::read_bytes(std::string_view path, size_t limit) const {
  const auto place = follow(path, true);
  if (!place) return std::nullopt;
  if (record_ && record_->files.contains(*place)) {
    const Access allowed = access(*place);
    if (allowed != Access::read && allowed != Access::read_write) return std::nullopt;
  }
  return os::read_some(on_disk(*place), limit);
}

std::optional<std::string> Machine::read_line(std::string_view path) const {
  const auto text = read(path, 1 << 16);
  return text ? std::optional(trim(*text)) : std::nullopt;
}

std::optional<int64_t> Machine::read_number(std::string_view path) const {
  const auto line = read_line(path);
  if (!line) return std::nullopt;
  const bool hexadecimal = line->starts_with("0x") || line->starts_with("0X");
  const char* const start = line->data() + (hexadecimal ? 2 : 0);
  const char* const end = line->data() + line->size();
  int64_t value = 0;
  const auto parsed = std::from_chars(start, end, value, hexadecimal ? 16 : 10);
  return start != end && parsed.ec == std::errc() && parsed.ptr == end ? std::optional(value) : std::nullopt;
}

std::vector<std::string> Machine::list(std::string_view folder) const {
  std::vector<std::string> names;
  const auto place = follow(folder, true);
  if (!place) return names;
  std::error_code failed;
  for (fs::directory_iterator one(on_disk(*place), failed), end;
       !failed && one != end && names.size() < most_names; one.increment(failed))
    names.push_back(one->path().filename().string());
  std::sort(names.begin(), names.end(), stands_before);
  return names;
}

std::vector<std::string> Machine::glob(std::string_view pattern) const {
  std::vector<std::string> found{""};
  for (const std::string& part : split(pattern, '/')) {
    if (part.empty()) continue;
    std::vector<std::string> next;
    const bool fixed = part.find_first_of("*?") == std::string_view::npos;
    for (const std::string& folder : found) {
      if (fixed) {
        next.push_back(fmt::format("{}/{}", folder, part));
        continue;
      }
      for (const std::string& name : list(folder.empty() ? "/" : folder))
        if (matches_pattern(name, part)) next.push_back(fmt::format("{}/{}", folder, name));
    }
    found = std::move(next);
  }
  std::erase_if(found, [&](const std::string& path) { return path.empty() || !follow(path, false); });
  return found;
}

std::optional<std::string> Machine::link(std::string_view path) const {
  const auto place = follow(path, false);
  std::error_code failed;
  if (!place || !fs::is_symlink(on_disk(*place), failed)) return std::nullopt;
  return fs::read_symlink(on_disk(*place), failed).string();
}

std::optional<std::string> Machine::resolve(std::string_view path) const { return follow(path, true); }

bool Machine::exists(std::string_view path) const { return follow(path, true).has_value(); }

bool Machine::hidden(std::string_view path) const {
  std::string stopped;
  return !follow(path, true, &stopped) && !stopped.empty() && access(stopped) == Access::none;
}

FileStatus Machine::status(std::string_view path) const {
  auto place = follow(path, true);
  if (!place) place = follow(path, false);
  const auto facts = place ? os::file_facts(on_disk(*place)) : std::nullopt;
  if (!facts) return {};
  FileStatus status{kind_of(facts->kind), facts->mode, facts->uid, facts->gid, facts->bytes};
  if (!record_) return status;
  const bool of_user = !user_.home.empty() && user_.home != "/" && lies_under(*place, user_.home);
  status.uid = of_user ? user_.uid : 0;
  status.gid = of_user ? user_.gid : 0;
  if (status.kind == FileStatus::Kind::file && lies_under(*place, "/dev") && !lies_under(*place, "/dev/shm"))
    status.kind = FileStatus::Kind::device;
  if (const auto known = record_->files.find(*place); known != record_->files.end()) {
    status.mode = known->second.mode.value_or(status.mode);
    status.uid = known->second.uid.value_or(status.uid);
    status.gid = known->second.gid.value_or(status.gid);
    status.kind = known->second.kind.value_or(status.kind);
  }
  return status;
}

Access Machine::access(std::string_view path) const {
  const auto place = follow(path, true);
  if (!place) return Access::missing;
  bool read = false, write = false;
  if (!record_) {
    read = os::may_read(on_disk(*place));
    write = os::may_write(on_disk(*place));
  } else {
    const FileStatus file = status(*place);
    const unsigned shift = file.uid == user_.uid ? 6 : user_.groups.contains(file.gid) ? 3 : 0;
    read = user_.uid == 0 || (file.mode >> shift & 4U) != 0;
    write = user_.uid == 0 || (file.mode >> shift & 2U) != 0;
    const auto space = disk(*place);
    if (space && space->read_only && file.kind != FileStatus::Kind::device) write = false;
  }
  return read ? (write ? Access::read_write : Access::read) : write ? Access::write : Access::none;
}

std::string Machine::refusal_of_files(std::string_view folder) const {
  const auto place = follow(folder, true);
  if (!place || status(*place).kind != FileStatus::Kind::folder) return "not a folder";
  if (!record_) {
    const std::error_code refusal = os::refusal_of_files(on_disk(*place));
    return refusal ? refusal.message() : "";
  }
  const Access allowed = access(*place);
  return allowed == Access::write || allowed == Access::read_write ? "" : "not writable";
}

std::optional<DiskSpace> Machine::disk(std::string_view path) const {
  const auto place = follow(path, true);
  if (!place) return std::nullopt;
  if (record_) return record_->disk_of(*place);
  const auto space = os::space(on_disk(*place));
  if (!space) return std::nullopt;
  return DiskSpace{space->total_bytes, space->free_bytes, space->read_only};
}

std::optional<std::string> Machine::environment(const std::string& name) const {
  const auto found = environment_.find(name);
  return found == environment_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<std::string> Machine::environment_names() const {
  std::vector<std::string> names;
  names.reserve(environment_.size());
  for (const auto& [name, value] : environment_) names.push_back(name);
  return names;
}

const User& Machine::user() const { return user_; }

std::string Machine::group_name(uint32_t gid) const {
  const std::string groups = read("/etc/group").value_or("");
  for (const std::string& line : split(groups, '\n')) {
    const auto parts = split(line, ':');
    if (parts.size() >= 3 && id_from(parts[2]) == gid) return parts[0];
  }
  return {};
}

int64_t Machine::now() const {
  if (record_ && record_->now) return *record_->now;
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::optional<std::string> Machine::kernel_log() const {
  if (!record_)
    if (auto messages = os::kernel_messages(log_bytes)) return messages;
  for (const char* path : {"/var/log/dmesg", "/var/log/kern.log", "/var/log/messages", "/var/log/syslog"}) {
    const auto place = follow(path, true);
    const Access allowed = access(path);
    if (!place || (allowed != Access::read && allowed != Access::read_write)) continue;
    if (auto text = os::read_some(on_disk(*place), log_bytes, true)) return text;
  }
  return std::nullopt;
}

}  // namespace athanor
