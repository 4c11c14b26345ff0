// The values in the commands of fixes. Users paste commands into a shell, often root's, so every value from a
// machine's files or variables is checked: each placeholder has a rule, and if a value breaks it, the command
// is not shown.
#pragma once
#include <string_view>

#include "athanor/doctor/facts.h"
#include "athanor/doctor/own_files.h"

namespace athanor::doctor {

/// Whether a placeholder has a rule for commands; checks with other placeholders are malformed.
bool may_stand_in_commands(std::string_view placeholder);

/// Values as words of a shell, quoted where they need it; those that break their rule are left out.
class CommandWords {
 public:
  explicit CommandWords(const Facts& facts) : facts_(&facts), own_(own_files(facts)) {}
  explicit CommandWords(Facts&&) = delete;  // facts are read later

  Values of(const Values& values) const;

 private:
  const Facts* facts_;
  OwnFiles own_;
};

}  // namespace athanor::doctor
