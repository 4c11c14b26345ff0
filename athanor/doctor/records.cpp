#include "athanor/doctor/records.h"

#include <chrono>
#include <cstdlib>

#include "athanor/base/sqlite.h"

namespace athanor::doctor {
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

Records::Records(const std::filesystem::path& file, bool writing) : writing_(writing) {
  std::error_code ignored;
  if (file.empty() || (!writing && !std::filesystem::exists(file, ignored))) return;
  database_ = open_database(file);
  run_sql(database_,
          "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
          "CREATE TABLE IF NOT EXISTS events(time INTEGER, kind TEXT, what TEXT, subject TEXT, fix TEXT);"
          "CREATE INDEX IF NOT EXISTS by_fix ON events(kind, subject, fix); PRAGMA user_version=1;");
}

Records::~Records() { close_database(database_); }

void Records::add(const Event& event) {
  if (!writing_) return;
  SqlStatement(database_, "INSERT INTO events VALUES(?, ?, ?, ?, ?)")
      .bind(event.time)
      .bind(event.kind)
      .bind(event.what)
      .bind(event.check)
      .bind(event.fix)
      .step();
}

void Records::add(const Diagnosis& diagnosis, int64_t now) {
  for (const Verdict verdict : {Verdict::problem, Verdict::warning})
    for (const Result* problem : diagnosis.with(verdict)) {
      // It was found before, and nothing was done about it since: no news.
      if (last_event(diagnosis.kind, problem->check->id) == "found") continue;
      add({now, diagnosis.kind, "found", problem->check->id, ""});
    }
}

std::string Records::last_event(const std::string& kind, const std::string& check) const {
  SqlStatement last(database_,
                    "SELECT what FROM events WHERE kind=? AND subject=? ORDER BY rowid DESC LIMIT 1");
  return last.bind(kind).bind(check).step() ? last.text(0) : "";
}

bool Records::is_open(const std::string& kind, const std::string& check) const {
  const std::string last = last_event(kind, check);
  return !last.empty() && last != "worked";
}

void Records::score(const std::string& kind, const Check& check, Offer& offer) const {
  SqlStatement outcomes(database_,
                        "SELECT what, count(*) FROM events WHERE kind=? AND subject=? AND fix=? AND what IN "
                        "('worked', 'failed') GROUP BY what");
  outcomes.bind(kind).bind(check.id).bind(offer.fix->id);
  while (outcomes.step()) {
    const int count = static_cast<int>(outcomes.integer(1));
    offer.tried += count;
    if (outcomes.text(0) == "worked") offer.worked += count;
  }
}

std::vector<Records::Event> Records::history(size_t most) const {
  std::vector<Event> events;
  SqlStatement rows(database_,
                    "SELECT time, kind, what, subject, fix FROM events ORDER BY rowid DESC LIMIT ?");
  rows.bind(static_cast<int64_t>(most));
  while (rows.step())
    events.push_back({rows.integer(0), rows.text(1), rows.text(2), rows.text(3), rows.text(4)});
  return events;
}

}  // namespace athanor::doctor
