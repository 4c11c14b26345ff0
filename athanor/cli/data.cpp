// athanor data
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "athanor/base/error.h"
#include "athanor/base/file.h"
#include "athanor/base/os/interrupt.h"
#include "athanor/base/text.h"
#include "athanor/cli/command_line.h"
#include "athanor/cli/commands.h"
#include "athanor/cli/data_text.h"
#include "athanor/cli/doing.h"
#include "athanor/cli/numbers.h"
#include "athanor/data/augmentation.h"
#include "athanor/data/contact_sheet.h"
#include "athanor/data/open_dataset.h"
#include "athanor/data/survey.h"
#include "athanor/train/config.h"
#include "athanor/train/scoring.h"

namespace athanor::cli {
namespace {

using nlohmann::ordered_json;

struct DataCommandOptions {
  std::string target;
  std::string task = "auto", path, augment = "standard", sheet, tokenizer;
  double validation = 0.1;  // for texts
  int64_t image_size = 0, workers = 0;
  uint64_t seed = 0;
  bool whole = false, json = false;
};

/// Both splits, and surveys of them.
struct OpenedData {
  std::shared_ptr<const Dataset> train, test;
  SplitSurvey train_survey, test_survey;
};

std::string size_text(const ImageExtents& extents) {
  return fmt::format("{} x {}", extents.width, extents.height);
}

std::string class_text(const ExampleSpec& spec, size_t label) {
  return label < spec.class_names.size() ? spec.class_names[label] : fmt::format("class {}", label);
}

std::string numbers_text(const std::vector<float>& values) {
  std::vector<std::string> parts;
  for (const float value : values) parts.push_back(fmt::format("{:.4f}", value));
  return join(parts);
}

SplitSurvey look_into(const Dataset& dataset, const DataCommandOptions& options, const char* split,
                      Doing& doing) {
  SurveyOptions how{.whole = options.whole};
  how.threads = static_cast<int>(options.workers > 0 ? options.workers
                                                     : std::max(1U, std::thread::hardware_concurrency()));
  how.progress = [&](int64_t done, int64_t of) {
    throw_if_interrupted();
    doing.say(fmt::format("{} images", split), fmt::format("{} of {}", grouped(done), grouped(of)));
  };
  return survey(dataset, how);
}

OpenedData open_both(const DataCommandOptions& options) {
  Doing doing("looking at " + dataset_title(options.path), Doing::Elsewhere::nothing);
  doing.say("opening", "");
  OpenedData data;
  DataOptions how{.image_size = options.image_size,
                  .numbers = options.task == "regression",
                  .target = options.target,
                  .most_broken = INT64_MAX};
  data.train = open_dataset(options.path, Split::train, how);
  how.like = data.train->spec();
  data.test = open_dataset(options.path, Split::test, how);
  data.train_survey = look_into(*data.train, options, "training", doing);
  data.test_survey = look_into(*data.test, options, "test", doing);
  return data;
}

ordered_json to_json(const SplitSurvey& split) {
  ordered_json result{{"examples", split.examples}};
  if (split.looked_at == 0) return result;
  const auto extents = [](const ImageExtents& e) {
    return ordered_json{{"width", e.width}, {"height", e.height}};
  };
  result["looked_at"] = split.looked_at;
  result["grey"] = split.grey;
  result["smallest"] = extents(split.smallest);
  result["median"] = extents(split.median);
  result["largest"] = extents(split.largest);
  result["broken"] = split.broken;
  if (!split.pixels_by_class.empty()) {
    result["pixels"] = split.pixels_by_class;
    result["ignored_pixels"] = split.ignored_pixels;
  }
  return result;
}

ordered_json to_json(const OpenedData& data, const std::string& path) {
  const ExampleSpec& spec = data.train->spec();
  ordered_json result{{"data", path},
                      {"input", spec.input.to_ints()},
                      {"train", to_json(data.train_survey)},
                      {"test", to_json(data.test_survey)}};
  if (spec.columns.empty()) {
    result["mean"] = spec.normalization.mean;
    result["stddev"] = spec.normalization.stddev;
  }
  for (size_t i = 0; i < spec.targets.size(); ++i)
    result["targets"].push_back(
        {{"name", class_text(spec, i)}, {"mean", spec.targets[i].mean}, {"stddev", spec.targets[i].stddev}});
  for (size_t label = 0; spec.targets.empty() && !spec.pixels && label < static_cast<size_t>(spec.classes);
       ++label)
    result["classes"].push_back({{"name", class_text(spec, label)},
                                 {"train", data.train_survey.by_class[label]},
                                 {"test", data.test_survey.by_class[label]}});
  for (const ColumnEncoding& column : spec.columns) {
    ordered_json one{{"name", column.name}};
    if (column.categories.empty())
      one.update({{"mean", column.mean}, {"stddev", column.stddev}, {"may_miss", column.may_miss}});
    else
      one["categories"] = column.categories;
    result["columns"].push_back(std::move(one));
  }
  return result;
}

void print_classes(const OpenedData& data) {
  constexpr size_t shown = 40, longest_bar = 30;
  const ExampleSpec& spec = data.train->spec();
  const auto classes = static_cast<size_t>(spec.classes);
  const auto& counts = data.train_survey.by_class;
  const int64_t most = std::max<int64_t>(1, *std::ranges::max_element(counts));
  size_t width = 5;
  for (size_t i = 0; i < std::min(classes, shown); ++i) width = std::max(width, class_text(spec, i).size());
  std::cout << fmt::format("\n{:<{}}  {:>9}  {:>9}\n", "class", width, "training", "test");
  for (size_t i = 0; i < std::min(classes, shown); ++i)
    std::cout << fmt::format(
        "{:<{}}  {:>9}  {:>9}  {}\n", class_text(spec, i), width, grouped(counts[i]),
        grouped(data.test_survey.by_class[i]),
        std::string(static_cast<size_t>(counts[i]) * longest_bar / static_cast<size_t>(most), '#'));
  if (classes > shown) std::cout << fmt::format("... and {} more: --json lists all\n", classes - shown);
}

/// Prints the classes of pixels, with their shares of the masks that were read.
void print_pixels(const OpenedData& data) {
  const ExampleSpec& spec = data.train->spec();
  const auto share = [&](const SplitSurvey& split, int64_t pixels) {
    int64_t all = split.ignored_pixels;
    for (const int64_t count : split.pixels_by_class) all += count;
    return fmt::format("{:.2f} %",
                       100.0 * static_cast<double>(pixels) / static_cast<double>(std::max<int64_t>(1, all)));
  };
  size_t width = 16;
  for (size_t i = 0; i < data.train_survey.pixels_by_class.size(); ++i)
    width = std::max(width, class_text(spec, i).size());
  std::cout << fmt::format("\n{:<{}}  {:>9}  {:>9}\n", "class of pixels", width, "training", "test");
  for (size_t i = 0; i < data.train_survey.pixels_by_class.size(); ++i)
    std::cout << fmt::format("{:<{}}  {:>9}  {:>9}\n", class_text(spec, i), width,
                             share(data.train_survey, data.train_survey.pixels_by_class[i]),
                             share(data.test_survey, data.test_survey.pixels_by_class[i]));
  if (data.train_survey.ignored_pixels + data.test_survey.ignored_pixels > 0)
    std::cout << fmt::format("{:<{}}  {:>9}  {:>9}\n", "(do not count)", width,
                             share(data.train_survey, data.train_survey.ignored_pixels),
                             share(data.test_survey, data.test_survey.ignored_pixels));
}

void print_files(const char* split, const SplitSurvey& survey) {
  if (survey.looked_at == 0) return;
  std::cout << fmt::format("{:<8} width x height from {} to {}, median {}{}; {} of {} files looked at\n",
                           split, size_text(survey.smallest), size_text(survey.largest),
                           size_text(survey.median),
                           survey.grey > 0 ? fmt::format(", {} grey", grouped(survey.grey)) : "",
                           grouped(survey.looked_at), grouped(survey.examples));
}

void print_broken(const OpenedData& data, bool whole) {
  if (data.train_survey.looked_at == 0) return;
  constexpr size_t shown = 20;
  std::vector<std::string> all = data.train_survey.broken;
  all.insert(all.end(), data.test_survey.broken.begin(), data.test_survey.broken.end());
  std::cout << fmt::format("broken   {} {}\n", all.size(),
                           whole ? "of all, each decoded"
                           : data.train->spec().pixels
                               ? "of those that were read; --whole reads every image and mask"
                               : "by their headers; --whole decodes every image");
  for (size_t i = 0; i < std::min(all.size(), shown); ++i) std::cout << "         " << all[i] << '\n';
  if (all.size() > shown)
    std::cout << fmt::format("         ... and {} more: --json lists all\n", all.size() - shown);
}

void print_columns(const ExampleSpec& spec) {
  for (const ColumnEncoding& column : spec.columns)
    if (column.categories.empty())
      std::cout << fmt::format("column   {}: a number, mean {:g}, standard deviation {:g}{}\n", column.name,
                               column.mean, column.stddev, column.may_miss ? "; may be missing" : "");
    else
      std::cout << fmt::format("column   {}: {} categories{}\n", column.name, column.categories.size(),
                               column.categories.size() <= 10 ? " (" + join(column.categories) + ")" : "");
}

void print_text(const OpenedData& data, const DataCommandOptions& options) {
  const ExampleSpec& spec = data.train->spec();
  std::cout << fmt::format("data     {}\n", options.path);
  std::cout << fmt::format("examples {} for training, {} for testing, {} {}\n", grouped(data.train->size()),
                           grouped(data.test->size()), spec.classes,
                           spec.pixels            ? "classes of pixels"
                           : spec.targets.empty() ? (spec.classes == 1 ? "class" : "classes")
                           : spec.classes == 1    ? "number to predict"
                                                  : "numbers to predict");
  if (spec.columns.empty())
    std::cout << fmt::format("input    {}x{}x{}, mean {}, standard deviation {}\n", spec.input[0],
                             spec.input[1], spec.input[2], numbers_text(spec.normalization.mean),
                             numbers_text(spec.normalization.stddev));
  else
    std::cout << fmt::format("input    {} numbers\n", spec.input[2]);
  print_columns(spec);
  for (size_t i = 0; i < spec.targets.size(); ++i)
    std::cout << fmt::format("target   {}: mean {:g}, standard deviation {:g}\n", class_text(spec, i),
                             spec.targets[i].mean, spec.targets[i].stddev);
  print_files("training", data.train_survey);
  print_files("test", data.test_survey);
  print_broken(data, options.whole);
  if (spec.pixels)
    print_pixels(data);
  else if (spec.targets.empty())
    print_classes(data);
}

void write_sheet(const OpenedData& data, const DataCommandOptions& options) {
  const ExampleSpec& spec = data.train->spec();
  if (!spec.columns.empty())
    throw Error(ErrorCode::usage, "the examples are rows of a table, not images", "--sheet", "Leave it out");
  const Augmentation augmentation =
      Augmentation::parse(with_standard(options.augment, standard_augmentation(options.path, spec)));
  if (const std::string unknown = augmentation.without_masks(); spec.pixels && !unknown.empty())
    throw Error(ErrorCode::usage, fmt::format("'{}' is not known for masks", unknown), "--augment",
                "Leave it out");
  const ContactSheet sheet = make_contact_sheet(*data.train, augmentation, options.seed);
  if (options.sheet.ends_with(".png"))
    write_file_atomically(options.sheet, {Bytes(format_png(sheet.picture))});
  else
    write_file_atomically(options.sheet,
                          contact_sheet_svg(sheet, dataset_title(options.path), augmentation.to_string()));
}

int show_data(const DataCommandOptions& options) {
  TrainConfig reading;
  reading.image_size = options.image_size;
  reading.workers = options.workers;
  reading.validation = options.validation;
  reading.task = options.task;
  reading.check_reading();
  (void)Augmentation::parse(with_standard(options.augment, "crop"));
  if (!options.sheet.empty() && !options.sheet.ends_with(".png") && !options.sheet.ends_with(".svg"))
    throw Error(ErrorCode::usage, fmt::format("'{}' is neither a PNG nor an SVG", options.sheet), "--sheet",
                "Give a name that ends in .png or .svg");
  const InterruptScope interrupts;
  if (kind_of_data(options.path) == DataKind::text || !options.tokenizer.empty()) {
    if (!options.sheet.empty())
      throw Error(ErrorCode::usage, "it is a text, and has no pictures", "--sheet", "Leave it out");
    return show_text_data({.path = options.path,
                           .tokenizer = options.tokenizer,
                           .held_back = options.validation,
                           .json = options.json});
  }
  const OpenedData data = open_both(options);
  if (!options.sheet.empty()) write_sheet(data, options);
  if (options.json)
    std::cout << to_json(data, options.path).dump(-1, ' ', false, ordered_json::error_handler_t::replace)
              << '\n';
  else
    print_text(data, options);
  if (!options.sheet.empty() && !options.json) std::cout << fmt::format("\nsheet    {}\n", options.sheet);
  return 0;
}

}  // namespace

void add_data(CLI::App& program, int& exit_code) {
  CLI::App* command = program.add_subcommand(
      "data", "Show what is in a dataset: classes, sizes, broken files; tokens of a text");
  const auto options = std::make_shared<DataCommandOptions>();
  suggest(command->add_option("PATH", options->path, "a dataset's name, folder or file"), dataset_names())
      ->required()
      ->option_text(" ");
  command
      ->add_option("--sheet", options->sheet,
                   "write a contact sheet, with and without --augment, as .svg or .png")
      ->option_text("FILE");
  command
      ->add_option("--augment", options->augment,
                   "augmentation on the sheet: standard, none or a list (default standard)")
      ->option_text("LIST");
  command->add_option("--target", options->target, "the table's column to predict, as in 'athanor train'")
      ->option_text("COLUMN");
  suggest(
      command->add_option("--task", options->task, "regression: targets are numbers, as in 'athanor train'"),
      task_names())
      ->option_text("NAME");
  command
      ->add_option("--tokenizer", options->tokenizer,
                   "tokenizer of a text, as in 'athanor train' (default: each byte is a token)")
      ->option_text("FILE");
  add_number(*command, "--validation", options->validation, "share of a text that is tested on (default 0.1)")
      ->option_text("X");
  add_number(*command, "--image-size", options->image_size, "size of image files, as in 'athanor train'")
      ->option_text("N");
  add_number(*command, "--seed", options->seed, "seed of the augmentation (default 0)")->option_text("N");
  add_number(*command, "--workers", options->workers, "threads that read images (default: one for each core)")
      ->option_text("N");
  command->add_flag("--whole", options->whole, "decode every image, to find all that are broken");
  command->add_flag("--json", options->json, "print one line of JSON");
  command->callback([command, options, &exit_code] {
    at_least_one(*command, {"--image-size", "--workers"});
    exit_code = show_data(*options);
  });
}

}  // namespace athanor::cli
