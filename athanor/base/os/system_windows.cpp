#ifdef _WIN32
#include <windows.h>
// windows.h must come first
#include <process.h>

#include <cstdlib>
#include <fstream>

#include "athanor/base/os/system.h"

namespace athanor::os {
namespace {

// The number of a process and the time of its start; "" if it does not run.
std::string identity_of(unsigned long number) {
  const HANDLE process = OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION | SYNCHRONIZE, FALSE, number);
  if (process == nullptr) return {};
  FILETIME start{}, end{}, kernel{}, user{};
  const bool runs = WaitForSingleObject(process, 0) == WAIT_TIMEOUT &&
                    GetProcessTimes(process, &start, &end, &kernel, &user) != 0;
  CloseHandle(process);
  if (!runs) return {};
  return std::to_string(number) + ' ' + std::to_string(start.dwHighDateTime) + ' ' +
         std::to_string(start.dwLowDateTime);
}

}  // namespace

std::optional<FileFacts> file_facts(const std::filesystem::path& path) {
  std::error_code failed;
  const auto status = std::filesystem::symlink_status(path, failed);
  if (failed || !std::filesystem::exists(status)) return std::nullopt;
  FileFacts facts;
  facts.mode = static_cast<uint32_t>(status.permissions());
  if (std::filesystem::is_symlink(status)) facts.kind = FileFacts::Kind::link;
  if (std::filesystem::is_directory(status)) facts.kind = FileFacts::Kind::folder;
  if (std::filesystem::is_regular_file(status)) {
    facts.kind = FileFacts::Kind::file;
    const auto size = std::filesystem::file_size(path, failed);
    facts.bytes = failed ? 0 : size;
  }
  return facts;
}

std::optional<std::string> read_some(const std::filesystem::path& path, size_t limit, bool from_end) {
  const auto facts = file_facts(path);
  if (!facts || facts->kind != FileFacts::Kind::file) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  if (from_end && facts->bytes > limit) file.seekg(static_cast<std::streamoff>(facts->bytes - limit));
  std::string text(static_cast<size_t>(std::min<uint64_t>(limit, facts->bytes)), '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

bool may_read(const std::filesystem::path& path) { return std::ifstream(path).good(); }
bool may_write(const std::filesystem::path& path) {
  std::error_code failed;
  const auto status = std::filesystem::status(path, failed);
  return !failed &&
         (status.permissions() & std::filesystem::perms::owner_write) != std::filesystem::perms::none;
}

std::error_code refusal_of_files(const std::filesystem::path& folder) {
  const std::filesystem::path name = folder / ("athanor-trial-" + std::to_string(_getpid()));
  if (!std::ofstream(name)) return std::make_error_code(std::errc::permission_denied);
  std::error_code ignored;
  std::filesystem::remove(name, ignored);
  return {};
}

std::optional<Space> space(const std::filesystem::path& path) {
  std::error_code failed;
  const auto facts = std::filesystem::space(path, failed);
  if (failed) return std::nullopt;
  return Space{facts.capacity, facts.available, false};
}

ProcessUser process_user() { return {}; }

std::string process_identity() { return identity_of(GetCurrentProcessId()); }

bool is_running(const std::string& identity) {
  return !identity.empty() && identity_of(std::strtoul(identity.c_str(), nullptr, 10)) == identity;
}

std::vector<std::string> environment() {
  std::vector<std::string> all;
  for (char** one = _environ; one != nullptr && *one != nullptr; ++one) all.emplace_back(*one);
  return all;
}

std::optional<std::string> kernel_messages(size_t) { return std::nullopt; }

}  // namespace athanor::os
#endif
