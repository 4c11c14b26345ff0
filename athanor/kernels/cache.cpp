#include "athanor/kernels/cache.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <sstream>
#include <thread>
#include <utility>

#include "athanor/base/clock.h"
#include "athanor/base/error.h"
#include "athanor/base/file.h"
#include "athanor/base/os/interrupt.h"
#include "athanor/base/sqlite.h"

namespace athanor {
namespace {

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

/// A file that goes with the scope.
class RemovedAtEnd {
 public:
  explicit RemovedAtEnd(std::filesystem::path file) : file_(std::move(file)) {}
  ~RemovedAtEnd() {
    std::error_code ignored;
    std::filesystem::remove(file_, ignored);
  }
  RemovedAtEnd(const RemovedAtEnd&) = delete;
  RemovedAtEnd& operator=(const RemovedAtEnd&) = delete;

 private:
  std::filesystem::path file_;
};

// Checking reads all of the file: a larger one is found to be damaged when the damaged part is read.
constexpr uintmax_t most_checked_bytes = uintmax_t{8} << 20;

// Of a new file, or one of an earlier version.
std::string make_tables() {
  return fmt::format(
      "BEGIN IMMEDIATE;"
      "DROP TABLE IF EXISTS winners; DROP TABLE IF EXISTS marks; DROP TABLE IF EXISTS binaries;"
      "DROP TABLE IF EXISTS peaks; DROP TABLE IF EXISTS examinations; DROP TABLE IF EXISTS checked_loops;"
      "CREATE TABLE winners(key BLOB PRIMARY KEY, winner BLOB, seconds REAL, candidates BLOB, times BLOB, "
      "spread REAL, disturbed INTEGER, bucket BLOB, work REAL);"
      "CREATE INDEX alike ON winners(bucket);"
      "CREATE TABLE peaks(environment BLOB PRIMARY KEY, flops REAL, bytes REAL, problems INTEGER);"
      "CREATE TABLE marks(key BLOB, candidate BLOB, PRIMARY KEY(key, candidate));"
      "CREATE TABLE examinations(key BLOB PRIMARY KEY, wrong BLOB, checks INTEGER, seconds REAL);"
      "CREATE TABLE checked_loops(key BLOB PRIMARY KEY);"
      "CREATE TABLE binaries(key BLOB PRIMARY KEY, device BLOB, kernel BLOB, content BLOB, sum BLOB);"
      "PRAGMA user_version={}; COMMIT;",
      KernelCache::schema);
}

void say(const std::filesystem::path& file, const std::string& what) {
  fmt::print(stderr, "athanor: note: the cache{} {}\n", file.empty() ? "" : " " + file.string(), what);
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
  if (file_.empty()) {
    give_up("has no place, because neither ATHANOR_CACHE, XDG_CACHE_HOME nor HOME is set");
    return false;
  }
  std::string damage;
  if (prepare_file(damage)) return true;
  if (!damage.empty() && move_aside(damage) && prepare_file(damage)) return true;
  if (trouble_.empty()) give_up(fmt::format("is damaged ({})", damage));
  return false;
}

bool KernelCache::prepare_file(std::string& damage) {
  using Kind = DatabaseTrouble::Kind;
  damage.clear();
  const std::filesystem::path folder = file_.parent_path();
  std::error_code unknown;
  std::filesystem::create_directories(folder, unknown);
  if (!os::made_by_us(folder)) {
    give_up("cannot be used (another user may have made its folder)");
    return false;
  }
  std::string why;
  database_ = open_database(file_, &why);
  if (database_ == nullptr) {
    give_up(fmt::format("cannot be used ({})", why));
    return false;
  }
  const auto version = [&]() -> std::optional<int64_t> {
    SqlStatement statement(database_, "PRAGMA user_version");
    return statement.step() ? std::optional(statement.integer(0)) : std::nullopt;
  }();
  DatabaseTrouble trouble = version ? DatabaseTrouble() : trouble_of(database_);
  if (version && *version > schema) {
    give_up(
        fmt::format("is of a later version of Athanor (its format is {}, this one's {}) and left as it is",
                    *version, schema));
    return false;
  }
  if (const auto bytes = std::filesystem::file_size(file_, unknown);
      version && !unknown && bytes <= most_checked_bytes)
    damage = find_damage(database_);
  if (version && damage.empty() && *version != schema && !run_sql(database_, make_tables())) {
    trouble = trouble_of(database_);
    run_sql(database_, "ROLLBACK");
  }
  if (trouble.kind == Kind::damaged) damage = trouble.reason;
  if (!damage.empty()) {
    close_database(std::exchange(database_, nullptr));
    return false;
  }
  if (trouble.kind != Kind::none) {
    give_up(trouble.kind == Kind::locked ? "is locked by another program"
                                         : fmt::format("cannot be used ({})", trouble.reason));
    return false;
  }
  // The journal stays as it was where others use the file now.
  sqlite3_exec(database_, "PRAGMA synchronous=NORMAL; PRAGMA journal_mode=WAL", nullptr, nullptr, nullptr);
  return true;
}

bool KernelCache::move_aside(const std::string& damage) {
  if (moved_aside_) return false;
  moved_aside_ = true;
  try {
    // Of several processes that see the damage one moves the file; the others must not move the new one.
    const std::filesystem::path mark = file_.string() + ".moving";
    const auto turn = os::Lock::take(mark);
    if (!turn) {
      give_up("is damaged and is being moved aside by another process");
      return false;
    }
    const RemovedAtEnd removed(mark);
    sqlite3* again = open_database(file_);
    const bool whole = again != nullptr && find_damage(again).empty();
    close_database(again);
    if (whole) return true;
    const std::string aside = file_.string() + ".damaged";
    for (const char* part : {"-wal", "-shm"}) {
      std::error_code missing;
      std::filesystem::rename(file_.string() + part, aside + part, missing);
    }
    std::filesystem::rename(file_, aside);
    say(file_, fmt::format("is damaged ({}). It is moved to {}: kernels are tuned and compiled anew", damage,
                           aside));
    return true;
  } catch (const std::exception& error) {
    give_up(fmt::format("is damaged ({}) and cannot be moved aside ({})", damage, error.what()));
    return false;
  }
}

std::string KernelCache::why_unused() {
  const std::scoped_lock lock(mutex_);
  return open() ? "" : trouble_;
}

void KernelCache::wrote(bool done) {
  if (!done) look_for_trouble(true);
}

void KernelCache::look_for_trouble(bool writing) {
  using Kind = DatabaseTrouble::Kind;
  const DatabaseTrouble trouble = trouble_of(database_);
  if (trouble.kind == Kind::none) return;
  if (trouble.kind == Kind::damaged) {
    close_database(std::exchange(database_, nullptr));
    if (moved_aside_)
      give_up(fmt::format("is damaged ({})", trouble.reason));
    else
      tried_ = !move_aside(trouble.reason);
  } else if (writing) {
    writable_ = false;
    say(file_,
        fmt::format("{}: what this process finds out is not remembered",
                    trouble.kind == Kind::locked ? "is locked by another program"
                                                 : fmt::format("cannot be written ({})", trouble.reason)));
  } else if (trouble.kind == Kind::locked) {
    give_up("is locked by another program");
  }
}

void KernelCache::give_up(const std::string& why) {
  close_database(std::exchange(database_, nullptr));
  trouble_ = why;
  say(file_, why + ": nothing is remembered by this process");
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
  SqlStatement statement(database_, "SELECT 1 FROM marks WHERE key=? AND candidate=?");
  const bool found = statement.bind_bytes(key).bind_bytes(candidate).step();
  if (!found) look_for_trouble(false);
  return found;
}

void KernelCache::mark(const std::string& key, const std::string& candidate) {
  const std::scoped_lock lock(mutex_);
  if (open_for_writing())
    wrote(SqlStatement(database_, "INSERT OR REPLACE INTO marks VALUES(?, ?)")
              .bind_bytes(key)
              .bind_bytes(candidate)
              .run());
}

void KernelCache::unmark(const std::string& key, const std::string& candidate) {
  const std::scoped_lock lock(mutex_);
  if (open_for_writing())
    wrote(SqlStatement(database_, "DELETE FROM marks WHERE key=? AND candidate=?")
              .bind_bytes(key)
              .bind_bytes(candidate)
              .run());
}

std::optional<KernelCache::Examination> KernelCache::find_verdict(const std::string& key) {
  const std::scoped_lock lock(mutex_);
  if (!open()) return {};
  SqlStatement statement(database_, "SELECT wrong, checks, seconds FROM examinations WHERE key=?");
  if (!statement.bind_bytes(key).step()) return look_for_trouble(false), std::nullopt;
  Examination found{{}, statement.integer(1), statement.real(2)};
  std::istringstream lines(statement.text(0));
  for (std::string line; std::getline(lines, line);) found.wrong.push_back(line);
  return found;
}

void KernelCache::store_verdict(const std::string& key, const Examination& examination) {
  const std::scoped_lock lock(mutex_);
  std::string wrong;
  for (std::string line : examination.wrong) {
    std::replace(line.begin(), line.end(), '\n', ' ');
    wrong += line + '\n';
  }
  if (open_for_writing())
    wrote(SqlStatement(database_, "INSERT OR REPLACE INTO examinations VALUES(?, ?, ?, ?)")
              .bind_bytes(key)
              .bind_bytes(wrong)
              .bind(examination.checks)
              .bind(examination.seconds)
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
  // SQLite does not see a flipped bit, and a driver may run into anything with it.
  if (damaged && SqlStatement(database_, "DELETE FROM binaries WHERE key=?").bind_bytes(key).run())
    say(file_, "held a damaged kernel: it is compiled anew");
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

namespace {

// Waits for the file of a key in a folder; gives up, for all to go on without turns, where the folder may not
// be written or `patience` is over.
std::optional<os::Lock> turn_in(const std::filesystem::path& folder, const std::string& key,
                                std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds pause{5};
  constexpr uint64_t files = 64;  // keys that share one only wait for each other
  if (folder.is_relative()) return std::nullopt;
  try {
    std::filesystem::create_directories(folder);
    const auto file = folder / std::to_string(fnv1a(key, 0) % files);
    for (const auto start = Clock::now(); Clock::now() - start < patience && interrupt_signal() == 0;
         std::this_thread::sleep_for(pause))
      if (auto lock = os::Lock::take(file)) return lock;
  } catch (const std::exception&) {
  }
  return std::nullopt;
}

}  // namespace

std::optional<os::Lock> KernelCache::turn_to_compile(const std::string& key) {
  return turn_in(user_folder() / "compiling", key, std::chrono::minutes(1));
}

std::optional<os::Lock> KernelCache::turn_to_examine(const std::string& key) {
  if (!why_unused().empty()) return std::nullopt;
  return turn_in(file_.parent_path() / "examining", key, std::chrono::minutes(10));
}

std::vector<KernelCache::Entry> KernelCache::entries() {
  const std::scoped_lock lock(mutex_);
  std::vector<Entry> all;
  if (!open()) return all;
  for (SqlStatement s(database_, "SELECT key, winner, seconds, disturbed, spread FROM winners ORDER BY key");
       s.step();)
    all.push_back({"winner", s.text(0), s.text(1), 0, s.real(2), s.integer(3) > 0, s.real(4)});
  for (SqlStatement s(database_, "SELECT key, candidate FROM marks ORDER BY key"); s.step();)
    all.push_back({"marked", s.text(0), s.text(1), 0, 0});
  for (SqlStatement s(database_, "SELECT key, wrong, seconds FROM examinations ORDER BY key"); s.step();)
    all.push_back({"examined", s.text(0), s.text(1), 0, s.real(2)});
  for (SqlStatement s(database_,
                      "SELECT device, kernel, length(content) FROM binaries ORDER BY device, kernel");
       s.step();)
    all.push_back({"binary", s.text(0), s.text(1), s.integer(2), 0});
  return all;
}

void KernelCache::clear() {
  const std::scoped_lock lock(mutex_);
  if (file_.empty()) return;
  if (!open()) throw Error(ErrorCode::io, "the cache cannot be cleared: it " + trouble_, file_.string());
  if (!run_sql(database_,
               "DELETE FROM winners; DELETE FROM marks; DELETE FROM binaries; DELETE FROM peaks;"
               "DELETE FROM examinations; DELETE FROM checked_loops; VACUUM;"))
    throw Error(ErrorCode::io, fmt::format("the cache cannot be cleared: {}", trouble_of(database_).reason),
                file_.string());
}

void KernelCache::export_to(const std::filesystem::path& path) {
  const std::scoped_lock lock(mutex_);
  if (!open()) throw Error(ErrorCode::io, "there is no cache to export: it " + trouble_, file_.string());
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    throw file_error("write", path, make_error_code(std::errc::is_a_directory));
  if (std::filesystem::exists(path, ignored))
    throw Error(ErrorCode::io, "the file is there already", path.string(), "Give another name");
  const std::filesystem::path temporary = path.string() + ".tmp";
  std::filesystem::remove(temporary, ignored);  // of an export that was killed
  if (!SqlStatement(database_, "VACUUM INTO ?").bind(temporary.string()).run()) {
    const std::string said = sqlite3_errmsg(database_);
    std::error_code reason(sqlite3_system_errno(database_), std::generic_category());
    if (sqlite3_errcode(database_) == SQLITE_FULL) reason = make_error_code(std::errc::no_space_on_device);
    std::filesystem::remove(temporary, ignored);
    if (reason) throw file_error("write", path, reason, std::filesystem::file_size(file_, ignored));
    throw Error(ErrorCode::io, "cannot write the file: " + said, path.string());
  }
  os::replace_file(temporary, path);
}

void KernelCache::import_from(const std::filesystem::path& path) {
  const std::scoped_lock lock(mutex_);
  static_cast<void>(open_to_read(path));  // says why not
  if (!open()) throw Error(ErrorCode::io, "the cache cannot be filled: it " + trouble_, file_.string());
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
    throw Error(ErrorCode::format, "this is no cache that this version of Athanor exported, or it is damaged",
                path.string(), "Make one with: athanor cache export FILE");
}

}  // namespace athanor
