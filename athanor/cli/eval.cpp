// athanor eval
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "athanor/base/error.h"
#include "athanor/base/file.h"
#include "athanor/base/text.h"
#include "athanor/base/writable.h"
#include "athanor/cli/command_line.h"
#include "athanor/cli/commands.h"
#include "athanor/cli/doing.h"
#include "athanor/cli/examine.h"
#include "athanor/cli/numbers.h"
#include "athanor/cli/trained_model.h"
#include "athanor/data/first_examples.h"
#include "athanor/data/open_dataset.h"
#include "athanor/nn/models.h"
#include "athanor/train/classification.h"
#include "athanor/train/confusion_svg.h"
#include "athanor/train/masked_language_modelling.h"
#include "athanor/train/regression.h"
#include "athanor/train/segmentation.h"
#include "athanor/train/test_set.h"

namespace athanor::cli {
namespace {

struct EvalOptions {
  std::string checkpoint, data, confusion, device = "auto";
  int64_t batch_size = 0, threads = 0, examples = 0;
  bool json = false;
};

void check_shapes(const ExampleSpec& model, const ExampleSpec& data, const std::string& name) {
  if (model.input == data.input && data.classes <= model.classes) return;
  throw Error(ErrorCode::shape,
              fmt::format("the examples are {} of {} classes, the model takes {} of {}",
                          to_string(data.input), data.classes, to_string(model.input), model.classes),
              name, "Give the data it was trained on, or similar data");
}

TestResult tested(const TrainedModel& trained, const Task& task, int64_t batch_size) {
  Doing doing("eval on " + to_string(trained.device), Doing::Elsewhere::now_and_then);
  const ScopedWaitListener waits = shown_as(doing);
  doing.say("compiling", "");
  const Autocast scope(parse_precision(trained.config.precision));
  const std::string many = task.scoring()->unit().many;
  return test_model(*trained.model, trained.device, task, batch_size, [&](int64_t done) {
    doing.say("testing", fmt::format("{} of {} {}", done, task.test_count(), many));
    return true;
  });
}

std::string classes_line(const TestResult& test, const std::vector<std::string>& names) {
  if (!test.classes) return {};
  std::vector<std::string> parts;
  for (const Measure& measure : test.measures) parts.push_back(measure.text);
  if (const std::string mistake = worst_mistake(*test.classes, names); !mistake.empty())
    parts.push_back(mistake);
  const bool pixels = by_name(test.measures).contains("mean_iou");
  return join(parts) + "\n" + (pixels ? "IoU: " + iou_of_classes(*test.classes, names) + "\n" : "");
}

void write_confusion(const std::string& file, const TrainedModel& trained, const std::string& data,
                     const TestResult& test) {
  if (!test.classes || test.classes->classes() > most_drawn_classes)
    throw Error(ErrorCode::usage,
                test.classes ? fmt::format("{} classes are too many to draw", test.classes->classes())
                             : "the model's task has no classes",
                "--confusion", "Leave it out");
  write_file_atomically(
      file, draw_confusion(
                *test.classes, trained.data.class_names,
                fmt::format("{} on {}: what is taken for what", trained.config.model, dataset_title(data)),
                fmt::format("{} test {} after {} steps", grouped(test.classes->total()),
                            trained.data.pixels            ? "pixels"
                            : trained.data.columns.empty() ? "images"
                                                           : "examples",
                            grouped(trained.steps))));
}

std::string result_line(const Task& task, const std::string& data, const TestResult& sum) {
  if (dynamic_cast<const Classification*>(&task) != nullptr)
    return fmt::format("{:.2f} % of {} test {} of {} are right, mean loss {:.4f}\n", 100 * sum.accuracy(),
                       sum.count, task.scoring()->unit().many, data, sum.mean_loss()) +
           classes_line(sum, task.spec().class_names);
  if (dynamic_cast<const Segmentation*>(&task) != nullptr)
    return fmt::format("{:.2f} % of {} test pixels of {} are right, mean loss {:.4f}\n", 100 * sum.accuracy(),
                       sum.count, data, sum.mean_loss()) +
           classes_line(sum, task.spec().class_names);
  ResultText words = task.scoring()->in_words(sum.mean_loss(), sum.accuracy(), sum.count);
  for (const Measure& measure : sum.measures) words.rest += ", " + measure.text;
  return fmt::format("{}{} ({}), mean loss {:.4f}\n", words.figure, words.rest, data, sum.mean_loss());
}

/// The task of testing on the dataset's test images or on the text that was held back; if --data names
/// another text, on all of it.
std::unique_ptr<const Task> task_of(const TrainedModel& trained, const EvalOptions& options,
                                    const std::string& data) {
  if (nn::is_language_model(trained.config.model)) {
    const double share = options.data.empty() ? trained.config.validation : 1;
    auto text = std::make_shared<const SplitText>(read_text(data, *trained.tokenizer, share));
    LanguageModellingOptions of{.tokenizer = trained.tokenizer,
                                .text = std::move(text),
                                .windows = {.context = trained.data.input[0], .seed = trained.config.seed},
                                .most_test_windows = options.examples};
    if (nn::objective_of(trained.config.model) == nn::Objective::masked_tokens)
      return std::make_unique<MaskedLanguageModelling>(std::move(of));
    return std::make_unique<LanguageModelling>(std::move(of));
  }
  const bool numbers = !trained.data.targets.empty();
  auto dataset = first_examples(
      open_dataset(data, Split::test,
                   {.like = trained.data, .numbers = numbers, .target = trained.config.target}),
      options.examples);
  check_shapes(trained.data, dataset->spec(), data);
  if (trained.data.pixels && !dataset->spec().pixels)
    throw Error(ErrorCode::usage, "the data has no masks", data, "Give a folder with images/ and masks/");
  const auto workers = static_cast<int>(trained.config.workers);
  if (numbers)
    return std::make_unique<Regression>(
        RegressionOptions{.train = {},
                          .test = std::move(dataset),
                          .loss = trained.config.loss.empty() ? "mse" : trained.config.loss,
                          .workers = workers});
  if (trained.data.pixels)
    return std::make_unique<Segmentation>(
        SegmentationOptions{.train = {}, .test = std::move(dataset), .workers = workers});
  return std::make_unique<Classification>(
      ClassificationOptions{.train = {}, .test = std::move(dataset), .workers = workers});
}

int evaluate(const EvalOptions& options) {
  if (!options.confusion.empty()) check_writable(options.confusion);
  const TrainedModel trained = load_trained_model(options.checkpoint, options.device, options.threads);
  const std::string data = options.data.empty() ? trained.config.data : options.data;
  const std::unique_ptr<const Task> task = task_of(trained, options, data);
  const int64_t batch_size = options.batch_size > 0 ? options.batch_size : trained.config.part_size();
  const TestResult sum = tested(trained, *task, batch_size);
  const auto scoring = task->scoring();
  if (!options.confusion.empty()) write_confusion(options.confusion, trained, data, sum);
  if (options.json) {
    nlohmann::ordered_json result{{"checkpoint", trained.path.string()},
                                  {"data", data},
                                  {"device", to_string(trained.device)},
                                  {"steps", trained.steps},
                                  {scoring->unit().many, sum.count}};
    const std::string quality = scoring->quality().field;
    if (quality == "accuracy") result["correct"] = static_cast<int64_t>(sum.correct);
    result["test_loss"] = sum.mean_loss();
    result["test_" + quality] = sum.accuracy();
    for (const Measure& measure : scoring->measures(sum.mean_loss(), sum.accuracy()))
      result["test_" + measure.name] = measure.value;
    for (const Measure& measure : sum.measures) result["test_" + measure.name] = measure.value;
    add_trust_note(result, trained.device);
    std::cout << result.dump() << '\n';
  } else {
    std::cout << fmt::format("{} after {} step{} ({})\n", trained.config.model, grouped(trained.steps),
                             trained.steps == 1 ? "" : "s", trained.path.string())
              << fmt::format("on {}\n", device_line(trained)) << result_line(*task, data, sum);
  }
  return 0;
}

}  // namespace

void add_eval(CLI::App& program, int& exit_code) {
  CLI::App* command =
      program.add_subcommand("eval", "Test a trained model on test examples, or on text that was held back");
  const auto options = std::make_shared<EvalOptions>();
  command
      ->add_option("checkpoint,--checkpoint", options->checkpoint,
                   "a run's folder or its checkpoint (default: the newest in ./runs)")
      ->option_text("PATH");
  suggest(command->add_option("--data", options->data,
                              "other data than the run's: NAME or DIR of a dataset, or a text file"),
          dataset_names())
      ->option_text("NAME|DIR|FILE");
  suggest(command->add_option("--device", options->device, device_help() + " (default auto)"), device_words())
      ->option_text("NAME");
  add_trust_option(*command);
  add_number(*command, "--batch-size", options->batch_size, "images in a batch (default: the run's)")
      ->option_text("N");
  add_number(*command, "--eval-examples", options->examples,
             "only the first N test images, or windows of text (default: all)")
      ->option_text("N");
  add_number(*command, "--threads", options->threads, "threads of the CPU's kernels (default: the run's)")
      ->option_text("N");
  command->add_option("--confusion", options->confusion, "draw the confusion matrix to this file (SVG)")
      ->option_text("FILE");
  command->add_flag("--json", options->json, "print one line of JSON");
  command->callback([command, options, &exit_code] {
    at_least_one(*command, {"--batch-size", "--eval-examples", "--threads"});
    exit_code = evaluate(*options);
  });
}

}  // namespace athanor::cli
