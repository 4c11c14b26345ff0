// The program `athanor`. Exit codes: 0, 1 for errors, 2 for a command line that makes no sense, 130 for
// Ctrl-C.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <new>

#include "athanor/base/error.h"
#include "athanor/cli/commands.h"
#include "athanor/cli/usage.h"

namespace {

using athanor::Error;
using athanor::ErrorCode;

int complain(const Error& error) {
  std::fflush(stdout);
  std::fprintf(stderr, "athanor: error: %s\n", error.what());
  return error.code() == ErrorCode::usage ? 2 : 1;
}

int run(int argc, char** argv) {
  CLI::App program("Athanor trains neural networks, and shows what it does.", "athanor");
  program.set_version_flag("--version", "athanor " ATHANOR_VERSION);
  program.require_subcommand(0, 1);
  program.get_formatter()->column_width(32);
  program.footer("'athanor COMMAND --help' tells more. A first run: athanor train");
  int exit_code = 0;
  athanor::cli::add_train(program, exit_code);
  athanor::cli::add_eval(program, exit_code);
  athanor::cli::add_predict(program, exit_code);
  athanor::cli::add_explain(program, exit_code);
  athanor::cli::add_detect(program, exit_code);
  athanor::cli::add_tune(program, exit_code);
  athanor::cli::add_cache(program, exit_code);
  athanor::cli::add_kernels(program, exit_code);
  athanor::cli::add_doctor(program, exit_code);
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success))
      return program.exit(error);  // --help
    return complain(athanor::cli::usage_error(program, error));
  }
  if (program.get_subcommands().empty()) {
    std::fputs(program.help().c_str(), stderr);
    return 2;
  }
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const Error& error) {
    return complain(error);
  } catch (const std::bad_alloc&) {
    return complain(
        {ErrorCode::out_of_memory, "there is not enough memory", {}, "Try a smaller --batch-size"});
  } catch (const std::exception& error) {
    return complain({ErrorCode::internal, error.what()});
  }
}
