// What may stand in the commands of fixes. A command is pasted into a shell, often root's, so nothing that a
// machine's files or variables say goes into one unchecked: every placeholder has a rule, and a value that
// breaks it stays out, with the command.
#pragma once
#include <string_view>

#include "athanor/doctor/facts.h"
#include "athanor/doctor/own_files.h"

namespace athanor::doctor {

/// Whether a rule says what may stand for a placeholder in commands; checks with others are malformed.
bool may_stand_in_commands(std::string_view placeholder);

/// Values as words of a shell, quoted where they need it; those that break their rule are left out.
class CommandWords {
 public:
  explicit CommandWords(const Facts& facts) : facts_(&facts), own_(own_files(facts)) {}
  explicit CommandWords(Facts&&) = delete;  // which it goes on asking

  Values of(const Values& values) const;

 private:
  const Facts* facts_;
  OwnFiles own_;
};

}  // namespace athanor::doctor
