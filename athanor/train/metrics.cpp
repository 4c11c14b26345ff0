#include "athanor/train/metrics.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "athanor/base/error.h"
#include "athanor/base/file.h"

namespace athanor {

using nlohmann::json;

std::string to_line(const StepMetrics& metrics) {
  nlohmann::ordered_json line{{"step", metrics.step},
                              {"epoch", metrics.epoch},
                              {"loss", metrics.loss},
                              {metrics.quality, metrics.accuracy},
                              {"lr", metrics.lr}};
  if (metrics.loss_scale) line["loss_scale"] = *metrics.loss_scale, line["skipped"] = metrics.skipped;
  if (metrics.threads > 0) line["threads"] = metrics.threads;
  if (!metrics.kernels.empty()) line["kernels"] = metrics.kernels;
  return line.dump();
}

namespace {

/// The quality (Quality::field) that a document has under this prefix.
std::string quality_in(const json& source, const std::string& prefix) {
  return source.contains(prefix + "r2") ? "r2" : "accuracy";
}

// Throws json::exception.
StepMetrics step_in(std::string_view text) {
  const json line = json::parse(text);
  StepMetrics step{.step = line.at("step"),
                   .epoch = line.at("epoch"),
                   .loss = line.at("loss"),
                   .accuracy = line.at(quality_in(line, "")),
                   .lr = line.at("lr"),
                   .quality = quality_in(line, "")};
  if (line.contains("loss_scale")) {
    step.loss_scale = line.at("loss_scale").get<double>();
    line.at("skipped").get_to(step.skipped);
  }
  step.threads = line.value("threads", int64_t{0});
  if (line.contains("kernels")) line.at("kernels").get_to(step.kernels);
  return step;
}

}  // namespace

std::vector<StepMetrics> read_metrics(const std::filesystem::path& path) {
  const std::string text = read_text_file(path);
  std::vector<StepMetrics> result;
  std::string_view rest = text;
  for (int64_t number = 1; !rest.empty(); ++number) {
    const size_t end = rest.find('\n');
    try {
      result.push_back(step_in(rest.substr(0, end)));
    } catch (const json::exception&) {
      throw Error(ErrorCode::format, "the line is not a step's metrics",
                  fmt::format("{}:{}", path.string(), number),
                  "The file was changed: restore it, or start a new run");
    }
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  return result;
}

std::vector<StepMetrics> read_lost_steps(const std::filesystem::path& path, uint64_t after_bytes) {
  std::vector<StepMetrics> steps;
  if (!std::filesystem::exists(path)) return steps;
  const std::string text = read_text_file(path);
  try {
    for (size_t begin = after_bytes, end = 0; begin < text.size(); begin = end + 1) {
      end = text.find('\n', begin);
      if (end == std::string::npos) break;
      steps.push_back(step_in(std::string_view(text).substr(begin, end - begin)));
    }
  } catch (const json::exception&) {
    // The rest cannot be read: it was lost.
  }
  return steps;
}

void MetricsSum::add(double mean, double correct_ones, int64_t counted) {
  loss += mean * static_cast<double>(counted);
  correct += correct_ones;
  count += counted;
}

json to_json(const MetricsSum& sum) {
  return {{"loss", sum.loss}, {"correct", sum.correct}, {"pictures", sum.count}};
}

json to_json(const EpochMetrics& epoch) {
  json result{{"epoch", epoch.epoch},           {"step", epoch.step},
              {"train_loss", epoch.train_loss}, {"train_" + epoch.quality, epoch.train_accuracy},
              {"test_loss", epoch.test_loss},   {"test_" + epoch.quality, epoch.test_accuracy}};
  for (const auto& [name, value] : epoch.test_more) result["test_" + name] = value;
  return result;
}

MetricsSum metrics_sum_from_json(const json& source) {
  MetricsSum sum;
  source.at("loss").get_to(sum.loss);
  source.at("correct").get_to(sum.correct);
  source.at("pictures").get_to(sum.count);  // its name in older files
  return sum;
}

EpochMetrics epoch_metrics_from_json(const json& source) {
  EpochMetrics epoch;
  source.at("epoch").get_to(epoch.epoch);
  source.at("step").get_to(epoch.step);
  source.at("train_loss").get_to(epoch.train_loss);
  epoch.quality = quality_in(source, "test_");
  source.at("train_" + epoch.quality).get_to(epoch.train_accuracy);
  source.at("test_loss").get_to(epoch.test_loss);
  source.at("test_" + epoch.quality).get_to(epoch.test_accuracy);
  for (const auto& [name, value] : source.items())
    if (name.starts_with("test_") && name != "test_loss" && name != "test_" + epoch.quality)
      epoch.test_more[name.substr(std::string_view("test_").size())] = value;
  return epoch;
}

}  // namespace athanor
