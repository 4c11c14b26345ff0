// What the cache stores and finds.
#include "athanor/kernels/cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <sstream>
#include <utility>

#include "athanor/base/os/system.h"
#include "athanor/base/sqlite.h"

namespace athanor {
namespace {

std::atomic<int64_t> compiled{0};

uint64_t fnv1a(const std::string& text, uint64_t hash) {
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3ULL;
  return hash;
}

}  // namespace

int64_t compilations() { return compiled; }
void count_compilation() { ++compiled; }

namespace {

KernelCache::Winner winner_in(SqlStatement& row) {
  KernelCache::Winner winner{.name = row.text(1),
                             .seconds = row.real(2),
                             .candidates = row.text(3),
                             .times = {},
                             .spread = row.real(5),
                             .disturbed = static_cast<int>(row.integer(6)),
                             .bucket = row.text(7),
                             .work = row.real(8)};
  std::istringstream lines(row.text(4));
  double seconds = 0;
  for (std::string name; lines >> seconds && lines.get() && std::getline(lines, name);)
    winner.times.emplace_back(name, seconds);
  return winner;
}

}  // namespace

std::optional<KernelCache::Winner> KernelCache::find_winner(const std::string& key) {
  const std::scoped_lock lock(mutex_);
  if (!open()) return {};
  SqlStatement statement(database_, "SELECT * FROM winners WHERE key=?");
  if (!statement.bind_bytes(key).step()) return look_for_trouble(false), std::nullopt;
  return winner_in(statement);
}

std::vector<std::pair<std::string, KernelCache::Winner>> KernelCache::find_alike(const std::string& bucket) {
  const std::scoped_lock lock(mutex_);
  std::vector<std::pair<std::string, Winner>> all;
  if (!open()) return all;
  SqlStatement statement(database_, "SELECT * FROM winners WHERE bucket=? ORDER BY key");
  for (statement.bind_bytes(bucket); statement.step();)
    all.emplace_back(statement.text(0), winner_in(statement));
  look_for_trouble(false);
  return all;
}

std::vector<std::pair<std::string, KernelCache::Winner>> KernelCache::find_elsewhere(
    const std::string& device, const std::string& request) {
  const std::scoped_lock lock(mutex_);
  std::vector<std::pair<std::string, Winner>> all;
  if (!open()) return all;
  SqlStatement statement(database_,
                         "SELECT * FROM winners WHERE key>? AND key<? AND substr(key, ?)=? ORDER BY key");
  const std::string end = "|" + request;  // "}" comes after "|"
  statement.bind_bytes(device + "|").bind_bytes(device + "}").bind(-static_cast<int64_t>(end.size()));
  for (statement.bind_bytes(end); statement.step();)
    all.emplace_back(statement.text(0), winner_in(statement));
  look_for_trouble(false);
  return all;
}

void KernelCache::store_winner(const std::string& key, const Winner& winner) {
  const std::scoped_lock lock(mutex_);
  std::string times;
  for (const auto& [name, seconds] : winner.times) times += fmt::format("{} {}\n", seconds, name);
  if (open_for_writing())
    wrote(SqlStatement(database_, "INSERT OR REPLACE INTO winners VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)")
              .bind_bytes(key)
              .bind_bytes(winner.name)
              .bind(winner.seconds)
              .bind_bytes(winner.candidates)
              .bind_bytes(times)
              .bind(winner.spread)
              .bind(int64_t{winner.disturbed})
              .bind_bytes(winner.bucket)
              .bind(winner.work)
              .run());
}

double KernelCache::Peak::least_seconds(double flops, double bytes) const {
  constexpr int64_t enough = 8;
  if (problems < enough || flops_per_second <= 0 || bytes_per_second <= 0) return 0;
  return std::max(flops / flops_per_second, bytes / bytes_per_second);
}

KernelCache::Peak KernelCache::find_peak(const std::string& environment) {
  const std::scoped_lock lock(mutex_);
  if (!open()) return {};
  SqlStatement statement(database_, "SELECT flops, bytes, problems FROM peaks WHERE environment=?");
  if (!statement.bind_bytes(environment).step()) return look_for_trouble(false), Peak();
  return {statement.real(0), statement.real(1), statement.integer(2)};
}

void KernelCache::raise_peak(const std::string& environment, double flops_per_second,
                             double bytes_per_second) {
  const std::scoped_lock lock(mutex_);
  if (open_for_writing())
    wrote(SqlStatement(
              database_,
              "INSERT INTO peaks VALUES(?, ?, ?, 1) ON CONFLICT(environment) DO UPDATE SET "
              "flops=max(flops, excluded.flops), bytes=max(bytes, excluded.bytes), problems=problems+1")
              .bind_bytes(environment)
              .bind(flops_per_second)
              .bind(bytes_per_second)
              .run());
}

bool KernelCache::is_marked(const std::string& key, const std::string& candidate) {
  const std::scoped_lock lock(mutex_);
  if (!open()) return false;
  SqlStatement statement(database_,
                         "SELECT 1 FROM marks WHERE key=? AND candidate=? AND NOT is_running(process)");
  const bool found = statement.bind_bytes(key).bind_bytes(candidate).step();
  if (!found) look_for_trouble(false);
  return found;
}

void KernelCache::mark(const std::string& key, const std::string& candidate) {
  const std::scoped_lock lock(mutex_);
  if (open_for_writing())
    wrote(SqlStatement(database_, "INSERT OR REPLACE INTO marks VALUES(?, ?, ?)")
              .bind_bytes(key)
              .bind_bytes(candidate)
              .bind_bytes(os::process_identity())
              .run());
}

void KernelCache::unmark(const std::string& key, const std::string& candidate) {
  const std::scoped_lock lock(mutex_);
  if (open_for_writing())
    wrote(SqlStatement(
              database_,
              "DELETE FROM marks WHERE key=? AND candidate=? AND (process=? OR NOT is_running(process))")
              .bind_bytes(key)
              .bind_bytes(candidate)
              .bind_bytes(os::process_identity())
              .run());
}

std::optional<KernelCache::Verdict> KernelCache::find_verdict(const std::string& key) {
  const std::scoped_lock lock(mutex_);
  if (!open()) return {};
  SqlStatement statement(database_, "SELECT wrong, checks, seconds FROM examinations WHERE key=?");
  if (!statement.bind_bytes(key).step()) return look_for_trouble(false), std::nullopt;
  Verdict found{{}, statement.integer(1), statement.real(2)};
  std::istringstream lines(statement.text(0));
  for (std::string line; std::getline(lines, line);) found.wrong.push_back(line);
  return found;
}

void KernelCache::store_verdict(const std::string& key, const Verdict& verdict) {
  const std::scoped_lock lock(mutex_);
  std::string wrong;
  for (std::string line : verdict.wrong) {
    std::replace(line.begin(), line.end(), '\n', ' ');
    wrong += line + '\n';
  }
  if (open_for_writing())
    wrote(SqlStatement(database_, "INSERT OR REPLACE INTO examinations VALUES(?, ?, ?, ?)")
              .bind_bytes(key)
              .bind_bytes(wrong)
              .bind(verdict.checks)
              .bind(verdict.seconds)
              .run());
}

bool KernelCache::is_checked(const std::string& key) {
  const std::scoped_lock lock(mutex_);
  return open() &&
         SqlStatement(database_, "SELECT 1 FROM checked_loops WHERE key=?").bind_bytes(hash(key)).step();
}

void KernelCache::store_checked(const std::string& key) {
  const std::scoped_lock lock(mutex_);
  if (open_for_writing())
    wrote(SqlStatement(database_, "INSERT OR REPLACE INTO checked_loops VALUES(?)")
              .bind_bytes(hash(key))
              .run());
}

std::string KernelCache::hash(const std::string& text) {
  return fmt::format("{:016x}{:016x}", fnv1a(text, 0xCBF29CE484222325ULL),
                     fnv1a(text, 0x84222325CBF29CE4ULL));
}

std::string KernelCache::binary_key(const std::string& environment, const std::string& source) {
  return hash(environment + '\0' + source);
}

std::string KernelCache::find_binary(const std::string& key) {
  const std::scoped_lock lock(mutex_);
  if (!open()) return {};
  bool damaged = false;
  {
    SqlStatement statement(database_, "SELECT content, sum FROM binaries WHERE key=?");
    if (statement.bind_bytes(key).step()) {
      std::string binary = statement.text(0);
      if (hash(binary) == statement.text(1)) return binary;
      damaged = true;
    }
  }
  // SQLite does not detect a flipped bit, and a driver may do anything with a damaged kernel.
  if (damaged && SqlStatement(database_, "DELETE FROM binaries WHERE key=?").bind_bytes(key).run())
    note("held a damaged kernel: it is compiled anew");
  look_for_trouble(false);
  return {};
}

void KernelCache::store_binary(const std::string& key, const std::string& device, const std::string& kernel,
                               const std::string& binary) {
  const std::scoped_lock lock(mutex_);
  if (!binary.empty() && open_for_writing())
    wrote(SqlStatement(database_, "INSERT OR REPLACE INTO binaries VALUES(?, ?, ?, ?, ?)")
              .bind_bytes(key)
              .bind_bytes(device)
              .bind_bytes(kernel)
              .bind_bytes(binary)
              .bind_bytes(hash(binary))
              .run());
}

std::optional<KernelCache::Part> KernelCache::find_part(const std::string& key) {
  const std::scoped_lock lock(mutex_);
  if (!open()) return {};
  SqlStatement statement(database_, "SELECT program, name FROM parts WHERE key=?");
  if (!statement.bind_bytes(key).step()) return look_for_trouble(false), std::nullopt;
  return Part{statement.text(0), statement.text(1)};
}

void KernelCache::store_part(const std::string& key, const Part& part) {
  const std::scoped_lock lock(mutex_);
  if (open_for_writing())
    wrote(SqlStatement(database_, "INSERT OR REPLACE INTO parts VALUES(?, ?, ?)")
              .bind_bytes(key)
              .bind_bytes(part.program)
              .bind_bytes(part.name)
              .run());
}

bool KernelCache::has_binary(const std::string& key) {
  const std::scoped_lock lock(mutex_);
  return open() && SqlStatement(database_,
                                "SELECT 1 FROM binaries WHERE key=?1 OR key=(SELECT program FROM parts "
                                "WHERE parts.key=?1)")
                       .bind_bytes(key)
                       .step();
}

std::vector<KernelCache::Entry> KernelCache::entries() {
  const std::scoped_lock lock(mutex_);
  std::vector<Entry> all;
  if (!open()) return all;
  for (SqlStatement s(database_, "SELECT key, winner, seconds, disturbed, spread FROM winners ORDER BY key");
       s.step();)
    all.push_back({"winner", s.text(0), s.text(1), 0, s.real(2), s.integer(3) > 0, s.real(4)});
  for (SqlStatement s(database_,
                      "SELECT DISTINCT key, candidate FROM marks WHERE NOT is_running(process) ORDER BY key");
       s.step();)
    all.push_back({"marked", s.text(0), s.text(1), 0, 0});
  for (SqlStatement s(database_, "SELECT key, wrong, seconds FROM examinations ORDER BY key"); s.step();)
    all.push_back({"examined", s.text(0), s.text(1), 0, s.real(2)});
  for (SqlStatement s(database_,
                      "SELECT device, kernel, length(content) FROM binaries ORDER BY device, kernel");
       s.step();)
    all.push_back({"binary", s.text(0), s.text(1), s.integer(2), 0});
  return all;
}

}  // namespace athanor
