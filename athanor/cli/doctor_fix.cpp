#include "athanor/cli/doctor_fix.h"

#include <fmt/format.h>

#include <iostream>

#include "athanor/base/os/terminal.h"
#include "athanor/doctor/fix.h"

namespace athanor::cli {
namespace {

using namespace doctor;

class Fixer {
 public:
  Fixer(const Diagnosis& diagnosis, const Facts& facts, Records& records, const Style& style,
        const FixOptions& options)
      : diagnosis_(diagnosis), facts_(facts), records_(records), style_(style), options_(options) {}

  /// Whether the problem is gone.
  bool mend(const Result& result) {
    std::cout << fmt::format("{}\n",
                             word("fixing", {{"id", result.check->id},
                                             {"text", result.text(result.check->title, style_.language)}}));
    const auto all = offers(
        result, [&](const Check& check, Offer& offer) { records_.score(diagnosis_.kind, check, offer); });
    const Offer* offer = automatic(all);
    const auto changes = offer == nullptr ? std::vector<Change>() : changes_of(facts_, result, *offer);
    if (changes.empty()) {
      by_hand(result, all);
      return false;
    }
    for (const Change& change : changes)
      if (!change.note.empty()) std::cout << fmt::format("    {}  {}\n", change.path, change.note);
    if (options_.dry_run) {
      std::cout << fmt::format("    ({})\n", word("would"));
      return false;
    }
    if (!options_.yes && !asked()) return false;
    return apply(result, *offer, changes);
  }

 private:
  std::string word(const char* name, const Values& values = {}) const {
    return words(name, style_.language, values);
  }

  void by_hand(const Result& result, const std::vector<Offer>& all) const {
    if (all.empty()) return;
    std::cout << fmt::format("    {} {}\n", word("by_hand"),
                             result.text(all.front().fix->text, style_.language));
    for (const std::string& command : all.front().commands) std::cout << "        " << command << '\n';
  }

  bool asked() const {
    if (!os::terminal_of_stdout()) {
      std::cout << fmt::format("    {}\n", word("not_asked"));
      return false;
    }
    std::cout << "    " << word("ask") << std::flush;
    std::string answer;
    std::getline(std::cin, answer);
    return !answer.empty() && (answer[0] == 'y' || answer[0] == 'Y');
  }

  bool apply(const Result& result, const Offer& offer, const std::vector<Change>& changes) {
    Applied applied(facts_.machine(), changes);
    const int64_t now = seconds_now();
    records_.add({now, diagnosis_.kind, "applied", result.check->id, offer.fix->id});
    // Checks again, as a new shell would see it.
    const Facts after(facts_.machine(), true);
    const Diagnosis again = diagnose(checks(), after, {result.check->id});
    const Result* check = again.find(result.check->id);
    const bool worked =
        check != nullptr && (check->verdict == Verdict::ok || check->verdict == Verdict::skipped);
    records_.add({now, diagnosis_.kind, worked ? "worked" : "failed", result.check->id, offer.fix->id});
    if (worked) {
      applied.keep();
      for (const Change& change : changes)
        if (change.path.ends_with(".athanor-backup"))
          std::cout << fmt::format("    {}\n", word("backup", {{"path", change.path}}));
    }
    std::cout << fmt::format("    {}\n", word(worked ? "fixed" : "not_fixed"));
    return worked;
  }

  const Diagnosis& diagnosis_;
  const Facts& facts_;
  Records& records_;
  const Style& style_;
  const FixOptions& options_;
};

}  // namespace

int fix_problems(const Diagnosis& diagnosis, const Facts& facts, Records& records, const Style& style,
                 const FixOptions& options) {
  Fixer fixer(diagnosis, facts, records, style, options);
  size_t left = 0, all = 0;
  for (const Verdict verdict : {Verdict::problem, Verdict::warning})
    for (const Result* result : diagnosis.with(verdict)) {
      // Warnings that need work by hand are only in the report.
      if (verdict == Verdict::warning && automatic(offers(*result)) == nullptr) continue;
      ++all;
      const bool gone = fixer.mend(*result);
      if (!gone && verdict == Verdict::problem) ++left;
    }
  if (all == 0) std::cout << words("nothing_to_fix", style.language) << '\n';
  return left == 0 ? 0 : 1;
}

}  // namespace athanor::cli
