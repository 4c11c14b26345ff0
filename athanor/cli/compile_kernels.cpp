#include "athanor/cli/compile_kernels.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <utility>

#include "athanor/base/os/child.h"
#include "athanor/kernels/compile_apart.h"

namespace athanor::cli {

void compile_kernels_apart() {
  if (const std::string own = os::own_program(); !own.empty()) set_compiler_program({own, "compile-kernels"});
}

void add_compile_kernels(CLI::App& program) {
  CLI::App* command = program.add_subcommand("compile-kernels", "Compile what another process asks for")
                          ->group("");  // for the program itself
  const auto names = std::make_shared<std::pair<std::string, std::string>>();
  command->add_option("COMPILER", names->first)->required();
  command->add_option("TARGET", names->second)->required();
  command->callback([names] { serve_compiler(names->first, names->second); });
}

}  // namespace athanor::cli
