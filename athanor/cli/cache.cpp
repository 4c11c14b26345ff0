// athanor cache
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "athanor/base/text.h"
#include "athanor/cli/cache_import.h"
#include "athanor/cli/commands.h"
#include "athanor/kernels/cache.h"

namespace athanor::cli {
namespace {

// Whether this is a kernel that was being compiled beside training when the program ended. It is tried once
// more (runtime/background_compiler.h).
bool is_of_background(const KernelCache::Entry& entry) { return entry.key.starts_with("background|"); }

// Splits a key at '|' into the device with the conditions of its results ("AMD EPYC, 2 cores (avx2, 2,
// 2.6.3)"), and the question, which is the key's last part; for an examination the question is Athanor's
// version and its sources' hash.
std::pair<std::string, std::string> split_key(const KernelCache::Entry& entry) {
  std::vector<std::string> parts = split(entry.key, '|');
  if (is_of_background(entry)) parts.erase(parts.begin());
  std::string question = parts.back();
  parts.pop_back();
  if (entry.kind == "examined" && !parts.empty()) question = "Athanor " + parts.back(), parts.pop_back();
  if (parts.empty()) return {"", question};
  const std::vector<std::string> rest(parts.begin() + 1, parts.end());
  return {rest.empty() ? parts.front() : fmt::format("{} ({})", parts.front(), join(rest)), question};
}

std::string line_of(const KernelCache::Entry& e, const std::string& what) {
  if (e.kind == "examined")
    return e.value.empty()
               ? fmt::format("  passed its examination by {} in {}\n", what, format_duration(e.seconds))
               : fmt::format("  failed its examination: {}\n", e.value.substr(0, e.value.find('\n')));
  return fmt::format(
      "  {}\n      {}{}{}{}\n", what,
      is_of_background(e)  ? "the program ended while it was compiled: "
      : e.kind == "marked" ? "never to be tried again: "
                           : "",
      e.value,
      e.seconds > 0 ? fmt::format("  {}, spread {:.0f} %", format_duration(e.seconds), 100 * e.spread) : "",
      e.disturbed ? "  (the machine was busy: provisional)" : "");
}

int list(bool json) {
  KernelCache& cache = KernelCache::instance();
  const auto entries = cache.entries();
  const std::string unused = cache.why_unused();
  if (json) {
    auto all = nlohmann::ordered_json::array();
    for (const auto& e : entries)
      all.push_back({{"kind", e.kind},
                     {"key", e.key},
                     {"value", e.value},
                     {"bytes", e.bytes},
                     {"seconds", e.seconds},
                     {"provisional", e.disturbed},
                     {"spread", e.spread}});
    nlohmann::ordered_json answer{{"file", cache.file().string()}, {"entries", all}};
    if (!unused.empty()) answer["not_used"] = unused;
    std::cout << answer.dump() << '\n';
    return 0;
  }
  if (!unused.empty()) {
    std::cout << fmt::format("{}: not used\n", cache.file().empty() ? "the cache" : cache.file().string());
    return 0;
  }
  int64_t winners = 0, marked = 0, binaries = 0, bytes = 0;
  std::vector<std::pair<std::string, std::string>> devices;  // with what is known about each
  for (const auto& e : entries) {
    if (e.kind == "binary") {
      ++binaries;
      bytes += e.bytes;
      continue;
    }
    if (e.key.find('|') == std::string::npos)
      continue;  // a mark of several kernels together (kernels/prepare.cpp)
    if (e.kind != "examined") (e.kind == "winner" ? winners : marked) += 1;
    const auto [device, what] = split_key(e);
    auto found = std::ranges::find(devices, device, &std::pair<std::string, std::string>::first);
    if (found == devices.end()) found = devices.insert(found, {device, ""});
    found->second += line_of(e, what);
  }
  for (const auto& [device, lines] : devices) std::cout << device << '\n' << lines << '\n';
  std::cout << fmt::format(
      "{}: {} tuning results, {} kernels marked as unusable, {} compiled kernels of {}\n",
      cache.file().string(), winners, marked, binaries, format_bytes(static_cast<uint64_t>(bytes)));
  return 0;
}

}  // namespace

void add_cache(CLI::App& program, int& exit_code) {
  CLI::App* command = program.add_subcommand(
      "cache", "List, export, import or clear stored tuning results and compiled kernels");
  command->require_subcommand(1);
  const auto json = std::make_shared<bool>(false);
  CLI::App* ls = command->add_subcommand("ls", "List what is stored");
  ls->add_flag("--json", *json, "print it as JSON");
  ls->callback([json, &exit_code] { exit_code = list(*json); });
  const auto file = std::make_shared<std::string>();
  CLI::App* save =
      command->add_subcommand("export", "Write everything to a file, for use on machines like this one");
  save->add_option("FILE", *file, "a new file")->required();
  save->callback([file, &exit_code] {
    KernelCache::instance().export_to(*file);
    exit_code = 0;
  });
  CLI::App* take = command->add_subcommand("import", "Add the contents of a file, and say what was in it");
  take->add_option("FILE", *file, "made by export")->required();
  take->add_flag("--json", *json, "say it as JSON");
  take->callback([file, json, &exit_code] { exit_code = import_cache(*file, *json); });
  CLI::App* clear = command->add_subcommand("clear", "Delete everything");
  clear->callback([&exit_code] {
    KernelCache::instance().clear();
    exit_code = 0;
  });
}

}  // namespace athanor::cli
