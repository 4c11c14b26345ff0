// Which checks fail on a machine, and which of them are the causes.
//
// A check that fails although everything it needs holds is a root cause. A check that fails because of
// another is a consequence of it. Fix the cause first; often nothing else is left to do.
#pragma once
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/doctor/check.h"
#include "athanor/doctor/probe.h"

namespace athanor::doctor {

enum class Verdict { ok, skipped, problem, warning, consequence };

struct Result {
  const Check* check = nullptr;
  Finding finding;
  Verdict verdict = Verdict::ok;
  std::vector<const Check*> causes;  // for a consequence: the root causes, in the order to fix them

  /// A text of the check with the finding's values in it.
  std::string text(const Text& text, Language language) const {
    return fill(text.in(language), finding.values);
  }
};

/// A fix with its placeholders filled in, and its record on machines of this kind.
struct Offer {
  const Fix* fix = nullptr;
  std::vector<std::string> commands;
  /// The placeholder for which this machine has a value that may not stand in a command; `commands` is then
  /// empty. "" for none.
  std::string withheld;
  bool automatic = false;  // --fix can do it here
  int tried = 0, worked = 0;
};

struct Diagnosis {
  std::vector<Result> results;  // in the order to fix them
  Values common;                // values that every text may use
  std::string kind;             // the machine's kind
  double seconds = 0;

  std::vector<const Result*> with(Verdict verdict) const;
  const Result* find(std::string_view id) const;
  /// Whether there are no problems. There may be warnings.
  bool well() const { return with(Verdict::problem).empty(); }
  /// The results of checks that apply but could not be decided: skipped, with the obstacle as evidence.
  std::vector<const Result*> unknown() const;
  /// Consequences of a root cause.
  std::vector<const Result*> consequences_of(const Check& cause) const;
};

using Look = std::function<Finding(const Check&)>;

/// Runs the checks in their order. `only` selects some ids and their needs; empty: all. A needed check that
/// was not selected is in the results only if it is a cause.
Diagnosis diagnose(const std::vector<Check>& checks, const Look& look,
                   const std::set<std::string>& only = {});

/// Uses the registered probes. An exception of a probe becomes an Error(internal) that names its check.
Diagnosis diagnose(const std::vector<Check>& checks, const Facts& facts,
                   const std::set<std::string>& only = {});

/// How often a fix was tried and how often it worked: fills `tried` and `worked`.
using Record = std::function<void(const Check&, Offer&)>;

/// The fixes of a result that apply here, the one with the best record first. The measure is Laplace's rule
/// of succession, (worked + 1) / (tried + 2). An untried fix counts as one half, so a fix that failed comes
/// after it and one that worked comes before it. Equal fixes keep the order of the data.
std::vector<Offer> offers(const Result& result, const Record& record = {});

const char* to_string(Verdict verdict);

}  // namespace athanor::doctor
