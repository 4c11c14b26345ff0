#include "athanor/kernels/cache.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <sstream>
#include <thread>

#include "athanor/base/clock.h"
#include "athanor/base/error.h"
#include "athanor/base/sqlite.h"

namespace athanor {
namespace {

// Of what the tables hold, and of what generated sources rely on: a new one starts afresh.
constexpr int schema = 3;

std::filesystem::path variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::filesystem::path user_folder() {
  if (const auto folder = variable("XDG_CACHE_HOME"); !folder.empty()) return folder / "athanor";
  if (const auto home = variable("HOME"); !home.empty()) return home / ".cache" / "athanor";
  return {};
}

std::filesystem::path cache_file() {
  auto folder = variable("ATHANOR_CACHE");
  if (folder.empty()) folder = user_folder();
  return folder.empty() ? folder : folder / "athanor.db";
}

std::atomic<int64_t> compiled{0};

uint64_t fnv1a(const std::string& text, uint64_t hash) {
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3ULL;
  return hash;
}

}  // namespace

int64_t compilations() { return compiled; }
void count_compilation() { ++compiled; }

KernelCache& KernelCache::instance() {
  static KernelCache cache;
  return cache;
}

KernelCache::KernelCache() : file_(cache_file()) {}

bool KernelCache::open() {
  if (tried_) return database_ != nullptr;
  tried_ = true;
  if (file_.empty()) return false;
  database_ = open_database(file_);
  if (database_ == nullptr) return false;
  int version = 0;
  if (SqlStatement statement(database_, "PRAGMA user_version"); statement.step())
    version = static_cast<int>(statement.integer(0));
  std::string setup = "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;";
  if (version != schema)
    setup +=
        "DROP TABLE IF EXISTS winners; DROP TABLE IF EXISTS marks; DROP TABLE IF EXISTS binaries;"
        "DROP TABLE IF EXISTS peaks;";
  setup += fmt::format(
      "CREATE TABLE IF NOT EXISTS winners(key BLOB PRIMARY KEY, winner BLOB, seconds REAL, candidates BLOB, "
      "times BLOB, spread REAL, disturbed INTEGER, bucket BLOB, work REAL);"
      "CREATE INDEX IF NOT EXISTS alike ON winners(bucket);"
      "CREATE TABLE IF NOT EXISTS peaks(environment BLOB PRIMARY KEY, flops REAL, bytes REAL, problems "
      "INTEGER);"
      "CREATE TABLE IF NOT EXISTS marks(key BLOB, candidate BLOB, PRIMARY KEY(key, candidate));"
      "CREATE TABLE IF NOT EXISTS binaries(key BLOB PRIMARY KEY, device BLOB, kernel BLOB, content BLOB);"
      "PRAGMA user_version={};",
      schema);
  run_sql(database_, setup);
  return true;
}

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
  if (!statement.bind_bytes(key).step()) return {};
  return winner_in(statement);
}

std::vector<std::pair<std::string, KernelCache::Winner>> KernelCache::find_alike(const std::string& bucket) {
  const std::scoped_lock lock(mutex_);
  std::vector<std::pair<std::string, Winner>> all;
  if (!open()) return all;
  SqlStatement statement(database_, "SELECT * FROM winners WHERE bucket=? ORDER BY key");
  for (statement.bind_bytes(bucket); statement.step();)
    all.emplace_back(statement.text(0), winner_in(statement));
  return all;
}

void KernelCache::store_winner(const std::string& key, const Winner& winner) {
  const std::scoped_lock lock(mutex_);
  std::string times;
  for (const auto& [name, seconds] : winner.times) times += fmt::format("{} {}\n", seconds, name);
  if (open())
    SqlStatement(database_, "INSERT OR REPLACE INTO winners VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)")
        .bind_bytes(key)
        .bind_bytes(winner.name)
        .bind(winner.seconds)
        .bind_bytes(winner.candidates)
        .bind_bytes(times)
        .bind(winner.spread)
        .bind(int64_t{winner.disturbed})
        .bind_bytes(winner.bucket)
        .bind(winner.work)
        .step();
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
  if (!statement.bind_bytes(environment).step()) return {};
  return {statement.real(0), statement.real(1), statement.integer(2)};
}

void KernelCache::raise_peak(const std::string& environment, double flops_per_second,
                             double bytes_per_second) {
  const std::scoped_lock lock(mutex_);
  if (open())
    SqlStatement(database_,
                 "INSERT INTO peaks VALUES(?, ?, ?, 1) ON CONFLICT(environment) DO UPDATE SET "
                 "flops=max(flops, excluded.flops), bytes=max(bytes, excluded.bytes), problems=problems+1")
        .bind_bytes(environment)
        .bind(flops_per_second)
        .bind(bytes_per_second)
        .step();
}

bool KernelCache::is_marked(const std::string& key, const std::string& candidate) {
  const std::scoped_lock lock(mutex_);
  return open() && SqlStatement(database_, "SELECT 1 FROM marks WHERE key=? AND candidate=?")
                       .bind_bytes(key)
                       .bind_bytes(candidate)
                       .step();
}

