// The cache's file: where it is, opening and mending it, turns with other processes, copying it.
#include "athanor/kernels/cache.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <cstdlib>
#include <thread>
#include <utility>

#include "athanor/base/clock.h"
#include "athanor/base/error.h"
#include "athanor/base/file.h"
#include "athanor/base/os/interrupt.h"
#include "athanor/base/os/system.h"
#include "athanor/base/sqlite.h"
#include "athanor/kernels/watchdog.h"

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

/// Removes a file at the end of the scope.
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

// The SQL function that tells marks of processes that have ended from those of processes that run.
void add_is_running(sqlite3* database) {
  const auto answer = [](sqlite3_context* context, int, sqlite3_value** values) {
    const void* bytes = sqlite3_value_blob(values[0]);
    const auto size = static_cast<size_t>(sqlite3_value_bytes(values[0]));
    const std::string process = bytes == nullptr ? "" : std::string(static_cast<const char*>(bytes), size);
    sqlite3_result_int(context, os::is_running(process) ? 1 : 0);
  };
  sqlite3_create_function(database, "is_running", 1, SQLITE_UTF8, nullptr, answer, nullptr, nullptr);
}

// The tables of a new file; those of an earlier version are dropped.
std::string make_tables() {
  return fmt::format(
      "BEGIN IMMEDIATE;"
      "DROP TABLE IF EXISTS winners; DROP TABLE IF EXISTS marks; DROP TABLE IF EXISTS binaries;"
      "DROP TABLE IF EXISTS peaks; DROP TABLE IF EXISTS examinations; DROP TABLE IF EXISTS checked_loops;"
      "DROP TABLE IF EXISTS parts;"
      "CREATE TABLE winners(key BLOB PRIMARY KEY, winner BLOB, seconds REAL, candidates BLOB, times BLOB, "
      "spread REAL, disturbed INTEGER, bucket BLOB, work REAL);"
      "CREATE INDEX alike ON winners(bucket);"
      "CREATE TABLE peaks(environment BLOB PRIMARY KEY, flops REAL, bytes REAL, problems INTEGER);"
      "CREATE TABLE marks(key BLOB, candidate BLOB, process BLOB, PRIMARY KEY(key, candidate, process));"
      "CREATE TABLE examinations(key BLOB PRIMARY KEY, wrong BLOB, checks INTEGER, seconds REAL);"
      "CREATE TABLE checked_loops(key BLOB PRIMARY KEY);"
      "CREATE TABLE binaries(key BLOB PRIMARY KEY, device BLOB, kernel BLOB, content BLOB, sum BLOB);"
      "CREATE TABLE parts(key BLOB PRIMARY KEY, program BLOB, name BLOB);"
      "PRAGMA user_version={}; COMMIT;",
      KernelCache::schema);
}

}  // namespace

KernelCache& KernelCache::instance() {
  static KernelCache cache;
  return cache;
}

KernelCache::KernelCache() : file_(cache_file()) {}

void KernelCache::note(const std::string& what) const {
  fmt::print(stderr, "athanor: note: the cache{} {}\n", file_.empty() ? "" : " " + file_.string(), what);
}

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
  if (!is_database_head(database_head_of(file_))) {
    damage = "its head is not a database's";
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
  add_is_running(database_);
  // If other processes use the file now, its journal stays as it was.
  sqlite3_exec(database_, "PRAGMA synchronous=NORMAL; PRAGMA journal_mode=WAL", nullptr, nullptr, nullptr);
  return true;
}

void KernelCache::leave_damaged() {
  const std::scoped_lock lock(mutex_);
  leaves_damaged_ = true;
}

