#include "athanor/doctor/command.h"

#include <algorithm>
#include <map>

#include "athanor/base/text.h"

namespace athanor::doctor {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool consists_of(std::string_view text, std::string_view others) {
  return std::all_of(text.begin(), text.end(),
                     [&](char c) { return is_letter(c) || is_digit(c) || others.find(c) != others.npos; });
}

// A word that needs no quotes, and is no option and no path: "12.8", "gfx1030", "6.8.0-48-generic".
bool is_plain_word(std::string_view text) {
  return !text.empty() && text.size() <= 128 && (is_letter(text[0]) || is_digit(text[0])) &&
         consists_of(text, ".+_~:-");
}

bool is_number(std::string_view text) {
  return !text.empty() && text.size() <= 12 && std::all_of(text.begin(), text.end(), is_digit);
}

// A requirement for pip: "jax[cuda13]", "torch==2.12.*".
bool is_requirement(std::string_view text) {
  const size_t end = std::min(text.find_first_of("[=<>!"), text.size());
  return text.size() <= 128 && is_plain_word(text.substr(0, end)) &&
         consists_of(text.substr(end), ".+_~:-[],=<>!*");
}

// A user's account. Not "nobody", which many services share: what is given to it is given to all of them.
bool is_account(std::string_view text) {
  return !text.empty() && text.size() <= 64 && (is_letter(text[0]) || is_digit(text[0]) || text[0] == '_') &&
         consists_of(text, "._-") && text != "nobody" && text != "65534";
}

// A group of devices, but not one of these: whoever joins one of them gets access to more than a GPU.
bool is_device_group(std::string_view text) {
  constexpr std::string_view powerful[] = {"root",   "wheel",  "sudo",   "admin",   "adm",    "disk",
                                           "shadow", "docker", "lxd",    "libvirt", "kmem",   "staff",
                                           "backup", "kvm",    "daemon", "sys",     "nogroup"};
  return is_account(text) && text != "0" &&
         std::find(std::begin(powerful), std::end(powerful), text) == std::end(powerful);
}

bool is_variable(std::string_view text) {
  constexpr std::string_view not_ours[] = {"PATH", "HOME", "IFS",  "SHELL",      "ENV",
                                           "PWD",  "USER", "TERM", "LD_PRELOAD", "BASH_ENV"};
  return !text.empty() && text.size() <= 64 && !is_digit(text[0]) && consists_of(text, "_") &&
         std::find(std::begin(not_ours), std::end(not_ours), text) == std::end(not_ours);
}

// The value of a variable: any printable text without $ and `, which a shell would expand.
bool is_value(std::string_view text) {
  return text.size() <= 4096 && printable(text) == text && text.find_first_of("$`") == text.npos;
}

bool is_download(std::string_view text) {
  return text.starts_with("https://") && consists_of(text, ":/._-+");
}

// PCI addresses, "0000:01:00.0", joined by a character.
template <char joint>
bool is_addresses(std::string_view text) {
  constexpr std::string_view form = "0000:00:00.0";
  const auto all = split(text, joint);
  return std::all_of(all.begin(), all.end(), [&](const std::string& one) {
    return std::equal(one.begin(), one.end(), form.begin(), form.end(), [](char c, char mold) {
      return mold == '0' ? is_digit(c) || (c >= 'a' && c <= 'f') : c == mold;
    });
  });
}

// The name of a file in a folder that the command itself names.
bool is_file_name(std::string_view text) {
  return !text.empty() && text.size() <= 255 && text[0] != '-' && text[0] != '.' &&
         text.find('/') == text.npos && printable(text) == text;
}

// A Python environment that doctor knows, and that does not come from a package of the system.
const PythonEnvironment* own_environment(const Facts& facts, const OwnFiles& own, const std::string& prefix) {
  for (const PythonEnvironment& one : facts.pythons())
    if (one.prefix == prefix && one.kind == "venv" && prefix != own.home &&
        !own.home.starts_with(prefix + "/") && !leads_to_system(facts.machine(), prefix) &&
        facts.machine().status(prefix).uid == facts.machine().user().uid)
      return &one;
  return nullptr;
}

// The Python of an environment: the system's, one in /opt, or a user's.
bool is_python(const Facts& facts, const std::string& program) {
  for (const PythonEnvironment& one : facts.pythons())
    if (one.python() == program)
      return is_plain_path(program) && !one.version.empty() &&
             (one.prefix == "/usr" || one.prefix == "/usr/local" || one.prefix.starts_with("/opt/") ||
              !leads_to_system(facts.machine(), one.prefix));
  return false;
}

bool is_mount_point(const OwnFiles& own, std::string_view path) {
  return path == "/" || path == "/home" || path == "/tmp" || (!own.home.empty() && path == own.home);
}

using Rule = bool (*)(const std::string&, const Facts&, const OwnFiles&);

template <bool (*rule)(std::string_view)>
bool text_rule(const std::string& text, const Facts&, const OwnFiles&) {
  return rule(text);
}

const std::map<std::string, Rule, std::less<>>& rules() {
  static const auto all = [] {
    std::map<std::string, Rule, std::less<>> map;
    for (const char* name : {"arch", "branch", "kernel", "needed", "newest", "old", "vendor", "version"})
      map[name] = text_rule<is_plain_word>;
    for (const char* name :
         {"gpu_package", "old_plugin", "package", "packages", "plugin", "requirement", "torch"})
      map[name] = text_rule<is_requirement>;
    for (const char* name : {"gid", "pages", "port"}) map[name] = text_rule<is_number>;
    map["ports"] = text_rule<is_addresses<';'>>;
    map["port_words"] = text_rule<is_addresses<' '>>;
    for (const char* name : {"icd_file", "modprobe_file"}) map[name] = text_rule<is_file_name>;
    map["group"] = text_rule<is_device_group>;
    map["index"] = text_rule<is_download>;
    map["user"] = text_rule<is_account>;
    map["value"] = text_rule<is_value>;
    map["variable"] = text_rule<is_variable>;
    map["cache_folder"] = [](const std::string& path, const Facts&, const OwnFiles& own) {
      return !path.empty() && path == own.cache;
    };
    map["cache_file"] = [](const std::string& path, const Facts&, const OwnFiles& own) {
      return !path.empty() && path == own.database;
    };
    map["environment"] = [](const std::string& path, const Facts& facts, const OwnFiles& own) {
      return own_environment(facts, own, path) != nullptr;
    };
    map["folder"] = [](const std::string& path, const Facts&, const OwnFiles& own) {
      return path == "/var/tmp" || is_mount_point(own, path);
    };
    // No command contains it. It has a value if there are files that --fix can change.
    map["home"] = [](const std::string& path, const Facts&, const OwnFiles& own) {
      return !path.empty() && path == own.home && !own.environment.empty() && !own.start.empty();
    };
    map["mount_point"] = [](const std::string& path, const Facts&, const OwnFiles& own) {
      return is_mount_point(own, path);
    };
    map["python"] = [](const std::string& path, const Facts& facts, const OwnFiles&) {
      return is_python(facts, path);
    };
    return map;
  }();
  return all;
}

}  // namespace

bool may_stand_in_commands(std::string_view placeholder) { return rules().contains(placeholder); }

Values CommandWords::of(const Values& values) const {
  Values words;
  for (const auto& [name, value] : values)
    if (const auto rule = rules().find(name); rule != rules().end() && rule->second(value, *facts_, own_))
      words[name] = name == "port_words" ? value : shell_word(value);  // these are several words
  return words;
}

}  // namespace athanor::doctor