void KernelCache::mark(const std::string& key, const std::string& candidate) {
  const std::scoped_lock lock(mutex_);
  if (open())
    SqlStatement(database_, "INSERT OR REPLACE INTO marks VALUES(?, ?)")
        .bind_bytes(key)
        .bind_bytes(candidate)
        .step();
}

void KernelCache::unmark(const std::string& key, const std::string& candidate) {
  const std::scoped_lock lock(mutex_);
  if (open())
    SqlStatement(database_, "DELETE FROM marks WHERE key=? AND candidate=?")
        .bind_bytes(key)
        .bind_bytes(candidate)
        .step();
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
  SqlStatement statement(database_, "SELECT content FROM binaries WHERE key=?");
  return statement.bind_bytes(key).step() ? statement.text(0) : std::string();
}

void KernelCache::store_binary(const std::string& key, const std::string& device, const std::string& kernel,
                               const std::string& binary) {
  const std::scoped_lock lock(mutex_);
  if (!binary.empty() && open())
    SqlStatement(database_, "INSERT OR REPLACE INTO binaries VALUES(?, ?, ?, ?)")
        .bind_bytes(key)
        .bind_bytes(device)
        .bind_bytes(kernel)
        .bind_bytes(binary)
        .step();
}

std::optional<os::Lock> KernelCache::turn_to_compile(const std::string& key) {
  constexpr std::chrono::milliseconds patience{60'000}, pause{5};
  constexpr uint64_t files = 64;  // kernels that share one only wait for each other
  const auto folder = user_folder() / "compiling";
  if (folder.is_relative()) return std::nullopt;
  try {
    std::filesystem::create_directories(folder);
    const auto file = folder / std::to_string(fnv1a(key, 0) % files);
    for (const auto start = Clock::now(); Clock::now() - start < patience; std::this_thread::sleep_for(pause))
      if (auto lock = os::Lock::take(file)) return lock;
  } catch (const std::exception&) {  // a folder that may not be written: all goes on without turns
  }
  return std::nullopt;
}

std::vector<KernelCache::Entry> KernelCache::entries() {
  const std::scoped_lock lock(mutex_);
  std::vector<Entry> all;
  if (!open()) return all;
  for (SqlStatement s(database_, "SELECT key, winner, seconds, disturbed FROM winners ORDER BY key");
       s.step();)
    all.push_back({"winner", s.text(0), s.text(1), 0, s.real(2), s.integer(3) > 0});
  for (SqlStatement s(database_, "SELECT key, candidate FROM marks ORDER BY key"); s.step();)
    all.push_back({"marked", s.text(0), s.text(1), 0, 0});
  for (SqlStatement s(database_,
                      "SELECT device, kernel, length(content) FROM binaries ORDER BY device, kernel");
       s.step();)
    all.push_back({"binary", s.text(0), s.text(1), s.integer(2), 0});
  return all;
}

void KernelCache::clear() {
  const std::scoped_lock lock(mutex_);
  if (open())
    run_sql(database_,
            "DELETE FROM winners; DELETE FROM marks; DELETE FROM binaries; DELETE FROM peaks; VACUUM;");
}

void KernelCache::export_to(const std::filesystem::path& path) {
  const std::scoped_lock lock(mutex_);
  if (!open()) throw Error(ErrorCode::io, "there is no cache to export", file_.string());
  if (std::filesystem::exists(path))
    throw Error(ErrorCode::io, "the file is there already", path.string(), "Give another name, or delete it");
  if (!SqlStatement(database_, "VACUUM INTO ?").bind(path.string()).run())
    throw Error(ErrorCode::io, std::string("cannot write the file: ") + sqlite3_errmsg(database_),
                path.string());
}

void KernelCache::import_from(const std::filesystem::path& path) {
  const std::scoped_lock lock(mutex_);
  if (!std::filesystem::is_regular_file(path))
    throw Error(ErrorCode::io, "there is no such file", path.string());
  if (!open()) throw Error(ErrorCode::io, "the cache cannot be opened", file_.string());
  const bool attached = SqlStatement(database_, "ATTACH ? AS other").bind(path.string()).run();
  int64_t version = -1;
  if (attached)
    if (SqlStatement s(database_, "PRAGMA other.user_version"); s.step()) version = s.integer(0);
  const bool imported = attached && version == schema &&
                        run_sql(database_,
                                "BEGIN; INSERT OR REPLACE INTO winners SELECT * FROM other.winners;"
                                "INSERT OR REPLACE INTO marks SELECT * FROM other.marks;"
                                "INSERT OR REPLACE INTO binaries SELECT * FROM other.binaries; COMMIT;");
  if (!imported) run_sql(database_, "ROLLBACK");
  run_sql(database_, "DETACH other");
  if (!imported)
    throw Error(ErrorCode::format, "this is not an exported cache of this version of Athanor", path.string(),
                "Make one with: athanor cache export FILE");
}

}  // namespace athanor
