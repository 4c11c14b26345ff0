// Variables that the user's shell sets when it starts, read from its files. Only plain assignments are
// understood, because this is not a shell.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "athanor/device/machine.h"

namespace athanor::doctor {

struct Setting {
  std::string name, value;   // the value without quotes, not expanded
  bool exported = false;     // by `export NAME=`, or `export NAME` on another line of the file
  bool unset = false;        // `unset NAME`
  bool conditional = false;  // inside if, case or a function: it may not run
  std::string file;
  int line = 0;  // from 1

  /// "~/.bashrc:12" with the home folder written out.
  std::string where() const { return file + ":" + std::to_string(line); }
};

/// Assignments in a start file's text, in order.
std::vector<Setting> parse_shell(std::string_view text, const std::string& file);

/// The assignments in /etc/environment, /etc/profile, /etc/profile.d, and the user's .profile, .bash_profile,
/// .bashrc, .zshenv, .zprofile and .zshrc, in the order in which a login shell reads them.
std::vector<Setting> read_shell(const Machine& machine);

/// The start file that interactive shells of this user read, by $SHELL: "~/.zshrc" or "~/.bashrc".
std::string shell_file(const Machine& machine);

}  // namespace athanor::doctor
