#include "athanor/doctor/redact.h"

#include <algorithm>
#include <charconv>

#include "athanor/base/text.h"

namespace athanor::doctor {
namespace {

bool digit(char c) { return c >= '0' && c <= '9'; }
bool hex(char c) { return digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool in_word(char c) { return letter(c) || digit(c) || c == '_'; }

size_t run_of_hex(std::string_view text) {
  size_t length = 0;
  while (length < text.size() && hex(text[length])) ++length;
  return length;
}

// Each of these returns the length of such an item at the start of a text, or 0.

size_t uuid_at(std::string_view text) {  // 8-4-4-4-12 hexadecimal digits
  size_t at = 0;
  for (const size_t digits : {8, 4, 4, 4, 12}) {
    if (at > 0 && (at >= text.size() || text[at++] != '-')) return 0;
    if (run_of_hex(text.substr(std::min(at, text.size()))) != digits) return 0;
    at += digits;
  }
  return at;
}

size_t mac_at(std::string_view text) {  // six pairs
  for (const char separator : {':', '-'}) {
    size_t at = 0;
    int pairs = 0;
    while (pairs < 6 && run_of_hex(text.substr(std::min(at, text.size()))) == 2) {
      ++pairs, at += 2;
      if (pairs < 6 && (at >= text.size() || text[at++] != separator)) break;
    }
    if (pairs == 6 && (at >= text.size() || text[at] != separator)) return at;
  }
  return 0;
}

size_t ipv4_at(std::string_view text) {
  size_t at = 0;
  for (int part = 0; part < 4; ++part) {
    if (part > 0 && (at >= text.size() || text[at++] != '.')) return 0;
    int number = 0;
    size_t digits = 0;
    while (at < text.size() && digit(text[at]) && digits < 4)
      number = number * 10 + (text[at++] - '0'), ++digits;
    if (digits == 0 || digits > 3 || number > 255) return 0;
  }
  // A longer row of numbers is a version number.
  return at < text.size() && (text[at] == '.' || digit(text[at])) && at + 1 < text.size() &&
                 digit(text[at + 1])
             ? 0
             : at;
}

// Eight groups, or fewer with "::". C++ has "a::b" too, so of two groups one must be longer than any such
// name.
size_t ipv6_at(std::string_view text) {
  size_t at = 0, groups = 0;
  bool shortened = false, long_group = false;
  while (at < text.size() && groups < 8) {
    const size_t digits = run_of_hex(text.substr(at));
    if (digits > 4) return 0;
    if (digits > 0) ++groups;
    long_group = long_group || digits == 4;
    at += digits;
    if (text.substr(at, 2) == "::" && !shortened)
      shortened = true, at += 2;
    else if (at < text.size() && text[at] == ':' && digits > 0 && at + 1 < text.size() && hex(text[at + 1]))
      ++at;
    else
      break;
  }
  return (shortened && groups >= (long_group ? 2 : 3)) || groups == 8 ? at : 0;
}

size_t mail_at(std::string_view text) {
  size_t at = 0;
  while (at < text.size() && (in_word(text[at]) || text[at] == '.' || text[at] == '-' || text[at] == '+'))
    ++at;
  if (at == 0 || at > 64 || at >= text.size() || text[at] != '@') return 0;
  const size_t host = ++at;
  bool dot = false;
  for (; at < text.size() && (in_word(text[at]) || text[at] == '.' || text[at] == '-'); ++at)
    dot = dot || text[at] == '.';
  return dot && at > host + 2 ? at : 0;
}

// "serial: X", "Serial Number: X", "unique_id 0x...": the length of the label. The text after it is the
// secret.
size_t serial_label_at(std::string_view text) {
  for (const std::string_view label : {"serial number", "serial_number", "serialno", "serial", "unique_id",
                                       "machine-id", "machine_id", "asset tag"}) {
    if (text.size() < label.size()) continue;
    size_t same = 0;
    while (same < label.size() &&
           (text[same] == label[same] || (letter(text[same]) && (text[same] | 0x20) == label[same])))
      ++same;
    if (same == label.size()) return label.size();
  }
  return 0;
}

}  // namespace

Redaction::Redaction(const Machine& machine) {
  const auto add = [](auto& names, const std::string& name) {
    // Shorter names occur in too many words. The system's own names reveal nothing.
    if (name.size() >= 2 && name != "root" && name != "localhost" && name != "nobody" && name != "home")
      names.insert(name);
  };
  for (const std::string& line : split(machine.read("/etc/passwd").value_or(""), '\n')) {
    const auto parts = split(line, ':');
    int64_t uid = 0;
    if (parts.size() < 6) continue;
    std::from_chars(parts[2].data(), parts[2].data() + parts[2].size(), uid);
    if (uid < 1000 || uid >= 65000) continue;
    add(users_, parts[0]);
    // The full name, and each of its words.
    const std::string full = split(parts[4], ',').front();
    add(users_, full);
    for (const std::string& word : split(full, ' '))
      if (word.size() >= 4) add(users_, word);
    add(users_, parts[5].substr(parts[5].rfind('/') + 1));
  }
  add(users_, machine.user().name);
  add(users_, machine.user().home.substr(machine.user().home.rfind('/') + 1));
  for (const char* variable : {"USER", "LOGNAME", "SUDO_USER"})
    add(users_, machine.environment(variable).value_or(""));
  for (const std::string& folder : machine.list("/home")) add(users_, folder);
  for (const char* file : {"/etc/hostname", "/proc/sys/kernel/hostname", "/proc/sys/kernel/domainname"}) {
    const std::string name = machine.read_line(file).value_or("");
    if (name == "(none)") continue;
    add(hosts_, name);
    add(hosts_, split(name, '.').front());
  }
  add(hosts_, machine.environment("HOSTNAME").value_or(""));
  for (const char* pattern :
       {"/sys/class/dmi/id/*serial*", "/sys/class/dmi/id/*asset_tag*", "/sys/bus/pci/devices/*/unique_id",
        "/etc/machine-id", "/var/lib/dbus/machine-id", "/sys/class/net/*/address",
        "/sys/bus/pci/devices/*/serial_number"})
    for (const std::string& file : machine.glob(pattern)) {
      const std::string value = machine.read_line(file).value_or("");
      if (value.size() >= 6) serials_.insert(value);
    }
}

std::string Redaction::operator()(std::string_view text) const {
  std::string out;
  const auto name_at = [](const auto& names, std::string_view rest) -> size_t {
    for (const std::string& name : names)
      if (rest.starts_with(name) && (rest.size() == name.size() || !in_word(rest[name.size()])))
        return name.size();
    return 0;
  };
  bool secret_follows = false;
  for (size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    const bool begins = at == 0 || !in_word(text[at - 1]);
    size_t length = 0;
    const char* word = "";
    if (text[at] == '\n') secret_follows = false;
    if (begins) {
      if ((length = uuid_at(rest)) > 0)
        word = "<uuid>";
      else if ((length = mac_at(rest)) > 0)
        word = "<mac>";
      else if ((length = name_at(serials_, rest)) > 0)
        word = "<serial>";
      else if ((length = mail_at(rest)) > 0)
        word = "<mail>";
      else if ((length = ipv4_at(rest)) > 0)
        word = "<ip>";
      else if ((length = ipv6_at(rest)) > 0)
        word = "<ip>";
      else if ((length = name_at(users_, rest)) > 0)
        word = "<user>";
      else if ((length = name_at(hosts_, rest)) > 0)
        word = "<host>";
      else if (secret_follows && in_word(text[at])) {
        while (length < rest.size() && (in_word(rest[length]) || rest[length] == '-')) ++length;
        word = "<serial>";
        secret_follows = false;
      } else if (const size_t label = serial_label_at(rest); label > 0) {
        out += rest.substr(0, label);
        at += label;
        secret_follows = true;
        continue;
      }
    }
    if (length > 0) {
      out += word;
      at += length;
      secret_follows = false;
    } else {
      out += text[at++];
    }
  }
  return out;
}

}  // namespace athanor::doctor
