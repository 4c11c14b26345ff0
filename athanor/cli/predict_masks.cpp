#include "athanor/cli/predict_masks.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "athanor/base/error.h"
#include "athanor/base/file.h"
#include "athanor/cli/doing.h"
#include "athanor/cli/examine.h"
#include "athanor/compile/options.h"
#include "athanor/data/fit_image.h"
#include "athanor/formats/image.h"
#include "athanor/ops/reduction.h"
#include "athanor/train/class_counts.h"

namespace athanor::cli {
namespace {

namespace fs = std::filesystem;

struct Masked {
  std::string file, mask, problem;  // the image; the written file; why there is none
  std::vector<int64_t> pixels;      // the number in each class
};

fs::path mask_path(const fs::path& picture, const MaskOptions& options) {
  const std::string name = picture.stem().string() + ".mask.png";
  if (options.out.empty()) return name;
  return options.out.ends_with(".png") ? fs::path(options.out) : fs::path(options.out) / name;
}

/// The whole image, scaled to the model's input.
HostArray whole_input(const HostArray& picture, const ExampleSpec& spec, bool invert) {
  Picture made = resample(picture, {0, 0, picture.shape[0], picture.shape[1]}, spec.input[0], spec.input[1],
                          spec.input[2]);
  if (invert)
    for (float& pixel : made.pixels) pixel = 1 - pixel;
  HostArray input(DType::f32, spec.input.insert(0, 1));
  normalize(made, spec.normalization, input.as<float>().data());
  return input;
}

Masked predict_mask(const TrainedModel& trained, const std::string& file, const MaskOptions& options) {
  Masked result{.file = file, .mask = {}, .problem = {}, .pixels = {}};
  try {
    const ExampleSpec& spec = trained.data;
    const HostArray picture = read_image(file);
    const HostArray input = whole_input(picture, spec, options.invert);
    const std::vector<int64_t> answers =
        argmax((*trained.model)(Tensor::from(input, trained.device)), 1).to_vector<int64_t>();
    const int64_t height = picture.shape[0], width = picture.shape[1];
    HostArray mask(DType::u8, {height, width, 1});
    result.pixels.resize(static_cast<size_t>(spec.classes));
    auto out = mask.as<uint8_t>().begin();
    for (int64_t y = 0; y < height; ++y)
      for (int64_t x = 0; x < width; ++x) {
        const int64_t row = (2 * y + 1) * spec.input[1] / (2 * height),
                      column = (2 * x + 1) * spec.input[2] / (2 * width);
        const int64_t label = answers[static_cast<size_t>(row * spec.input[2] + column)];
        ++result.pixels[static_cast<size_t>(label)];
        *out++ = static_cast<uint8_t>(label);
      }
    const fs::path path = mask_path(file, options);
    write_file_atomically(path, {Bytes(format_mask(mask, mask_palette(std::max<int64_t>(2, spec.classes))))});
    result.mask = path.string();
  } catch (const Error& error) {
    result.problem = error.what();
  }
  return result;
}

/// The classes of an image, the largest first.
std::vector<size_t> by_size(const std::vector<int64_t>& pixels) {
  std::vector<size_t> order;
  for (size_t label = 0; label < pixels.size(); ++label)
    if (pixels[label] > 0) order.push_back(label);
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return pixels[a] > pixels[b]; });
  return order;
}

double share_of_pixels(const Masked& masked, size_t label) {
  int64_t all = 0;
  for (const int64_t count : masked.pixels) all += count;
  return static_cast<double>(masked.pixels[label]) / static_cast<double>(all);
}

void print_masks_json(const std::vector<Masked>& all, const TrainedModel& trained) {
  const ExampleSpec& spec = trained.data;
  auto result = nlohmann::ordered_json::array();
  for (const Masked& one : all) {
    if (!one.problem.empty()) {
      result.push_back({{"image", one.file}, {"error", one.problem}});
      continue;
    }
    auto classes = nlohmann::ordered_json::array();
    for (const size_t label : by_size(one.pixels))
      classes.push_back({{"class", label},
                         {"name", class_name(spec.class_names, static_cast<int64_t>(label))},
                         {"share", share_of_pixels(one, label)}});
    result.push_back({{"image", one.file}, {"mask", one.mask}, {"classes", classes}});
  }
  for (auto& one : result)
    if (!one.contains("error")) add_trust_note(one, trained.device);
  std::cout << result.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << '\n';
}

}  // namespace

int predict_masks(const TrainedModel& trained, const MaskOptions& options) {
  if (options.out.ends_with(".png") && options.images.size() > 1)
    throw Error(ErrorCode::usage, fmt::format("{} masks do not fit one file", options.images.size()), "--out",
                "Give a folder");
  std::map<fs::path, std::string> pictures;  // by mask
  for (const std::string& file : options.images)
    if (const auto [other, fresh] = pictures.emplace(mask_path(file, options), file); !fresh)
      throw Error(ErrorCode::usage,
                  fmt::format("the masks of '{}' and '{}' would be one file", other->second, file), "--out",
                  "Predict images with the same name one by one, each with its own --out");
  if (!options.out.empty() && !options.out.ends_with(".png")) {
    std::error_code failed;
    fs::create_directories(options.out, failed);
    if (failed) throw file_error("create", options.out, failed);
  }
  compile_options().deterministic = true;  // timing kernels would take longer than a few images
  std::vector<Masked> all;
  {
    Doing doing("predict on " + to_string(trained.device), Doing::Elsewhere::now_and_then);
    const ScopedWaitListener waits = shown_as(doing);
    doing.say("compiling", "");
    const NoGrad no_history;
    const Autocast scope(parse_precision(trained.config.precision));
    for (const std::string& file : options.images) all.push_back(predict_mask(trained, file, options));
  }
  if (options.json) print_masks_json(all, trained);
  for (const Masked& one : all) {
    if (!one.problem.empty())
      std::cerr << "athanor: error: " << one.problem << '\n';
    else if (!options.json) {
      std::cout << fmt::format("{} -> {}  ", one.file, one.mask);
      for (const size_t label : by_size(one.pixels))
        std::cout << fmt::format(" {} {:.1f} %",
                                 class_name(trained.data.class_names, static_cast<int64_t>(label)),
                                 100 * share_of_pixels(one, label));
      std::cout << '\n';
    }
  }
  return std::ranges::all_of(all, &std::string::empty, &Masked::problem) ? 0 : 1;
}

}  // namespace athanor::cli
