#include "athanor/doctor/records.h"

#include <sqlite3.h>

#include <chrono>
#include <cstdlib>

namespace athanor::doctor {
namespace {

/// A prepared statement; one that cannot be prepared or run gives no rows.
class Statement {
 public:
  Statement(sqlite3* database, const char* sql) {
    if (database == nullptr || sqlite3_prepare_v2(database, sql, -1, &statement_, nullptr) != SQLITE_OK)
      statement_ = nullptr;
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& bind(const std::string& text) {
    if (statement_ != nullptr)
      sqlite3_bind_text(statement_, ++bound_, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
    return *this;
  }
  Statement& bind(int64_t number) {
    if (statement_ != nullptr) sqlite3_bind_int64(statement_, ++bound_, number);
    return *this;
  }
  bool step() { return statement_ != nullptr && sqlite3_step(statement_) == SQLITE_ROW; }
  int64_t number(int column) { return sqlite3_column_int64(statement_, column); }
  std::string text(int column) {
    const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    return bytes == nullptr
               ? std::string()
               : std::string(bytes, static_cast<size_t>(sqlite3_column_bytes(statement_, column)));
  }

 private:
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
};

}  // namespace

int64_t seconds_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::filesystem::path Records::usual_file() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::filesystem::path(value == nullptr ? "" : value);
  };
  if (const auto folder = variable("ATHANOR_CACHE"); !folder.empty()) return folder / "doctor.db";
  if (const auto folder = variable("XDG_STATE_HOME"); !folder.empty())
    return folder / "athanor" / "doctor.db";
  const auto home = variable("HOME");
  return home.empty() ? home : home / ".local" / "state" / "athanor" / "doctor.db";
}

Records::Records(const std::filesystem::path& file) {
  if (file.empty()) return;
  std::error_code ignored;
  std::filesystem::create_directories(file.parent_path(), ignored);
  if (sqlite3_open_v2(file.string().c_str(), &database_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
                      nullptr) != SQLITE_OK) {
    sqlite3_close(database_);
    database_ = nullptr;
    return;
  }
  sqlite3_busy_timeout(database_, 2000);
  sqlite3_exec(
      database_,
      "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
      "CREATE TABLE IF NOT EXISTS events(time INTEGER, kind TEXT, what TEXT, subject TEXT, fix TEXT);"
      "CREATE INDEX IF NOT EXISTS by_fix ON events(kind, subject, fix); PRAGMA user_version=1;",
      nullptr, nullptr, nullptr);
}

Records::~Records() { sqlite3_close(database_); }

void Records::add(const Event& event) {
  Statement(database_, "INSERT INTO events VALUES(?, ?, ?, ?, ?)")
      .bind(event.time)
      .bind(event.kind)
      .bind(event.what)
      .bind(event.check)
      .bind(event.fix)
      .step();
}

void Records::add(const Diagnosis& diagnosis, int64_t now) {
  for (const Result* problem : diagnosis.with(Verdict::problem)) {
    // Found before, and nothing was done about it since: no news.
    Statement last(database_,
                   "SELECT what FROM events WHERE kind=? AND subject=? ORDER BY rowid DESC LIMIT 1");
    if (last.bind(diagnosis.kind).bind(problem->check->id).step() && last.text(0) == "found") continue;
    add({now, diagnosis.kind, "found", problem->check->id, ""});
  }
}

void Records::score(const std::string& kind, const Check& check, Offer& offer) const {
  Statement outcomes(database_,
                     "SELECT what, count(*) FROM events WHERE kind=? AND subject=? AND fix=? AND what IN "
                     "('worked', 'failed') GROUP BY what");
  outcomes.bind(kind).bind(check.id).bind(offer.fix->id);
  while (outcomes.step()) {
    const int count = static_cast<int>(outcomes.number(1));
    offer.tried += count;
    if (outcomes.text(0) == "worked") offer.worked += count;
  }
}

std::vector<Records::Event> Records::history(size_t most) const {
  std::vector<Event> events;
  Statement rows(database_, "SELECT time, kind, what, subject, fix FROM events ORDER BY rowid DESC LIMIT ?");
  rows.bind(static_cast<int64_t>(most));
  while (rows.step())
    events.push_back({rows.number(0), rows.text(1), rows.text(2), rows.text(3), rows.text(4)});
  return events;
}

}  // namespace athanor::doctor
