#include "athanor/kernels/cache.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <atomic>
#include <cstdlib>
#include <sstream>

#include "athanor/base/error.h"

namespace athanor {
namespace {

// Of what the tables hold, and of what generated sources rely on: a new one starts afresh.
constexpr int schema = 2;

std::filesystem::path cache_file() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::filesystem::path(value == nullptr ? "" : value);
  };
  if (const auto folder = variable("ATHANOR_CACHE"); !folder.empty()) return folder / "athanor.db";
  if (const auto folder = variable("XDG_CACHE_HOME"); !folder.empty())
    return folder / "athanor" / "athanor.db";
  if (const auto home = variable("HOME"); !home.empty()) return home / ".cache" / "athanor" / "athanor.db";
  return {};
}

std::atomic<int64_t> compiled{0};

uint64_t fnv1a(const std::string& text, uint64_t hash) {
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3ULL;
  return hash;
}

}  // namespace

int64_t compilations() { return compiled; }
void count_compilation() { ++compiled; }

/// A prepared statement; one that cannot be prepared or run gives no rows.
class KernelCache::Statement {
 public:
  Statement(sqlite3* database, const char* sql) {
    if (database != nullptr && sqlite3_prepare_v2(database, sql, -1, &statement_, nullptr) != SQLITE_OK)
      statement_ = nullptr;
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& bind(const std::string& text) {
    // Binaries hold zeros, which text may not.
    if (statement_ != nullptr)
      sqlite3_bind_blob64(statement_, ++bound_, text.data(), text.size(), SQLITE_TRANSIENT);
    return *this;
  }
  Statement& bind(double number) {
    if (statement_ != nullptr) sqlite3_bind_double(statement_, ++bound_, number);
    return *this;
  }
  bool step() { return statement_ != nullptr && sqlite3_step(statement_) == SQLITE_ROW; }
  std::string text(int column) {
    const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement_, column));
    return bytes == nullptr
               ? std::string()
               : std::string(bytes, static_cast<size_t>(sqlite3_column_bytes(statement_, column)));
  }
  double number(int column) { return sqlite3_column_double(statement_, column); }

 private:
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
};

KernelCache& KernelCache::instance() {
  static KernelCache cache;
  return cache;
}

KernelCache::KernelCache() : file_(cache_file()) {}

bool KernelCache::open() {
  if (tried_) return database_ != nullptr;
  tried_ = true;
  if (file_.empty()) return false;
  std::error_code ignored;
  std::filesystem::create_directories(file_.parent_path(), ignored);
  if (sqlite3_open_v2(file_.string().c_str(), &database_,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX,
                      nullptr) != SQLITE_OK) {
    sqlite3_close(database_);
    database_ = nullptr;
    return false;
  }
  sqlite3_busy_timeout(database_, 2000);
  int version = 0;
  if (Statement statement(database_, "PRAGMA user_version"); statement.step())
    version = static_cast<int>(statement.number(0));
  std::string setup = "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;";
  if (version != schema)
    setup +=
        "DROP TABLE IF EXISTS winners; DROP TABLE IF EXISTS marks; DROP TABLE IF EXISTS binaries;"
        "DROP TABLE IF EXISTS peaks;";
  setup += fmt::format(
      "CREATE TABLE IF NOT EXISTS winners(key BLOB PRIMARY KEY, winner BLOB, seconds REAL, candidates BLOB, "
      "times BLOB);"
      "CREATE TABLE IF NOT EXISTS peaks(environment BLOB PRIMARY KEY, flops REAL, bytes REAL, problems "
      "INTEGER);"
      "CREATE TABLE IF NOT EXISTS marks(key BLOB, candidate BLOB, PRIMARY KEY(key, candidate));"
      "CREATE TABLE IF NOT EXISTS binaries(key BLOB PRIMARY KEY, device BLOB, kernel BLOB, content BLOB);"
      "PRAGMA user_version={};",
      schema);
  sqlite3_exec(database_, setup.c_str(), nullptr, nullptr, nullptr);
  return true;
}

std::optional<KernelCache::Winner> KernelCache::find_winner(const std::string& key) {
  const std::scoped_lock lock(mutex_);
  if (!open()) return {};
  Statement statement(database_, "SELECT winner, seconds, candidates, times FROM winners WHERE key=?");
  if (!statement.bind(key).step()) return {};
  Winner winner{statement.text(0), statement.number(1), statement.text(2), {}};
  std::istringstream lines(statement.text(3));
  double seconds = 0;
  for (std::string name; lines >> seconds && lines.get() && std::getline(lines, name);)
    winner.times.emplace_back(name, seconds);
  return winner;
}

void KernelCache::store_winner(const std::string& key, const Winner& winner) {
  const std::scoped_lock lock(mutex_);
  std::string times;
  for (const auto& [name, seconds] : winner.times) times += fmt::format("{} {}\n", seconds, name);
  if (open())
    Statement(database_, "INSERT OR REPLACE INTO winners VALUES(?, ?, ?, ?, ?)")
        .bind(key)
        .bind(winner.name)
        .bind(winner.seconds)
        .bind(winner.candidates)
        .bind(times)
        .step();
}

KernelCache::Peak KernelCache::find_peak(const std::string& environment) {
  const std::scoped_lock lock(mutex_);
  if (!open()) return {};
  Statement statement(database_, "SELECT flops, bytes, problems FROM peaks WHERE environment=?");
  if (!statement.bind(environment).step()) return {};
  return {statement.number(0), statement.number(1), static_cast<int64_t>(statement.number(2))};
}

