#include "athanor/doctor/diagnosis.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>

#include "athanor/base/clock.h"
#include "athanor/base/error.h"
#include "athanor/doctor/command.h"
#include "athanor/doctor/facts.h"

namespace athanor::doctor {
namespace {

// The ids and everything that they need, directly or indirectly.
std::set<std::string> with_needs(const std::vector<Check>& checks, std::set<std::string> ids) {
  // Backwards, because a check comes after those that it needs.
  for (auto check = checks.rbegin(); check != checks.rend(); ++check)
    if (ids.count(check->id) > 0) ids.insert(check->needs.begin(), check->needs.end());
  return ids;
}

Verdict verdict_of(const Check& check, Status status, bool blocked) {
  if (status == Status::skip) return Verdict::skipped;
  // If a goal itself fails, nothing is installed for it.
  if (check.severity == Severity::goal)
    return blocked ? Verdict::consequence : status == Status::pass ? Verdict::ok : Verdict::skipped;
  if (status == Status::pass) return Verdict::ok;
  if (blocked) return Verdict::consequence;
  return status == Status::warn || check.severity == Severity::warning ? Verdict::warning : Verdict::problem;
}

}  // namespace

std::vector<const Result*> Diagnosis::with(Verdict verdict) const {
  std::vector<const Result*> found;
  for (const Result& result : results)
    if (result.verdict == verdict) found.push_back(&result);
  return found;
}

const Result* Diagnosis::find(std::string_view id) const {
  for (const Result& result : results)
    if (result.check->id == id) return &result;
  return nullptr;
}

std::vector<const Result*> Diagnosis::unknown() const {
  std::vector<const Result*> found = with(Verdict::skipped);
  std::erase_if(found, [](const Result* result) { return result->finding.evidence.empty(); });
  return found;
}

std::vector<const Result*> Diagnosis::consequences_of(const Check& cause) const {
  std::vector<const Result*> found;
  for (const Result* result : with(Verdict::consequence))
    if (std::find(result->causes.begin(), result->causes.end(), &cause) != result->causes.end())
      found.push_back(result);
  return found;
}

Diagnosis diagnose(const std::vector<Check>& checks, const Look& look, const std::set<std::string>& only) {
  const auto start = Clock::now();
  const std::set<std::string> wanted = with_needs(checks, only);
  Diagnosis diagnosis;
  std::map<std::string, std::set<const Check*>> roots;  // of all earlier checks, by id
  std::set<std::string> unseen;                         // applicable checks that could not be decided
  for (const Check& check : checks) {
    if (!only.empty() && wanted.count(check.id) == 0) continue;
    std::set<const Check*> causes;
    for (const std::string& need : check.needs) causes.insert(roots[need].begin(), roots[need].end());
    Result result{&check, look(check), Verdict::ok, {}};
    result.verdict = verdict_of(check, result.finding.status, !causes.empty());
    // The evidence of a goal that itself fails does not make it unknown.
    if (result.verdict == Verdict::skipped && result.finding.status == Status::fail)
      result.finding.evidence.clear();
    if (result.verdict == Verdict::skipped && !result.finding.evidence.empty()) unseen.insert(check.id);
    // A goal is also unknown while something that it needs is unknown.
    if (result.verdict == Verdict::ok && check.severity == Severity::goal)
      for (const std::string& need : check.needs)
        if (unseen.contains(need)) {
          if (result.verdict == Verdict::ok) result.finding.evidence.clear();
          result.verdict = Verdict::skipped;
          result.finding.status = Status::skip;
          result.finding.seen(need, "not known");
        }
    if (result.verdict == Verdict::problem) causes = {&check};
    if (result.verdict == Verdict::consequence)
      for (const Check& other : checks)  // in their order
        if (causes.count(&other) > 0) result.causes.push_back(&other);
    roots[check.id] = std::move(causes);
    const bool asked = only.empty() || only.count(check.id) > 0;
    if (asked || result.verdict == Verdict::problem) diagnosis.results.push_back(std::move(result));
  }
  if (!only.empty())
    // A needed check that failed matters only if a requested check fails because of it.
    std::erase_if(diagnosis.results, [&](const Result& result) {
      return only.count(result.check->id) == 0 && diagnosis.consequences_of(*result.check).empty();
    });
  diagnosis.seconds = seconds_since(start);
  return diagnosis;
}

Diagnosis diagnose(const std::vector<Check>& checks, const Facts& facts, const std::set<std::string>& only) {
  const Values common = facts.common_values();
  const CommandWords words(facts);
  auto diagnosis = diagnose(
      checks,
      [&](const Check& check) {
        const auto probe = probes().find(check.id);
        if (probe == probes().end())
          throw Error(ErrorCode::internal, "there is no probe for the check " + check.id);
        try {
          Finding finding = probe->second(facts);
          finding.values.insert(common.begin(), common.end());
          finding.words = words.of(finding.values);
          for (auto& [name, value] : finding.values) value = printable(value);
          for (Evidence& evidence : finding.evidence)
            evidence = {printable(evidence.source), printable(evidence.said)};
          return finding;
        } catch (const std::exception& error) {
          throw Error(ErrorCode::internal,
                      fmt::format("the check {} failed itself: {}", check.id, error.what()));
        }
      },
      only);
  diagnosis.common = common;
  diagnosis.kind = printable(facts.machine_kind());
  return diagnosis;
}

std::vector<Offer> offers(const Result& result, const Record& record) {
  std::vector<Offer> all;
  for (const Fix& fix : result.check->fixes) {
    const bool applies = std::all_of(fix.when.begin(), fix.when.end(), [&](const auto& condition) {
      const auto value = result.finding.values.find(condition.first);
      return value != result.finding.values.end() && value->second == condition.second;
    });
    if (!applies) continue;
    Offer offer;
    offer.fix = &fix;
    for (const std::string& command : fix.commands) {
      offer.commands.push_back(fill(command, result.finding.words));
      for (const std::string& name : placeholders(command))
        if (!result.finding.words.contains(name)) offer.withheld = name;
    }
    if (!offer.withheld.empty()) offer.commands.clear();
    const bool possible = fix.action == "clear-cache" || result.finding.words.contains("home");
    offer.automatic = !fix.action.empty() && offer.withheld.empty() && possible;
    if (record) record(*result.check, offer);
    all.push_back(std::move(offer));
  }
  const auto rate = [](const Offer& offer) { return (offer.worked + 1.0) / (offer.tried + 2.0); };
  std::stable_sort(all.begin(), all.end(), [&](const Offer& a, const Offer& b) { return rate(a) > rate(b); });
  return all;
}

const char* to_string(Verdict verdict) {
  static constexpr std::array names = {"ok", "skipped", "problem", "warning", "consequence"};
  return names.at(static_cast<size_t>(verdict));
}

}  // namespace athanor::doctor
