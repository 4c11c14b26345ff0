// Programs of CUDA and HIP: from source by NVRTC or hipRTC, and from binaries.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <mutex>

#include "athanor/backends/gpu/stream_driver.h"
#include "athanor/base/error.h"

namespace athanor::gpu {

// A program of the compiler, for as long as its result is read.
class StreamDriver::Compilation {
 public:
  Compilation(const CompilerApi& compiler, const std::string& architecture, const std::string& source,
              const std::string& name)
      : compiler_(compiler) {
    code_ = compiler.create(&program_, source.c_str(), (name + ".cu").c_str(), 0, nullptr, nullptr);
    if (code_ != 0) return;
    std::vector<const char*> options;
    const std::vector<std::string> words = compiler.options(architecture);
    for (const std::string& word : words) options.push_back(word.c_str());
    code_ = compiler.compile(program_, static_cast<int>(options.size()), options.data());
  }
  ~Compilation() {
    if (program_ != nullptr) compiler_.destroy(&program_);
  }
  Compilation(const Compilation&) = delete;
  Compilation& operator=(const Compilation&) = delete;

  bool failed() const { return code_ != 0; }

  /// What went wrong, and the log of at most so many characters.
  std::string problem(size_t most) const {
    constexpr size_t no_log = 1;  // the end of a string
    std::string text = compiler_.error_text(code_);
    size_t size = 0;
    if (program_ == nullptr || compiler_.log_size(program_, &size) != 0 || size <= no_log) return text;
    std::string log(size, '\0');
    if (compiler_.log(program_, log.data()) != 0) return text;
    log.resize(std::min(log.find('\0'), most));
    log.erase(log.find_last_not_of(" \n") + 1);
    return text + "\n" + log;
  }

  /// The program in one of the compiler's forms; "" where it has none.
  std::string result(const CompilerApi::Form& form) const {
    size_t size = 0;
    if (form.size(program_, &size) != 0 || size == 0) return {};
    std::string binary(size, '\0');
    return form.get(program_, binary.data()) == 0 ? binary : std::string();
  }

 private:
  const CompilerApi& compiler_;
  void* program_ = nullptr;
  int code_ = 0;
};

Module StreamDriver::load(const std::string& binary) {
  enter();
  Module module = nullptr;
  refused_ = api_.module_load(&module, binary.c_str());
  return refused_ == 0 ? module : nullptr;
}

void StreamDriver::refuse_compilation(const Compilation& failed, const std::string& doing) const {
  constexpr size_t most = 2000, few = 300;  // characters
  // Not an empty source: hipRTC may refuse that for any device.
  const Compilation nothing(compiler_, architecture_, "extern \"C\" __global__ void nothing() {}", "nothing");
  if (nothing.failed())
    throw Error(
        ErrorCode::device,
        fmt::format("cannot use {} ({}): {} compiles nothing for {}: {}", to_string(facts_.info.device),
                    facts_.info.name, compiler_.version, architecture_, nothing.problem(few)),
        {},
        "It may be older than the device: install a newer one ('athanor detect' shows which is used), "
        "or use the device by another backend.");
  throw Error(ErrorCode::device, fmt::format("{}: {}", doing, failed.problem(most)), {},
              "Please report it with this log. The driver's version is in 'athanor detect'.");
}

Module StreamDriver::compile(const std::string& source, const std::string& name, std::string* binary) {
  const std::string doing =
      fmt::format("{} cannot compile the kernel '{}'", to_string(facts_.info.device), name);
  static std::mutex compiling;
  std::unique_lock turn(compiling, std::defer_lock);
  if (compiler_.one_at_a_time) turn.lock();
  const Compilation compilation(compiler_, architecture_, source, name);
  if (compilation.failed()) refuse_compilation(compilation, doing);
  for (size_t i = form_; i < compiler_.forms.size(); ++i) {
    std::string made = compilation.result(compiler_.forms[i]);
    if (made.empty()) continue;
    if (const Module module = load(made); module != nullptr) {
      form_ = i;  // a driver that refused the better one for this kernel will do so for all
      if (binary != nullptr) *binary = std::move(made);
      return module;
    }
  }
  throw Error(ErrorCode::device,
              fmt::format("{}: the driver does not load what {} makes for {}: {}", doing, compiler_.version,
                          architecture_, error_name(refused_)),
              {}, compiler_.refused(compiler_, version_));
}

Function StreamDriver::find(Module module, const std::string& name) {
  enter();
  Function function = nullptr;
  check(api_.module_function(&function, module, name.c_str()), fmt::format("find the kernel '{}'", name));
  return function;
}

void StreamDriver::unload(Module module, Function) noexcept {
  try {
    enter();
    api_.module_unload(module);
  } catch (const std::exception&) {
    // A device that is lost has no modules.
  }
}

}  // namespace athanor::gpu
