#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "athanor/base/error.h"
#include "athanor/base/text.h"
#include "athanor/base/toml.h"
#include "athanor/base/wrap.h"
#include "athanor/doctor/data.h"
#include "athanor/doctor/report.h"

namespace athanor::doctor {
namespace {

class Writer {
 public:
  explicit Writer(const Style& style) : style_(style) {}

  std::string in(const char* code, const std::string& text) const {
    return style_.color ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : text;
  }
  std::string word(const char* name, const Values& values = {}) const {
    return words(name, style_.language, values);
  }
  const char* dot() const { return style_.unicode ? " · " : "; "; }
  const char* mark(Verdict verdict) const {
    if (verdict == Verdict::ok) return style_.unicode ? "✓" : "+";
    if (verdict == Verdict::warning) return "!";
    return style_.unicode ? "✗" : "x";
  }
  // "  Seen    text", with further lines indented to the text.
  void row(const std::string& label, const std::string& text) {
    constexpr int behind = 10;
    const int pad = std::max(1, behind - 2 - text_columns(label));
    const std::string body = wrapped(text, style_.columns - behind, behind);
    out += fmt::format("  {}{}{}\n", in("2", label), std::string(static_cast<size_t>(pad), ' '), body);
  }
  const Style& style() const { return style_; }

  std::string out;

