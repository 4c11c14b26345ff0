#include "athanor/backends/gpu/runtime_compiler.h"

#include <algorithm>

namespace athanor::gpu {

Compilation::Compilation(const CompilerApi& compiler, const std::string& architecture,
                         const std::string& source, const std::string& name)
    : compiler_(compiler) {
  code_ = compiler.create(&program_, source.c_str(), (name + ".cu").c_str(), 0, nullptr, nullptr);
  if (code_ != 0) return;
  std::vector<const char*> options;
  const std::vector<std::string> words = compiler.options(architecture);
  for (const std::string& word : words) options.push_back(word.c_str());
  code_ = compiler.compile(program_, static_cast<int>(options.size()), options.data());
}

Compilation::~Compilation() {
  if (program_ != nullptr) compiler_.destroy(&program_);
}

std::string Compilation::problem(size_t most) const {
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

std::string Compilation::result(const CompilerApi::Form& form) const {
  size_t size = 0;
  if (form.size(program_, &size) != 0 || size == 0) return {};
  std::string binary(size, '\0');
  return form.get(program_, binary.data()) == 0 ? binary : std::string();
}

std::string Compilation::best_result(size_t form) const {
  if (failed()) return {};
  for (; form < compiler_.forms.size(); ++form)
    if (std::string made = result(compiler_.forms[form]); !made.empty()) return made;
  return {};
}

}  // namespace athanor::gpu