void KernelCache::raise_peak(const std::string& environment, double flops_per_second,
                             double bytes_per_second) {
  const std::scoped_lock lock(mutex_);
  if (open())
    Statement(database_,
              "INSERT INTO peaks VALUES(?, ?, ?, 1) ON CONFLICT(environment) DO UPDATE SET "
              "flops=max(flops, excluded.flops), bytes=max(bytes, excluded.bytes), problems=problems+1")
        .bind(environment)
        .bind(flops_per_second)
        .bind(bytes_per_second)
        .step();
}

bool KernelCache::is_marked(const std::string& key, const std::string& candidate) {
  const std::scoped_lock lock(mutex_);
  return open() && Statement(database_, "SELECT 1 FROM marks WHERE key=? AND candidate=?")
                       .bind(key)
                       .bind(candidate)
                       .step();
}

void KernelCache::mark(const std::string& key, const std::string& candidate) {
  const std::scoped_lock lock(mutex_);
  if (open())
    Statement(database_, "INSERT OR REPLACE INTO marks VALUES(?, ?)").bind(key).bind(candidate).step();
}

void KernelCache::unmark(const std::string& key, const std::string& candidate) {
  const std::scoped_lock lock(mutex_);
  if (open())
    Statement(database_, "DELETE FROM marks WHERE key=? AND candidate=?").bind(key).bind(candidate).step();
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
  Statement statement(database_, "SELECT content FROM binaries WHERE key=?");
  return statement.bind(key).step() ? statement.text(0) : std::string();
}

void KernelCache::store_binary(const std::string& key, const std::string& device, const std::string& kernel,
                               const std::string& binary) {
  const std::scoped_lock lock(mutex_);
  if (!binary.empty() && open())
    Statement(database_, "INSERT OR REPLACE INTO binaries VALUES(?, ?, ?, ?)")
        .bind(key)
        .bind(device)
        .bind(kernel)
        .bind(binary)
        .step();
}

std::vector<KernelCache::Entry> KernelCache::entries() {
  const std::scoped_lock lock(mutex_);
  std::vector<Entry> all;
  if (!open()) return all;
  for (Statement s(database_, "SELECT key, winner, seconds FROM winners ORDER BY key"); s.step();)
    all.push_back({"winner", s.text(0), s.text(1), 0, s.number(2)});
  for (Statement s(database_, "SELECT key, candidate FROM marks ORDER BY key"); s.step();)
    all.push_back({"marked", s.text(0), s.text(1), 0, 0});
  for (Statement s(database_, "SELECT device, kernel, length(content) FROM binaries ORDER BY device, kernel");
       s.step();)
    all.push_back({"binary", s.text(0), s.text(1), static_cast<int64_t>(s.number(2)), 0});
  return all;
}

void KernelCache::clear() {
  const std::scoped_lock lock(mutex_);
  if (open())
    sqlite3_exec(database_,
                 "DELETE FROM winners; DELETE FROM marks; DELETE FROM binaries; DELETE FROM peaks; VACUUM;",
                 nullptr, nullptr, nullptr);
}

void KernelCache::export_to(const std::filesystem::path& path) {
  const std::scoped_lock lock(mutex_);
  if (!open()) throw Error(ErrorCode::io, "there is no cache to export", file_.string());
  if (std::filesystem::exists(path))
    throw Error(ErrorCode::io, "the file is there already", path.string(), "Give another name, or delete it");
  sqlite3_stmt* statement = nullptr;
  const std::string text = path.string();
  int code = sqlite3_prepare_v2(database_, "VACUUM INTO ?", -1, &statement, nullptr);
  if (code == SQLITE_OK) {
    sqlite3_bind_text(statement, 1, text.c_str(), -1, SQLITE_TRANSIENT);
    code = sqlite3_step(statement);
  }
  sqlite3_finalize(statement);
  if (code != SQLITE_DONE)
    throw Error(ErrorCode::io, std::string("cannot write the file: ") + sqlite3_errmsg(database_), text);
}

void KernelCache::import_from(const std::filesystem::path& path) {
  const std::scoped_lock lock(mutex_);
  if (!std::filesystem::is_regular_file(path))
    throw Error(ErrorCode::io, "there is no such file", path.string());
  if (!open()) throw Error(ErrorCode::io, "the cache cannot be opened", file_.string());
  sqlite3_stmt* statement = nullptr;
  const std::string text = path.string();
  sqlite3_prepare_v2(database_, "ATTACH ? AS other", -1, &statement, nullptr);
  sqlite3_bind_text(statement, 1, text.c_str(), -1, SQLITE_TRANSIENT);
  const int attached = sqlite3_step(statement);
  sqlite3_finalize(statement);
  int version = -1;
  if (attached == SQLITE_DONE)
    if (Statement s(database_, "PRAGMA other.user_version"); s.step())
      version = static_cast<int>(s.number(0));
  const bool right = attached == SQLITE_DONE && version == schema;
  int code = SQLITE_ERROR;
  if (right)
    code = sqlite3_exec(database_,
                        "BEGIN; INSERT OR REPLACE INTO winners SELECT * FROM other.winners;"
                        "INSERT OR REPLACE INTO marks SELECT * FROM other.marks;"
                        "INSERT OR REPLACE INTO binaries SELECT * FROM other.binaries; COMMIT;",
                        nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) sqlite3_exec(database_, "ROLLBACK", nullptr, nullptr, nullptr);
  sqlite3_exec(database_, "DETACH other", nullptr, nullptr, nullptr);
  if (code != SQLITE_OK)
    throw Error(ErrorCode::format, "this is no exported cache of this version of Athanor", text,
                "Make one with: athanor cache export FILE");
}

}  // namespace athanor
