#include "athanor/train/tensorboard_log.h"

#include <fmt/format.h>

#include <chrono>
#include <system_error>

#include "athanor/base/error.h"
#include "athanor/base/file.h"
#include "athanor/base/utf8.h"

namespace athanor {
namespace {

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// A name with a time that no file there has: several processes may work on a run within a second.
std::filesystem::path new_event_file(const RunFolder& folder) {
  for (auto time = static_cast<int64_t>(wall_time());; ++time) {
    std::filesystem::path path = folder.path / fmt::format("events.out.tfevents.{:010}.athanor", time);
    if (!std::filesystem::exists(path)) return path;
  }
}

os::File opened(const std::filesystem::path& path) {
  try {
    return {path, os::Open::append};
  } catch (const std::system_error& error) {
    throw file_error("create", path, error.code());
  }
}

}  // namespace

TensorBoardLog::TensorBoardLog(const RunFolder& folder)
    : path_(new_event_file(folder)), file_(opened(path_)) {
  file_.write(bytes_of(first_event(wall_time())));
}

// One call for each record, so that a reader sees whole ones.
void TensorBoardLog::write(int64_t step, const std::vector<TensorBoardValue>& values) {
  try {
    file_.write(bytes_of(event_of(wall_time(), step, values)));
  } catch (const std::system_error& error) {
    throw file_error("write", path_, error.code());
  }
}

void TensorBoardLog::add(const StepMetrics& step) {
  std::vector<TensorBoardValue> values{
      {"loss/train", step.loss}, {step.quality + "/train", step.accuracy}, {"learning_rate", step.lr}};
  if (step.loss_scale) values.push_back({"loss_scale", *step.loss_scale});
  write(step.step, values);
}

void TensorBoardLog::add(const EpochMetrics& epoch, const std::vector<Measure>& measures) {
  std::vector<TensorBoardValue> values{{"loss/test", epoch.test_loss},
                                       {epoch.quality + "/test", epoch.test_accuracy}};
  for (const Measure& measure : measures)
    if (measure.name != epoch.quality) values.push_back({measure.name + "/test", measure.value});
  write(epoch.step, values);
}

void TensorBoardLog::add_text(int64_t step, const std::string& text) {
  write(step, {{"sample", 0, valid_utf8(text)}});  // TensorBoard shows only valid UTF-8
}

}  // namespace athanor
