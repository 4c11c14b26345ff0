// athanor predict
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>

#include "athanor/base/error.h"
#include "athanor/cli/command_line.h"
#include "athanor/cli/commands.h"
#include "athanor/cli/doing.h"
#include "athanor/cli/examine.h"
#include "athanor/cli/numbers.h"
#include "athanor/cli/predict_masks.h"
#include "athanor/cli/trained_model.h"
#include "athanor/compile/options.h"
#include "athanor/data/fit_image.h"
#include "athanor/data/numbers.h"
#include "athanor/data/table.h"
#include "athanor/formats/csv.h"
#include "athanor/formats/image.h"
#include "athanor/formats/npy.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/loss.h"
#include "athanor/train/class_counts.h"
#include "athanor/train/run_folder.h"

namespace athanor::cli {
namespace {

struct PredictOptions {
  std::vector<std::string> images;
  std::string checkpoint, out, device = "auto";
  int64_t top = 3;
  bool invert = false, json = false;
};

struct Predicted {
  std::string file;
  HostArray input;             // f32 [C, H, W]
  bool light = false;          // its background
  std::vector<float> results;  // probabilities of classes, or numbers
  std::string problem;         // why there are none
};

bool is_model(const std::string& path) {
  std::error_code ignored;
  return path.ends_with(".safetensors") ||
         (std::filesystem::is_directory(path, ignored) && RunFolder{path}.has_run());
}

/// People write a run among the images, because other commands take it so: `athanor predict RUN X.png`.
void take_model(PredictOptions& options) {
  for (const std::string& given : options.images) {
    if (!is_model(given)) continue;
    if (!options.checkpoint.empty())
      throw Error(ErrorCode::usage, fmt::format("two models are given: {} and {}", options.checkpoint, given),
                  {}, "Give one");
    options.checkpoint = given;
  }
  std::erase_if(options.images, is_model);
  if (options.images.empty())
    throw Error(ErrorCode::usage, "a model is given, and nothing to predict from", options.checkpoint,
                fmt::format("Name files after it: athanor predict {} FILE", options.checkpoint));
}

/// An image that cannot be read has a `problem`, and does not stop the others.
Predicted read_picture(const std::string& file, const ExampleSpec& spec, bool invert) {
  Predicted picture{.file = file, .input = {}, .results = {}, .problem = {}};
  try {
    const HostArray image = read_image(file);
    const double border = border_brightness(image);
    picture.input = fit_image(image, spec, invert);
    picture.light = (invert ? 255 - border : border) > 128;
  } catch (const Error& error) {
    picture.problem = error.what();
  }
  return picture;
}

/// The same for rows of numbers.
void read_number_rows(const std::string& file, const ExampleSpec& spec, std::vector<Predicted>& rows) {
  try {
    const HostArray all = encode_number_rows(read_npy(file), spec, file);
    const auto width = static_cast<size_t>(spec.input.size());
    for (int64_t row = 0; row < all.shape[0]; ++row) {
      HostArray input(DType::f32, spec.input);
      std::ranges::copy(all.as<float>().subspan(static_cast<size_t>(row) * width, width),
                        input.as<float>().begin());
      rows.push_back({.file = fmt::format("{}, example {}", file, row + 1),
                      .input = std::move(input),
                      .results = {},
                      .problem = {}});
    }
  } catch (const Error& error) {
    rows.push_back({.file = file, .input = {}, .results = {}, .problem = error.what()});
  }
}

/// Reads the rows of a table, each of which is an input, as an image is for other models.
void read_rows(const std::string& file, const ExampleSpec& spec, std::vector<Predicted>& rows) {
  try {
    const CsvTable table = read_csv(file);
    for (size_t row = 0; row < table.rows.size(); ++row) {
      Predicted one{
          .file = fmt::format("{}, example {}", file, row + 1), .input = {}, .results = {}, .problem = {}};
      one.input = encode_rows(table, {row}, spec, file);
      one.input.shape = spec.input;
      rows.push_back(std::move(one));
    }
  } catch (const Error& error) {
    rows.push_back({.file = file, .input = {}, .results = {}, .problem = error.what()});
  }
}

void predict(const TrainedModel& trained, Predicted& picture) {
  const NoGrad no_history;
  const Autocast scope(parse_precision(trained.config.precision));
  picture.input.shape = picture.input.shape.insert(0, 1);
  const Tensor made = (*trained.model)(Tensor::from(picture.input, trained.device));
  const std::vector<TargetScale>& scales = trained.data.targets;
  picture.results = (scales.empty() ? softmax(made) : cast(made, DType::f32)).to_vector<float>();
  for (size_t i = 0; i < scales.size(); ++i)
    picture.results[i] =
        static_cast<float>(static_cast<double>(picture.results[i]) * scales[i].stddev + scales[i].mean);
}

/// The classes, the most likely first.
std::vector<size_t> ranked(const std::vector<float>& probabilities, int64_t top) {
  std::vector<size_t> order(probabilities.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return probabilities[a] > probabilities[b]; });
  order.resize(std::min(order.size(), static_cast<size_t>(top)));
  return order;
}

std::string name_of_class(const ExampleSpec& spec, size_t label) {
  return class_name(spec.class_names, static_cast<int64_t>(label));
}

void print_json(const std::vector<Predicted>& pictures, const TrainedModel& trained, int64_t top) {
  const ExampleSpec& spec = trained.data;
  auto result = nlohmann::ordered_json::array();
  for (const Predicted& picture : pictures) {
    if (!picture.problem.empty()) {
      result.push_back({{"image", picture.file}, {"error", picture.problem}});
      continue;
    }
    if (!spec.targets.empty()) {
      nlohmann::ordered_json numbers;
      for (size_t i = 0; i < picture.results.size(); ++i)
        numbers[name_of_class(spec, i)] = picture.results[i];
      result.push_back({{spec.columns.empty() ? "image" : "example", picture.file}, {"numbers", numbers}});
      continue;
    }
    auto classes = nlohmann::ordered_json::array();
    for (const size_t label : ranked(picture.results, top))
      classes.push_back(
          {{"class", label}, {"name", name_of_class(spec, label)}, {"probability", picture.results[label]}});
    result.push_back({{spec.columns.empty() ? "image" : "example", picture.file}, {"predictions", classes}});
  }
  for (auto& one : result)
    if (!one.contains("error")) add_trust_note(one, trained.device);
  std::cout << result.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << '\n';
}

void print_table(const std::vector<Predicted>& pictures, const ExampleSpec& spec, int64_t top) {
  size_t file_width = 0, name_width = 0;
  for (const Predicted& picture : pictures)
    if (picture.problem.empty()) file_width = std::max(file_width, picture.file.size());
  for (size_t label = 0; label < static_cast<size_t>(spec.classes); ++label)
    name_width = std::max(name_width, name_of_class(spec, label).size());
  for (const Predicted& picture : pictures) {
    if (!picture.problem.empty()) continue;
    std::cout << fmt::format("{:<{}}", picture.file, file_width);
    if (spec.targets.empty())
      for (const size_t label : ranked(picture.results, top))
        std::cout << fmt::format("   {:<{}} {:5.1f} %", name_of_class(spec, label), name_width,
                                 100 * picture.results[label]);
    for (size_t i = 0; i < spec.targets.size(); ++i)
      std::cout << fmt::format("   {} {:<10.6g}", name_of_class(spec, i), picture.results[i]);
    std::cout << '\n';
  }
}

int predict(PredictOptions options) {
  take_model(options);
  const TrainedModel trained = load_trained_model(options.checkpoint, options.device, 0);
  require_pictures(trained);
  if (trained.data.pixels)
    return predict_masks(
        trained,
        {.images = options.images, .out = options.out, .invert = options.invert, .json = options.json});
  if (!options.out.empty())
    throw Error(ErrorCode::usage, "the model makes no masks; its results are printed", "--out",
                "Leave it out");
  std::vector<Predicted> pictures;
  for (const std::string& file : options.images) {
    if (trained.data.columns.empty())
      pictures.push_back(read_picture(file, trained.data, options.invert));
    else if (file.ends_with(".npy"))
      read_number_rows(file, trained.data, pictures);
    else
      read_rows(file, trained.data, pictures);
  }
  compile_options().deterministic = true;  // timing kernels would take longer than a few images
  {
    Doing doing("predict on " + to_string(trained.device), Doing::Elsewhere::now_and_then);
    const ScopedWaitListener waits = shown_as(doing);
    doing.say("compiling", "");
    for (Predicted& picture : pictures)
      if (picture.problem.empty()) predict(trained, picture);
  }
  options.json ? print_json(pictures, trained, options.top)
               : print_table(pictures, trained.data, options.top);
  std::cout.flush();
  for (const Predicted& picture : pictures)
    if (!picture.problem.empty()) std::cerr << "athanor: error: " << picture.problem << '\n';
  const int exit_code = std::ranges::all_of(pictures, &std::string::empty, &Predicted::problem) ? 0 : 1;
  if (options.json) return exit_code;
  // A photograph of a thing on white paper is what many people try first.
  const bool dark_training = trained.data.columns.empty() && trained.data.normalization.mean.front() < 0.4F;
  if (dark_training && std::ranges::any_of(pictures, &Predicted::light))
    std::cerr << "athanor: note: the training images are light on dark, and these look dark on light: try "
              << (options.invert ? "without --invert\n" : "--invert\n");
  return exit_code;
}

}  // namespace

