#include "athanor/kernels/compile_apart.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <stop_token>
#include <system_error>
#include <thread>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/base/os/helper.h"
#include "athanor/base/os/library.h"
#include "athanor/base/startup_registry.h"

namespace athanor {
namespace {

// Each loads NVRTC or hipRTC, which takes some hundred megabytes.
const int most_processes = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 4U, 16U));
constexpr double patience_with_a_compiler = 300;  // seconds

using Compilers = std::map<std::string, CompileSource>;
StartupRegistry<Compilers>& compilers() {
  static StartupRegistry<Compilers> all;
  return all;
}

// The program `athanor` that was built or installed with this library.
std::vector<std::string> program_of_this_library() {
  const std::filesystem::path folder = std::filesystem::path(os::file_of_this_library()).parent_path();
  for (const char* below : {"athanor", "../bin/athanor", "../../bin/athanor"}) {
    std::error_code missing;
    const std::filesystem::path file = folder / below;
    if (!folder.empty() && std::filesystem::is_regular_file(file, missing))
      return {file.string(), "compile-kernels"};
  }
  return {};
}

std::vector<std::string>& compiler_program() {
  static std::vector<std::string> words = program_of_this_library();
  return words;
}

std::atomic<int> processes{0};
// How many processes in a row did not answer. One may lack memory; if the next does not answer either, the
// program cannot be started, for example.
std::atomic<int> failures{0};
constexpr int most_failures = 2;

thread_local std::stop_token told_to_stop;  // the scope's

// A process that has answered once works.
class CompilerProcess {
 public:
  explicit CompilerProcess(std::vector<std::string> words) : helper_(std::move(words)) {
    if (processes > most_processes) return;
    works_ = helper_.ask({}, patience_with_a_compiler, told_to_stop).has_value();
    failures = works_ ? 0 : failures + 1;
  }
  CompilerProcess(const CompilerProcess&) = delete;
  CompilerProcess& operator=(const CompilerProcess&) = delete;

  bool works() const { return works_; }
  std::optional<std::string> compile(const std::string& source, const std::string& name) {
    return helper_.ask(name + '\n' + source, patience_with_a_compiler, told_to_stop);
  }

 private:
  struct Count {
    Count() { ++processes; }
    ~Count() { --processes; }
    Count(const Count&) = delete;
    Count& operator=(const Count&) = delete;
  } count_;
  os::Helper helper_;
  bool works_ = false;
};

// This thread's.
thread_local int scopes = 0;
thread_local std::string process_for;
thread_local std::unique_ptr<CompilerProcess> process;

CompilerProcess* process_of_this_thread(const std::string& compiler, const std::string& target) {
  if (scopes == 0 || compiler_program().empty() || failures >= most_failures) return nullptr;
  const std::string wanted = compiler + '\n' + target;
  if (process && process_for == wanted) return process.get();
  process.reset();
  if (processes >= most_processes) return nullptr;
  std::vector<std::string> words = compiler_program();
  words.insert(words.end(), {compiler, target});
  process = std::make_unique<CompilerProcess>(std::move(words));
  process_for = wanted;
  if (!process->works()) process.reset();
  return process.get();
}

}  // namespace

bool register_compiler(const std::string& compiler, CompileSource compile) {
  compilers().add([&](Compilers& all) {
    if (!all.emplace(compiler, std::move(compile)).second)
      throw Error(ErrorCode::internal, fmt::format("two compilers with the name '{}'", compiler));
  });
  return true;
}

void set_compiler_program(std::vector<std::string> words) {
  compiler_program() = std::move(words);
  failures = 0;
}

void serve_compiler(const std::string& compiler, const std::string& target) {
  const Compilers& all = compilers().list();
  const auto found = all.find(compiler);
  if (found == all.end()) throw Error(ErrorCode::name, fmt::format("no compiler '{}'", compiler));
  os::answer_questions([&](const std::string& question) -> std::string {
    const size_t end = question.find('\n');
    if (end == std::string::npos) return {};  // only asks whether this process answers
    return found->second(target, question.substr(end + 1), question.substr(0, end));
  });
}

CompileApartScope::CompileApartScope() { ++scopes; }
CompileApartScope::CompileApartScope(std::stop_token stop) : CompileApartScope() {
  told_to_stop = std::move(stop);
}

CompileApartScope::~CompileApartScope() {
  if (--scopes > 0) return;
  process.reset();
  told_to_stop = {};
}

bool prefers_to_compile_apart() { return told_to_stop.stop_possible(); }

std::optional<std::string> compile_apart(const std::string& compiler, const std::string& target,
                                         const std::string& source, const std::string& name) {
  constexpr int times = 2;  // one may have ended for lack of memory
  for (int i = 0; i < times; ++i) {
    CompilerProcess* const own = process_of_this_thread(compiler, target);
    if (own == nullptr) return {};
    auto binary = own->compile(source, name);
    if (binary) return binary->empty() ? std::nullopt : std::move(binary);
    process.reset();
  }
  throw Error(
      ErrorCode::device,
      fmt::format("the compiler of {} ended over the kernel '{}', in a process of its own", target, name));
}

}  // namespace athanor