 private:
  const Style& style_;
};

std::string notes_of(const Writer& writer, const Result& result, const Offer& offer) {
  std::vector<std::string> notes;
  if (!offer.withheld.empty()) {
    const auto value = result.finding.values.find(offer.withheld);
    notes.push_back(writer.word(
        "withheld",
        {{"name", offer.withheld}, {"value", value == result.finding.values.end() ? "" : value->second}}));
  }
  if (offer.fix->sudo) notes.push_back(writer.word("needs_sudo"));
  if (offer.fix->relogin) notes.push_back(writer.word("relogin"));
  if (offer.fix->reboot) notes.push_back(writer.word("reboot"));
  if (offer.automatic) notes.push_back(writer.word("automatic"));
  if (offer.tried > 0)
    notes.push_back(writer.word(
        "record", {{"tried", std::to_string(offer.tried)}, {"worked", std::to_string(offer.worked)}}));
  return notes.empty() ? "" : " (" + join(notes) + ")";
}

void add_problem(Writer& writer, const Diagnosis& diagnosis, const Result& result, const std::string& head,
                 const Record& record) {
  const Language language = writer.style().language;
  const bool error = result.verdict == Verdict::problem;
  const int behind = text_columns(head) + 1;
  const int columns = writer.style().columns - behind;
  const std::string title = result.text(result.check->title, language), id = "[" + result.check->id + "]";
  const bool fits = text_columns(title) + 2 + text_columns(id) <= columns;
  writer.out +=
      fmt::format("{} {}{}{}\n", writer.in(error ? "1;31" : "1;33", head),
                  writer.in("1", wrapped(title, columns, behind)),
                  fits ? "  " : "\n" + std::string(static_cast<size_t>(behind), ' '), writer.in("2", id));
  std::string label = writer.word("seen");
  for (const Evidence& evidence : result.finding.evidence) {
    writer.row(label, fmt::format("{}: {}", evidence.source, evidence.said));
    label.clear();
  }
  writer.row(writer.word("why"), result.text(result.check->why, language));
  const auto all = offers(result, record);
  label = writer.word("mend");
  for (const Offer& offer : all) {
    writer.row(label, result.text(offer.fix->text, language) + notes_of(writer, result, offer));
    for (const std::string& command : offer.commands)
      writer.out += "            " + writer.in("36", command) + "\n";
    label = writer.word("or");
  }
  if (!all.empty())
    writer.row(writer.word("verify"),
               fmt::format("athanor doctor --only {} --tried {}", result.check->id, all.front().fix->id));
  std::vector<std::string> blocked;
  for (const Result* consequence : diagnosis.consequences_of(*result.check))
    blocked.push_back(consequence->text(consequence->check->title, language));
  if (!blocked.empty()) writer.row(writer.word("blocks"), join(blocked, writer.dot()));
  writer.out += "\n";
}

void add_goals(Writer& writer, const Diagnosis& diagnosis) {
  const Language language = writer.style().language;
  std::map<const Check*, int> number;
  for (const Result* problem : diagnosis.with(Verdict::problem)) {
    const int next = static_cast<int>(number.size()) + 1;
    number[problem->check] = next;
  }
  for (const Verdict verdict : {Verdict::ok, Verdict::consequence}) {
    bool first = true;
    for (const Result* result : diagnosis.with(verdict)) {
      if (result->check->severity != Severity::goal) continue;
      if (first) writer.out += writer.word(verdict == Verdict::ok ? "works" : "will_work") + "\n";
      first = false;
      std::vector<std::string> numbers;
      for (const Check* cause : result->causes) numbers.push_back(std::to_string(number[cause]));
      std::string line = result->text(result->check->title, language);
      for (const Evidence& evidence : result->finding.evidence) line += ": " + evidence.said;
      if (!numbers.empty())
        line += "  " + writer.in("2", "(" + writer.word("after", {{"numbers", join(numbers)}}) + ")");
      writer.out +=
          fmt::format("  {} {}\n", writer.in(verdict == Verdict::ok ? "32" : "31", writer.mark(verdict)),
                      wrapped(line, writer.style().columns - 4, 4));
    }
  }
}

void add_unknown(Writer& writer, const Diagnosis& diagnosis) {
  const auto all = diagnosis.unknown();
  if (!all.empty()) writer.out += writer.word("unseen") + "\n";
  for (const Result* result : all) {
    std::vector<std::string> seen;
    for (const Evidence& one : result->finding.evidence) seen.push_back(one.source + ": " + one.said);
    writer.out += fmt::format("  ? {}\n", wrapped(join({"[" + result->check->id + "]", join(seen)}, "  "),
                                                  writer.style().columns - 4, 4));
  }
  if (!all.empty()) writer.out += "\n";
}

// A user who asks for a test of the devices wants to know which were tested.
void add_self_test(Writer& writer, const Diagnosis& diagnosis) {
  const Result* result = diagnosis.find("device.self_test");
  if (result == nullptr || result->verdict != Verdict::ok || result->finding.evidence.empty()) return;
  writer.out += writer.word("computed") + "\n";
  for (const Evidence& one : result->finding.evidence)
    writer.out += fmt::format("  {} {}\n", writer.in("32", writer.mark(Verdict::ok)),
                              wrapped(one.source + ": " + one.said, writer.style().columns - 4, 4));
  writer.out += "\n";
}

void add_head(Writer& writer, const Facts& facts) {
  const System& system = facts.system();
  std::vector<std::string> about;
  if (!system.os.name.empty()) about.push_back(system.os.name);
  if (!system.kernel.empty()) about.push_back("Linux " + system.kernel);
  if (!system.container.empty()) about.push_back(system.container);
  about.push_back(facts.gpus().empty() ? writer.word("no_gpu") : counted_titles(facts.gpus()));
  writer.out += wrapped(printable(join(about, writer.dot())), writer.style().columns, 0) + "\n\n";
}

// "All is well" is said only if nothing else follows.
std::string verdict_word(size_t problems, size_t warnings, size_t unknown, size_t passed) {
  if (problems > 0) return problems == 1 ? "found_one" : "found_many";
  if (warnings > 0) return warnings == 1 ? "well_but_one" : "well_but_many";
  if (unknown > 0) return "well_as_seen";
  return passed == 0 ? "nothing_checked" : "well";
}

}  // namespace

std::string words(std::string_view name, Language language, const Values& values) {
  static const auto all = parse_toml(data_file("doctor_words.toml"), "doctor_words.toml");
  const auto found = all.find(std::string(name));
  if (found == all.end()) throw Error(ErrorCode::internal, "doctor has no words for " + std::string(name));
  return fill(found->at(language == Language::zh ? "zh" : "en").get<std::string>(), values);
}

std::string report_text(const Diagnosis& diagnosis, const Facts& facts, const Style& style,
                        const Record& record) {
  Writer writer(style);
  add_head(writer, facts);
  const auto problems = diagnosis.with(Verdict::problem), warnings = diagnosis.with(Verdict::warning);
  const size_t checked = diagnosis.results.size();
  const Values counts = {
      {"checks", writer.word(checked == 1 ? "check" : "checks", {{"number", std::to_string(checked)}})},
      {"time", format_duration(diagnosis.seconds)},
      {"count", std::to_string(problems.size())},
      {"warnings", std::to_string(warnings.size())},
      {"passed", std::to_string(diagnosis.with(Verdict::ok).size())},
      {"skipped", std::to_string(diagnosis.with(Verdict::skipped).size() - diagnosis.unknown().size())}};
  const std::string verdict = verdict_word(problems.size(), warnings.size(), diagnosis.unknown().size(),
                                           diagnosis.with(Verdict::ok).size());
  writer.out += writer.in(verdict == "well" ? "1;32" : "1", writer.word(verdict.c_str(), counts)) + "\n\n";
  int number = 0;
  for (const Result* problem : problems)
    add_problem(writer, diagnosis, *problem, fmt::format("{} {}.", writer.mark(Verdict::problem), ++number),
                record);
  if (!warnings.empty()) writer.out += writer.in("1", writer.word("warnings")) + "\n\n";
  for (const Result* warning : warnings)
    add_problem(writer, diagnosis, *warning, writer.mark(Verdict::warning), record);
  add_self_test(writer, diagnosis);
  add_unknown(writer, diagnosis);
  add_goals(writer, diagnosis);
  if (!problems.empty()) writer.out += "\n" + writer.in("2", writer.word("footer", counts)) + "\n";
  if (problems.empty() && !writer.out.ends_with("\n\n")) writer.out += "\n";
  writer.out +=
      writer.in("2", wrapped(data_text(facts.machine().now(), style.language), style.columns, 0)) + "\n";
  return writer.out;
}

std::string listed_title(const Check& check, Language language) {
  static const auto document = parse_toml(data_file("doctor_words.toml"), "doctor_words.toml");
  const std::string& title = check.title.in(language);
  Values stand_ins;
  for (const std::string& name : placeholders(title)) {
    std::string capitals = name;
    for (char& c : capitals)
      if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    stand_ins[name] =
        language == Language::zh ? document.at("placeholders_zh").value(name, capitals) : capitals;
  }
  return fill(title, stand_ins);
}

std::string list_text(const std::vector<Check>& checks, Language language, int columns) {
  size_t longest = 0;
  for (const Check& check : checks) longest = std::max(longest, check.id.size());
  const int behind = static_cast<int>(longest) + 2;
  std::string out;
  for (const Check& check : checks)
    out += fmt::format("{:<{}}{}\n", check.id, behind,
                       wrapped(listed_title(check, language), columns - behind, behind));
  return out;
}

}  // namespace athanor::doctor
