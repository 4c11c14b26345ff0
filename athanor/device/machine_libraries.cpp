// The folders that the dynamic linker would search, according to ld.so(8).
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "athanor/base/text.h"
#include "athanor/device/machine.h"

namespace athanor {
namespace {

constexpr size_t most_folders = 1000;

void add_folders_of(const Machine& machine, const std::string& file, std::vector<std::string>& folders) {
  // Each file is read once, even if files include each other.
  std::vector<std::string> files{file};
  std::set<std::string> seen;
  for (size_t i = 0; i < files.size() && folders.size() < most_folders; ++i) {
    if (!seen.insert(files[i]).second) continue;
    const std::string text = machine.read(files[i]).value_or("");
    for (const std::string& line : split(text, '\n')) {
      const std::string words = trim(line.substr(0, line.find('#')));
      if (words.starts_with("include ")) {
        const std::string pattern = trim(words.substr(8));
        for (std::string& one : machine.glob(pattern.starts_with('/') ? pattern : "/etc/" + pattern))
          files.push_back(std::move(one));
      } else if (words.starts_with('/')) {
        folders.push_back(words.substr(0, words.find('=')));
      }
    }
  }
}

}  // namespace

std::vector<std::string> Machine::libraries(std::string_view name_pattern) const {
  std::vector<std::string> folders;
  for (const std::string& folder : split(environment("LD_LIBRARY_PATH").value_or(""), ':'))
    if (folder.starts_with('/')) folders.push_back(folder);
  add_folders_of(*this, "/etc/ld.so.conf", folders);
  for (const char* folder : {"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu",
                             "/usr/lib/aarch64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"})
    folders.emplace_back(folder);
  std::vector<std::string> found;
  std::set<std::string> seen;
  for (const std::string& folder : folders) {
    const auto place = resolve(folder);
    if (!place || !seen.insert(*place).second) continue;  // /lib is often a link to /usr/lib
    for (const std::string& name : list(*place))
      if (matches_pattern(name, name_pattern)) found.push_back(fmt::format("{}/{}", folder, name));
  }
  return found;
}

}  // namespace athanor
