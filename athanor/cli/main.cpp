// The program `athanor`. Exit codes: 0, 1 for errors, 2 for a command line that makes no sense, 130 for
// Ctrl-C (128 + the number of whatever signal ended it).
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <string_view>

#include "athanor/base/os/interrupt.h"
#include "athanor/cli/commands.h"
#include "athanor/cli/compile_kernels.h"
#include "athanor/cli/examine.h"
#include "athanor/cli/help.h"
#include "athanor/cli/last_words.h"
#include "athanor/cli/output.h"
#include "athanor/cli/terminal.h"
#include "athanor/cli/usage.h"
#include "athanor/runtime/background_compiler.h"

namespace {

int run(int argc, char** argv) {
  CLI::App program("Athanor trains neural networks, and shows what it does.", "athanor");
  program.set_version_flag("--version", "athanor " ATHANOR_VERSION);
  program.require_subcommand(0, 1);
  program.formatter(std::make_shared<athanor::cli::WrappedHelp>(athanor::cli::screen_of_stdout().columns));
  int exit_code = 0;
  athanor::cli::add_train(program, exit_code);
  athanor::cli::add_eval(program, exit_code);
  athanor::cli::add_predict(program, exit_code);
  athanor::cli::add_runs(program, exit_code);
  athanor::cli::add_data(program, exit_code);
  athanor::cli::add_sample(program, exit_code);
  athanor::cli::add_explain(program, exit_code);
  athanor::cli::add_fit(program, exit_code);
  athanor::cli::add_detect(program, exit_code);
  athanor::cli::add_tune(program, exit_code);
  athanor::cli::add_cache(program, exit_code);
  athanor::cli::add_kernels(program, exit_code);
  athanor::cli::add_doctor(program, exit_code);
  athanor::cli::add_completion(program, exit_code);
  athanor::cli::add_examine_device(program, exit_code);
  athanor::cli::examine_devices_apart();
  athanor::cli::add_compile_kernels(program);
  athanor::cli::compile_kernels_apart();
  // Last, because commands take over their parent's footer when they are added.
  program.footer("'athanor COMMAND --help' describes a command. To start: athanor train");
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success))
      return program.exit(error);  // --help
    return athanor::cli::complain(athanor::cli::usage_error(program, error));
  }
  if (program.get_subcommands().empty()) {
    std::fputs(program.help().c_str(), stderr);
    return 2;
  }
  return exit_code;
}

int run_safely(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const athanor::Interrupted&) {
    std::cout.flush();
    athanor::deliver_interrupt();
    return 128 + athanor::interrupt_signal();
  } catch (const std::exception& error) {
    return athanor::cli::complain(error);
  }
}

}  // namespace

int main(int argc, char** argv) {
  athanor::cli::prepare_last_words();
  athanor::cli::CheckedOutput output;
  // doctor's 1 says that the machine has problems.
  const bool is_doctor = argc > 1 && std::string_view(argv[1]) == "doctor";
  const int exit_code = output.finish(run_safely(argc, argv), is_doctor ? 3 : 1);
  // A driver's compiler that hangs cannot be stopped, and all that matters is written.
  if (athanor::compilers_left_behind() > 0) std::_Exit(exit_code);
  return exit_code;
}
