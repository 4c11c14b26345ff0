// Doctor's memory for each kind of machine: what it found, what was tried, and whether that helped.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "athanor/doctor/diagnosis.h"

struct sqlite3;

namespace athanor::doctor {

/// Seconds since 1970 by this computer's clock: the time of a record, whichever machine it is about.
int64_t seconds_now();

/// A file doctor.db (SQLite). If it cannot be opened or written, nothing is remembered, and nothing else
/// happens.
class Records {
 public:
  /// doctor.db in $ATHANOR_CACHE (beside athanor.db), else in $XDG_STATE_HOME/athanor or
  /// ~/.local/state/athanor; empty if none of these exists.
  static std::filesystem::path usual_file();

  /// If `writing` is false, known records are read and none is added: for other machines' files (--root),
  /// which show nothing about this one.
  explicit Records(const std::filesystem::path& file, bool writing = true);
  ~Records();
  Records(const Records&) = delete;
  Records& operator=(const Records&) = delete;

  struct Event {
    int64_t time = 0;  // seconds since 1970
    std::string kind;  // of the machine
    std::string what;  // "found", "applied", "worked" or "failed"
    std::string check;
    std::string fix;  // "" for "found"
  };

  /// Adds the problems and warnings of a diagnosis, except those that were there the last time.
  void add(const Diagnosis& diagnosis, int64_t now);
  void add(const Event& event);
  /// Whether a check's last event on a kind of machine is one that leaves it failing: "found", "applied" or
  /// "failed".
  bool is_open(const std::string& kind, const std::string& check) const;
  /// How often a fix was tried on machines of a kind, and how often it worked.
  void score(const std::string& kind, const Check& check, Offer& offer) const;
  /// The newest events first.
  std::vector<Event> history(size_t most = 100) const;

 private:
  std::string last_event(const std::string& kind, const std::string& check) const;

  sqlite3* database_ = nullptr;
  bool writing_;
};

}  // namespace athanor::doctor
