#include "athanor/doctor/facts/nvidia.h"

#include <algorithm>

#include "athanor/base/text.h"

namespace athanor::doctor {
namespace {

// "535.161.08": three digits first, then others.
bool looks_like_driver(std::string_view word) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return word.size() >= 6 && word.size() <= 16 && digit(word[0]) && digit(word[1]) && digit(word[2]) &&
         word[3] == '.' &&
         std::all_of(word.begin(), word.end(), [&](char c) { return digit(c) || c == '.'; });
}

}  // namespace

std::string nvidia_module_version(std::string_view text) {
  const auto lines = split(text, '\n');
  for (const std::string& word : split(lines.front(), ' '))
    if (looks_like_driver(word)) return word;
  return {};
}

NvidiaDriver read_nvidia(const Machine& machine) {
  NvidiaDriver driver;
  driver.module_version = nvidia_module_version(machine.read("/proc/driver/nvidia/version").value_or(""));
  for (const std::string& path : machine.libraries("libnvidia-ml.so*")) {
    const std::string file = machine.resolve(path).value_or(path);
    const size_t at = file.rfind(".so.");
    if (at == std::string::npos || !looks_like_driver(std::string_view(file).substr(at + 4))) continue;
    driver.library_version = file.substr(at + 4);
    driver.library = file;
    break;
  }
  return driver;
}

}  // namespace athanor::doctor