void add_predict(CLI::App& program, int& exit_code) {
  CLI::App* command = program.add_subcommand(
      "predict", "Classify images or rows of a table, or predict numbers, with a trained model");
  const auto options = std::make_shared<PredictOptions>();
  command
      ->add_option(
          "IMAGE", options->images,
          "PNG, JPEG or WebP files of any size; CSV or .npy files, for models of tables and rows; also "
          "the model, as for --checkpoint")
      ->required()
      ->option_text("...");
  command
      ->add_option("--checkpoint", options->checkpoint,
                   "a run's folder or its checkpoint (default: the newest in ./runs)")
      ->option_text("PATH");
  suggest(command->add_option("--device", options->device, device_help() + " (default auto)"), device_words())
      ->option_text("NAME");
  add_trust_option(*command);
  add_number(*command, "--top", options->top, "classes to show (default 3)")->option_text("N");
  command
      ->add_option("--out", options->out,
                   "for segmentation: the mask's .png, or a folder (default: NAME.mask.png here)")
      ->option_text("PATH");
  command->add_flag("--invert", options->invert, "swap light and dark first");
  command->add_flag("--json", options->json, "print one line of JSON");
  command->callback([command, options, &exit_code] {
    at_least_one(*command, {"--top"});
    exit_code = predict(*options);
  });
}

}  // namespace athanor::cli
