#include "athanor/doctor/facts/shell.h"

#include <algorithm>
#include <set>

#include "athanor/base/text.h"

namespace athanor::doctor {
namespace {

bool is_name(std::string_view text) {
  return !text.empty() && !(text[0] >= '0' && text[0] <= '9') &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
         });
}

// The word at the start of `text`, without quotes. `text` then starts after it.
std::string take_word(std::string_view& text) {
  std::string word;
  char quote = 0;
  while (!text.empty()) {
    const char c = text[0];
    if (quote == 0 && (c == ' ' || c == '\t' || c == ';' || c == '&' || c == '|' || c == ')')) break;
    text.remove_prefix(1);
    if (quote != 0 && c == quote) {
      quote = 0;
    } else if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == '\\' && quote != '\'' && !text.empty()) {
      word += text[0];
      text.remove_prefix(1);
    } else {
      word += c;
    }
  }
  return word;
}

void skip_space(std::string_view& text) {
  while (!text.empty() && (text[0] == ' ' || text[0] == '\t')) text.remove_prefix(1);
}

class Reader {
 public:
  explicit Reader(const std::string& file) : file_(file) {}

  void line(std::string_view text, int number) {
    skip_space(text);
    while (!text.empty() && text[0] != '#') {
      statement(text, number);
      // Go to the next statement of the line.
      while (!text.empty() && text[0] != ';' && text[0] != '&' && text[0] != '|') text.remove_prefix(1);
      while (!text.empty() && (text[0] == ';' || text[0] == '&' || text[0] == '|')) {
        conditional_ = conditional_ || text[0] != ';';
        text.remove_prefix(1);
      }
      skip_space(text);
    }
    conditional_ = false;
  }

  std::vector<Setting> done() {
    for (Setting& setting : settings_)
      if (exported_.count(setting.name) > 0) setting.exported = true;
    return std::move(settings_);
  }

 private:
  void statement(std::string_view& text, int number) {
    bool exporting = false, unsetting = false;
    for (;;) {
      skip_space(text);
      if (text.empty() || text[0] == '#' || text[0] == ';' || text[0] == '&' || text[0] == '|') return;
      const size_t equals = text.find('=');
      if (equals != std::string_view::npos && is_name(text.substr(0, equals))) {
        Setting setting;
        setting.name = text.substr(0, equals);
        text.remove_prefix(equals + 1);
        setting.value = take_word(text);
        setting.exported = exporting;
        const bool command_follows = [&] {
          std::string_view rest = text;
          skip_space(rest);
          // "NAME=value command" sets it only for that command.
          return !exporting && !rest.empty() &&
                 std::string_view("#;&|").find(rest[0]) == std::string_view::npos &&
                 rest.find('=') == std::string_view::npos;
        }();
        if (!command_follows) add(std::move(setting), number);
        if (!exporting && command_follows) return;
        continue;
      }
      const std::string word = take_word(text);
      if (word.empty()) {
        if (!text.empty()) text.remove_prefix(1);  // a ')'
        return;
      }
      if (word == "export" || word == "declare" || word == "typeset")
        exporting = true;
      else if (exporting && word == "-x")
        continue;
      else if (exporting && is_name(word))
        exported_.insert(word);
      else if (word == "unset")
        unsetting = true;
      else if (unsetting && is_name(word)) {
        Setting setting;
        setting.name = word;
        setting.unset = true;
        add(std::move(setting), number);
      } else if (word == "if" || word == "case" || word == "for" || word == "while" || word == "{" ||
                 word.ends_with("()")) {
        ++depth_;
        if (word == "if" || word == "while") continue;
        return;
      } else if (word == "fi" || word == "esac" || word == "done" || word == "}") {
        depth_ = std::max(0, depth_ - 1);
      } else if (word == "then" || word == "do" || word == "else") {
        continue;
      } else {
        return;  // some command
      }
    }
  }

  void add(Setting setting, int number) {
    setting.file = file_;
    setting.line = number;
    setting.conditional = depth_ > 0 || conditional_;
    settings_.push_back(std::move(setting));
  }

  std::string file_;
  std::vector<Setting> settings_;
  std::set<std::string> exported_;
  int depth_ = 0;
  bool conditional_ = false;
};

}  // namespace

std::vector<Setting> parse_shell(std::string_view text, const std::string& file) {
  Reader reader(file);
  int number = 0;
  for (const std::string& line : split(text, '\n')) reader.line(line, ++number);
  return reader.done();
}

std::vector<Setting> read_shell(const Machine& machine) {
  std::vector<Setting> all;
  std::vector<std::string> files{"/etc/environment", "/etc/profile"};
  for (const std::string& file : machine.glob("/etc/profile.d/*.sh")) files.push_back(file);
  const std::string home = machine.user().home;
  if (!home.empty())
    for (const char* name : {".profile", ".bash_profile", ".bashrc", ".zshenv", ".zprofile", ".zshrc"})
      files.push_back(path_in(home, name));
  for (const std::string& file : files) {
    auto settings = parse_shell(machine.read(file).value_or(""), file);
    // pam_env reads this file and exports all of it.
    if (file == "/etc/environment")
      for (Setting& setting : settings) setting.exported = true;
    all.insert(all.end(), settings.begin(), settings.end());
  }
  return all;
}

std::string shell_file(const Machine& machine) {
  const bool zsh = machine.environment("SHELL").value_or("").ends_with("zsh");
  return path_in(machine.user().home, zsh ? ".zshrc" : ".bashrc");
}

}  // namespace athanor::doctor
