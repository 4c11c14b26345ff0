#include <nlohmann/json.hpp>

#include "athanor/doctor/report.h"

namespace athanor::doctor {
namespace {

using Ordered = nlohmann::ordered_json;

const char* name_of(Severity severity) {
  return severity == Severity::error ? "error" : severity == Severity::warning ? "warning" : "goal";
}

Ordered ids_of(const std::vector<const Result*>& results) {
  Ordered ids = Ordered::array();
  for (const Result* result : results) ids.push_back(result->check->id);
  return ids;
}

Ordered causes_of(const Result& result) {
  Ordered ids = Ordered::array();
  for (const Check* cause : result.causes) ids.push_back(cause->id);
  return ids;
}

Ordered evidence_of(const Result& result) {
  Ordered evidence = Ordered::array();
  for (const Evidence& one : result.finding.evidence)
    evidence.push_back({{"source", one.source}, {"said", one.said}});
  return evidence;
}

Ordered problem_of(const Diagnosis& diagnosis, const Result& result, Language language,
                   const Record& record) {
  Ordered fixes = Ordered::array();
  for (const Offer& offer : offers(result, record))
    fixes.push_back({{"id", offer.fix->id},
                     {"text", result.text(offer.fix->text, language)},
                     {"commands", offer.commands},
                     {"sudo", offer.fix->sudo},
                     {"relogin", offer.fix->relogin},
                     {"reboot", offer.fix->reboot},
                     {"withheld", offer.withheld},
                     {"automatic", offer.automatic},
                     {"tried", offer.tried},
                     {"worked", offer.worked}});
  return {{"id", result.check->id},
          {"layer", result.check->layer},
          {"title", result.text(result.check->title, language)},
          {"why", result.text(result.check->why, language)},
          {"evidence", evidence_of(result)},
          {"fixes", fixes},
          {"verify", "athanor doctor --only " + result.check->id},
          {"consequences", ids_of(diagnosis.consequences_of(*result.check))},
          {"source", result.check->source},
          {"date", result.check->date}};
}

}  // namespace

Ordered report_json(const Diagnosis& diagnosis, const Facts& facts, Language language, const Record& record) {
  Ordered gpus = Ordered::array();
  for (const Gpu& gpu : facts.gpus())
    gpus.push_back({{"address", printable(gpu.address)},
                    {"name", printable(gpu.name)},
                    {"arch", printable(gpu.arch)},
                    {"driver", printable(gpu.driver)},
                    {"vendor", to_string(gpu.vendor)},
                    {"device", printable(gpu.device)}});
  const auto problems = [&](Verdict verdict) {
    Ordered all = Ordered::array();
    for (const Result* result : diagnosis.with(verdict))
      all.push_back(problem_of(diagnosis, *result, language, record));
    return all;
  };
  Ordered consequences = Ordered::array(), goals = Ordered::array(), passed = Ordered::array(),
          skipped = Ordered::array(), unknown = Ordered::array();
  for (const Result& result : diagnosis.results) {
    const std::string title = result.text(result.check->title, language);
    const bool goal = result.check->severity == Severity::goal;
    if (goal && result.verdict != Verdict::skipped)
      goals.push_back({{"id", result.check->id},
                       {"title", title},
                       {"works", result.verdict == Verdict::ok},
                       {"after", causes_of(result)},
                       {"evidence", evidence_of(result)}});
    else if (result.verdict == Verdict::consequence)
      consequences.push_back({{"id", result.check->id},
                              {"title", title},
                              {"causes", causes_of(result)},
                              {"evidence", evidence_of(result)}});
    else if (result.verdict == Verdict::ok)
      passed.push_back(result.check->id);
    else if (result.verdict == Verdict::skipped && result.finding.evidence.empty())
      skipped.push_back(result.check->id);
    else if (result.verdict == Verdict::skipped)
      unknown.push_back({{"id", result.check->id}, {"evidence", evidence_of(result)}});
  }
  return {{"schema", 1},
          {"well", diagnosis.well()},
          {"language", language == Language::zh ? "zh" : "en"},
          {"machine",
           {{"kind", diagnosis.kind},
            {"system", printable(facts.system().os.name)},
            {"kernel", printable(facts.system().kernel)},
            {"container", printable(facts.system().container)},
            {"wsl", facts.system().wsl},
            {"gpus", gpus}}},
          {"data", data_json(facts.machine().now())},
          {"problems", problems(Verdict::problem)},
          {"warnings", problems(Verdict::warning)},
          {"consequences", consequences},
          {"goals", goals},
          {"passed", passed},
          {"skipped", skipped},
          {"unknown", unknown},
          {"seconds", diagnosis.seconds}};
}

Ordered list_json(const std::vector<Check>& checks, Language language) {
  Ordered all = Ordered::array();
  for (const Check& check : checks) {
    Ordered fixes = Ordered::array();
    for (const Fix& fix : check.fixes) fixes.push_back(fix.id);
    all.push_back({{"id", check.id},
                   {"layer", check.layer},
                   {"severity", name_of(check.severity)},
                   {"needs", check.needs},
                   {"title", listed_title(check, language)},
                   {"fixes", fixes},
                   {"source", check.source}});
  }
  return {{"schema", 1}, {"checks", all}};
}

}  // namespace athanor::doctor
