#include "athanor/train/examples_record.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "athanor/base/base64.h"
#include "athanor/base/error.h"
#include "athanor/base/file.h"
#include "athanor/data/picture.h"
#include "athanor/formats/image.h"

namespace athanor {
namespace {

using nlohmann::json;

constexpr int64_t most_side = 96;  // pixels

bool are_pictures(const ExampleSpec& spec) {
  return spec.columns.empty() && spec.input.rank() == 3 && (spec.input[0] == 1 || spec.input[0] == 3);
}

std::string png_of_mask(const std::vector<int64_t>& labels, const ExampleSpec& spec) {
  HostArray mask(DType::u8, {spec.input[1], spec.input[2], 1});
  const auto out = mask.as<uint8_t>();
  for (size_t i = 0; i < labels.size(); ++i) out[i] = static_cast<uint8_t>(labels[i] < 0 ? 255 : labels[i]);
  std::vector<Color> palette = mask_palette(256);
  palette.back() = {255, 255, 255};  // ignored pixels
  return to_base64(format_mask(mask, palette));
}

std::string png_of(const HostArray& inputs, const ExampleSpec& spec, int64_t side_of_most = most_side) {
  Picture picture(spec.input[0], spec.input[1], spec.input[2]);
  const auto values = inputs.as<float>();
  const auto area = static_cast<size_t>(picture.plane_size());
  const auto of_channel = [](const std::vector<float>& all, size_t c) {
    return all[std::min(c, all.size() - 1)];
  };
  for (size_t i = 0; i < values.size(); ++i)
    picture.pixels[i] = values[i] * of_channel(spec.normalization.stddev, i / area) +
                        of_channel(spec.normalization.mean, i / area);
  HostArray bytes = to_bytes(picture);
  if (const int64_t side = std::max(picture.height, picture.width); side > side_of_most)
    bytes = to_bytes(resample(bytes, {0, 0, picture.height, picture.width}, picture.channels,
                              std::max<int64_t>(1, picture.height * side_of_most / side),
                              std::max<int64_t>(1, picture.width * side_of_most / side)));
  return to_base64(format_png(bytes));
}

}  // namespace

void write_examples(const std::filesystem::path& path, const TestResult& test, const ExampleSpec& spec) {
  if (!test.classes || !are_pictures(spec)) return;
  const auto list = [&](const std::vector<TestExample>& examples) {
    auto result = nlohmann::ordered_json::array();
    for (const TestExample& example : examples)
      result.push_back({{"right", class_name(spec.class_names, example.right)},
                        {"answer", class_name(spec.class_names, example.answer)},
                        {"share", example.share},
                        {"png", png_of(example.inputs, spec)}});
    return result;
  };
  if (!test.pixel_examples.empty()) {
    auto pixels = nlohmann::ordered_json::array();
    for (const PixelExample& example : test.pixel_examples)
      pixels.push_back({{"png", png_of(example.inputs, spec, INT64_MAX)},
                        {"right", png_of_mask(example.right, spec)},
                        {"answer", png_of_mask(example.answer, spec)}});
    const nlohmann::ordered_json all{{"pixels", pixels}};
    write_file_atomically(path, all.dump(-1, ' ', false, json::error_handler_t::replace) + "\n");
    return;
  }
  const nlohmann::ordered_json all{{"mistakes", list(test.mistakes)}, {"right", list(test.first_right)}};
  write_file_atomically(path, all.dump(-1, ' ', false, json::error_handler_t::replace) + "\n");
}

std::vector<WrittenSample> read_samples(const std::filesystem::path& path) {
  std::vector<WrittenSample> samples;
  if (!std::filesystem::exists(path)) return samples;
  const std::string text = read_text_file(path);
  for (size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
    end = std::min(text.find('\n', begin), text.size());
    const json line = json::parse(std::string_view(text).substr(begin, end - begin), nullptr, false);
    if (line.is_object() && line.contains("step") && line["step"].is_number_integer() &&
        line.contains("text") && line["text"].is_string())
      samples.push_back({line["step"], line["text"]});
  }
  return samples;
}

void add_sample(const std::filesystem::path& path, const WrittenSample& sample) {
  std::vector<WrittenSample> samples = read_samples(path);
  std::erase_if(samples, [&](const WrittenSample& other) { return other.step >= sample.step; });
  samples.push_back(sample);
  std::string text;
  for (const WrittenSample& one : samples)
    text += nlohmann::ordered_json{{"step", one.step}, {"text", one.text}}.dump(
                -1, ' ', false, json::error_handler_t::replace) +
            "\n";
  write_file_atomically(path, text);
}

}  // namespace athanor