bool KernelCache::move_aside(const std::string& damage) {
  if (leaves_damaged_) give_up(fmt::format("is damaged ({}) and not used", damage));
  if (moved_aside_ || leaves_damaged_) return false;
  moved_aside_ = true;
  try {
    // If several processes see the damage, one moves the file; the others must not move the new file.
    const std::filesystem::path mark = file_.string() + ".moving";
    const auto turn = os::Lock::take(mark);
    if (!turn) {
      give_up("is damaged and is being moved aside by another process");
      return false;
    }
    const RemovedAtEnd removed(mark);
    const bool is_one = is_database_head(database_head_of(file_));
    sqlite3* again = open_database(file_);
    const bool whole = is_one && again != nullptr && find_damage(again).empty();
    close_database(again);
    if (whole) return true;
    const std::string aside = file_.string() + ".damaged";
    for (const char* part : {"-wal", "-shm"}) {
      std::error_code missing;
      std::filesystem::rename(file_.string() + part, aside + part, missing);
    }
    std::filesystem::rename(file_, aside);
    note(fmt::format("is damaged ({}). It is moved to {}: kernels are tuned and compiled anew", damage,
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
    note(fmt::format("{}: what this process finds out is not remembered",
                     trouble.kind == Kind::locked ? "is locked by another program"
                                                  : fmt::format("cannot be written ({})", trouble.reason)));
  } else if (trouble.kind == Kind::locked) {
    give_up("is locked by another program");
  }
}

void KernelCache::give_up(const std::string& why) {
  close_database(std::exchange(database_, nullptr));
  trouble_ = why;
  note(fmt::format("{}: nothing is remembered by this process{}", why,
                   file_.empty() ? "" : " (ATHANOR_CACHE names another folder)"));
}

namespace {

// Waits for the lock file of a key in a folder. Returns none, and callers continue without a turn, if the
// folder cannot be written or `patience` is over.
std::optional<os::Lock> turn_in(const std::filesystem::path& folder, const std::string& key,
                                std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds pause{5};
  if (folder.is_relative()) return std::nullopt;
  try {
    std::filesystem::create_directories(folder);
    const Watchdog::Pause waits;  // the process that is waited for may be stopped
    const std::string name = KernelCache::hash(key);
    // Keys that share a file wait for each other. So a turn that is waited for while another is held needs a
    // folder of its own.
    const auto file = folder / name.substr(name.size() - 2);
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

std::optional<os::Lock> KernelCache::turn_to_try(const std::string& key) {
  if (!why_unused().empty()) return std::nullopt;
  return turn_in(file_.parent_path() / "trying", key, std::chrono::minutes(10));
}

void KernelCache::clear() {
  const std::scoped_lock lock(mutex_);
  if (file_.empty()) return;
  if (!open()) throw Error(ErrorCode::io, "the cache cannot be cleared: it " + trouble_, file_.string());
  if (!run_sql(database_,
               "DELETE FROM winners; DELETE FROM marks; DELETE FROM binaries; DELETE FROM peaks;"
               "DELETE FROM examinations; DELETE FROM checked_loops; DELETE FROM parts; VACUUM;"))
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
  std::filesystem::remove(temporary, ignored);  // left by an export that was killed
  if (!SqlStatement(database_, "VACUUM INTO ?").bind(temporary.string()).run()) {
    const std::string said = sqlite3_errmsg(database_);
    std::error_code reason(sqlite3_system_errno(database_), std::generic_category());
    if (sqlite3_errcode(database_) == SQLITE_FULL) reason = make_error_code(std::errc::no_space_on_device);
    std::filesystem::remove(temporary, ignored);
    if (reason) throw file_error("write", path, reason, std::filesystem::file_size(file_, ignored));
    throw Error(ErrorCode::io, "cannot write the file: " + said, path.string());
  }
  if (SqlStatement(database_, "ATTACH ? AS copy").bind(temporary.string()).run()) {
    run_sql(database_, "DELETE FROM copy.marks WHERE is_running(process)");
    run_sql(database_, "DETACH copy");
  }
  os::replace_file(temporary, path);
}

}  // namespace athanor
