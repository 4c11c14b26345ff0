// Adding the contents of another cache's file.
#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <string_view>

#include "athanor/base/error.h"
#include "athanor/base/file.h"
#include "athanor/base/sqlite.h"
#include "athanor/kernels/cache.h"

namespace athanor {
namespace {

constexpr const char* make_one = "Make one with: athanor cache export FILE";

// The SQL function that tells whole compiled kernels from damaged ones.
void add_is_whole(sqlite3* database) {
  const auto answer = [](sqlite3_context* context, int, sqlite3_value** values) {
    const auto text = [](sqlite3_value* value) {
      const auto* bytes = static_cast<const char*>(sqlite3_value_blob(value));
      return bytes == nullptr ? std::string()
                              : std::string(bytes, static_cast<size_t>(sqlite3_value_bytes(value)));
    };
    sqlite3_result_int(context, KernelCache::hash(text(values[0])) == text(values[1]) ? 1 : 0);
  };
  sqlite3_create_function(database, "is_whole", 2, SQLITE_UTF8 | SQLITE_DETERMINISTIC, nullptr, answer,
                          nullptr, nullptr);
}

// A table whose entries are imported. In the SQL, `o` is the other file's row and `h` the one here.
struct Table {
  const char *kind, *name;
  std::string_view key;      // what Imported::key says
  std::string_view columns;  // the values besides the primary key
  std::string_view same;     // the primary keys are equal
  std::string_view damaged, running;
};

constexpr Table tables[] = {
    {"winner", "winners", "o.key",
     "@.winner, @.seconds, @.candidates, @.times, @.spread, @.disturbed, @.bucket, @.work", "h.key=o.key",
     "typeof(o.key)<>'blob' OR instr(o.key, x'7C')<2 OR typeof(o.winner)<>'blob' OR length(o.winner)=0 OR "
     "typeof(o.seconds)<>'real' OR NOT o.seconds BETWEEN 0 AND 1e9 OR typeof(o.candidates)<>'blob' OR "
     "typeof(o.times)<>'blob' OR typeof(o.spread)<>'real' OR typeof(o.disturbed)<>'integer' OR "
     "typeof(o.bucket)<>'blob' OR typeof(o.work)<>'real'",
     "0"},
    {"marked", "marks", "o.key", "1", "h.key=o.key AND h.candidate=o.candidate AND h.process=o.process",
     "typeof(o.key)<>'blob' OR typeof(o.candidate)<>'blob' OR typeof(o.process)<>'blob'",
     "is_running(o.process)"},
    {"binary", "binaries", "o.device", "@.device, @.kernel, @.content, @.sum", "h.key=o.key",
     "typeof(o.key)<>'blob' OR typeof(o.device)<>'blob' OR typeof(o.kernel)<>'blob' OR "
     "NOT is_whole(o.content, o.sum)",
     "0"},
};

std::string columns_of(const Table& table, char row) {
  std::string columns(table.columns);
  for (char& c : columns)
    if (c == '@') c = row;
  return columns;
}

/// What becomes of each row, as a number of KernelCache::Fate.
std::string fates(const Table& table) {
  using enum KernelCache::Fate;
  return fmt::format(
      "SELECT {key}, CASE WHEN {damaged} THEN {is_damaged} WHEN {running} THEN {is_running} "
      "WHEN h.key IS NULL THEN {is_new} WHEN ({theirs}) IS ({ours}) THEN {is_present} ELSE {is_other} END "
      "FROM other.{name} o LEFT JOIN main.{name} h ON {same} "
      "ORDER BY 1",
      fmt::arg("key", table.key), fmt::arg("damaged", table.damaged), fmt::arg("running", table.running),
      fmt::arg("theirs", columns_of(table, 'o')), fmt::arg("ours", columns_of(table, 'h')),
      fmt::arg("name", table.name), fmt::arg("same", table.same),
      fmt::arg("is_damaged", fmt::underlying(damaged)), fmt::arg("is_running", fmt::underlying(running)),
      fmt::arg("is_new", fmt::underlying(added)), fmt::arg("is_present", fmt::underlying(present)),
      fmt::arg("is_other", fmt::underlying(replaced)));
}

std::string taking(const Table& table) {
  return fmt::format(
      "INSERT OR REPLACE INTO main.{0} SELECT * FROM other.{0} o WHERE NOT ({1}) AND NOT ({2})", table.name,
      table.damaged, table.running);
}

int64_t number(sqlite3* database, const char* question) {
  SqlStatement statement(database, question);
  return statement.step() ? statement.integer(0) : -1;
}

Error damaged(const std::filesystem::path& path, std::string why) {
  std::ranges::replace(why, '\n', ' ');
  return {ErrorCode::format, fmt::format("the file is damaged ({})", why), path.string(),
          "Copy it again, or make another with: athanor cache export FILE"};
}

// After a statement that only reads the file.
Error unreadable(sqlite3* database, const std::filesystem::path& path) {
  const DatabaseTrouble trouble = trouble_of(database);
  if (trouble.kind == DatabaseTrouble::Kind::damaged) return damaged(path, trouble.reason);
  if (trouble.kind == DatabaseTrouble::Kind::locked)
    return {ErrorCode::io, "another program has locked this file", path.string(),
            "Import it when that program has ended, or a copy from: athanor cache export FILE"};
  return {ErrorCode::io, fmt::format("the file cannot be read ({})", trouble.reason), path.string()};
}

// Throws if the file is not a whole cache of this version.
void check_other(sqlite3* database, const std::filesystem::path& path) {
  SqlStatement check(database, "PRAGMA other.integrity_check(1)");
  if (!check.step()) throw unreadable(database, path);
  if (check.text(0) != "ok") throw damaged(path, check.text(0));
  if (number(database,
             "SELECT count(*) FROM other.sqlite_master WHERE type='table' AND "
             "name IN ('winners', 'marks', 'binaries', 'parts')") != 4)
    throw Error(ErrorCode::format, "this is a database, but no cache that Athanor exported", path.string(),
                make_one);
  const int64_t version = number(database, "PRAGMA other.user_version");
  if (version != KernelCache::schema)
    throw Error(
        ErrorCode::format,
        fmt::format("this cache is of {} version of Athanor (its format is {}, this one's {})",
                    version < KernelCache::schema ? "an earlier" : "a later", version, KernelCache::schema),
        path.string(), "Export one with the version that imports it: athanor cache export FILE");
}

}  // namespace

std::vector<KernelCache::Imported> KernelCache::import_from(const std::filesystem::path& path) {
  const std::scoped_lock lock(mutex_);
  std::error_code unknown;
  if (std::filesystem::equivalent(path, file_, unknown))
    throw Error(ErrorCode::usage, "this file is the cache itself", path.string(),
                "There is nothing to import: give a file that another machine exported");
  static_cast<void>(open_to_read(path));  // throws if it cannot be read
  if (!open()) throw Error(ErrorCode::io, "the cache cannot be filled: it " + trouble_, file_.string());
  if (const std::string head = std::filesystem::is_regular_file(path) ? database_head_of(path) : "";
      head.size() < database_head || !is_database_head(head))
    throw Error(ErrorCode::format, "this is no cache that Athanor exported", path.string(), make_one);

  const auto refuse = [&] {
    const DatabaseTrouble trouble = trouble_of(database_);
    if (sqlite3_errcode(database_) == SQLITE_ERROR) throw damaged(path, trouble.reason);
    const bool locked = trouble.kind == DatabaseTrouble::Kind::locked;
    throw Error(ErrorCode::io,
                fmt::format("the cache cannot be filled: {}",
                            locked ? "another program has locked it, or the file" : trouble.reason),
                file_.string(), "Nothing was imported. Import the file again when the cache can be written");
  };
  if (!SqlStatement(database_, "ATTACH ? AS other").bind(path.string()).run())
    throw unreadable(database_, path);
  struct Detached {
    sqlite3* database;
    ~Detached() {
      sqlite3_exec(database, "ROLLBACK", nullptr, nullptr, nullptr);  // if it was not committed
      run_sql(database, "DETACH other");
    }
  } const detached{database_};
  check_other(database_, path);
  add_is_whole(database_);
  if (!run_sql(database_, "BEGIN IMMEDIATE")) refuse();
  std::vector<Imported> all;
  for (const Table& table : tables) {
    const std::string question = fates(table);
    for (SqlStatement rows(database_, question.c_str()); rows.step();)
      all.push_back({table.kind, rows.text(0), static_cast<Fate>(rows.integer(1))});
    if (trouble_of(database_).kind != DatabaseTrouble::Kind::none) refuse();  // and not the last row
    if (!run_sql(database_, taking(table))) refuse();
  }
  if (!run_sql(database_,
               "INSERT OR REPLACE INTO main.parts SELECT * FROM other.parts WHERE typeof(key)='blob' AND "
               "typeof(name)='blob' AND program IN (SELECT key FROM main.binaries)") ||
      !run_sql(database_, "COMMIT"))
    refuse();
  return all;
}

}  // namespace athanor
