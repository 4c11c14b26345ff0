// athanor sample
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "athanor/base/error.h"
#include "athanor/cli/command_line.h"
#include "athanor/cli/commands.h"
#include "athanor/cli/examine.h"
#include "athanor/cli/numbers.h"
#include "athanor/cli/trained_model.h"
#include "athanor/train/sampling.h"

namespace athanor::cli {
namespace {

struct SamplingOptions {
  std::string checkpoint, prompt = "\n", device = "auto";
  SampleOptions sample;
  int64_t threads = 0;
  bool json = false;
};

void check_sampling(const SamplingOptions& options) {
  if (options.prompt.empty())
    throw Error(ErrorCode::usage, "the prompt is empty", "--prompt", "Give some text, or leave it out");
  if (options.sample.temperature < 0)
    throw Error(ErrorCode::usage, fmt::format("{:g} is not a temperature", options.sample.temperature),
                "--temperature",
                "Give a number from 0 on: 0 takes the most likely token, 1 draws as learned");
  if (options.sample.top_k < 0)
    throw Error(ErrorCode::usage, fmt::format("{} is not a number of tokens", options.sample.top_k),
                "--top-k", "Give a whole number from 1 on");
}

int sample(const SamplingOptions& options) {
  check_sampling(options);
  const TrainedModel trained = load_trained_model(options.checkpoint, options.device, options.threads);
  require_text(trained);
  const Autocast scope(parse_precision(trained.config.precision));
  const std::vector<int32_t> prompt = trained.tokenizer->encode(options.prompt);
  std::vector<int32_t> written;
  if (!options.json) std::cout << without_controls(options.prompt) << std::flush;
  sample_text(*trained.model, trained.device, trained.data.input[0], prompt, options.sample,
              [&](int32_t token) {
                written.push_back(token);
                if (!options.json)
                  std::cout << without_controls(trained.tokenizer->decode({&token, 1})) << std::flush;
                return static_cast<bool>(std::cout);
              });
  if (options.json) {
    nlohmann::ordered_json result{{"checkpoint", trained.path.string()},
                                  {"prompt", options.prompt},
                                  {"text", trained.tokenizer->decode(written)},
                                  {"tokens", written}};
    add_trust_note(result, trained.device);
    std::cout << result.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  }
  std::cout << '\n';
  return 0;
}

}  // namespace

void add_sample(CLI::App& program, int& exit_code) {
  CLI::App* command = program.add_subcommand("sample", "Continue a text with a trained language model");
  const auto options = std::make_shared<SamplingOptions>();
  command
      ->add_option("checkpoint,--checkpoint", options->checkpoint,
                   "a run's folder or its checkpoint (default: the newest in ./runs)")
      ->option_text("PATH");
  command->add_option("--prompt", options->prompt, "the text to continue (default: the end of a line)")
      ->option_text("TEXT");
  add_number(*command, "--tokens", options->sample.tokens, "tokens to write (default 200)")->option_text("N");
  add_number(
      *command, "--temperature", options->sample.temperature,
      "below 1: more likely text; above 1: more surprising text; 0: always the most likely token (default 1)")
      ->option_text("X");
  add_number(*command, "--top-k", options->sample.top_k,
             "draw from the N most likely tokens (default: from all)")
      ->option_text("N");
  add_number(*command, "--seed", options->sample.seed, "another seed gives another text (default 0)")
      ->option_text("N");
  suggest(command->add_option("--device", options->device, device_help() + " (default auto)"), device_words())
      ->option_text("NAME");
  add_trust_option(*command);
  add_number(*command, "--threads", options->threads, "threads of the CPU's kernels (default: the run's)")
      ->option_text("N");
  command->add_flag("--json", options->json, "print one line of JSON");
  command->callback([command, options, &exit_code] {
    at_least_one(*command, {"--tokens", "--threads", "--top-k"});
    exit_code = sample(*options);
  });
}

}  // namespace athanor::cli
