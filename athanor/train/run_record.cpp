#include "athanor/train/run_record.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/base/file.h"
#include "athanor/data/open_dataset.h"
#include "athanor/train/confusion_svg.h"

namespace athanor {
namespace {

constexpr double seconds_between_drawings = 10;

}  // namespace

RunRecord::RunRecord(const TrainConfig& config, RunFolder folder, int64_t steps, uint64_t metrics_bytes,
                     std::string tested, Quality quality, std::vector<std::string> class_names)
    : config_(config),
      folder_(std::move(folder)),
      tested_(std::move(tested)),
      quality_(std::move(quality)),
      class_names_(std::move(class_names)),
      log_(folder_.metrics(), metrics_bytes) {
  if (steps > 0) metrics_ = read_metrics(folder_.metrics());
  if (static_cast<int64_t>(metrics_.size()) != steps)
    throw Error(ErrorCode::format,
                fmt::format("the file has {} steps, the checkpoint {}", metrics_.size(), steps),
                folder_.metrics().string(), "The file was changed: restore it, or start a new run");
}

void RunRecord::add(const StepMetrics& metrics, double seconds, double rebuild_seconds, bool compiled) {
  log_.write(to_line(metrics));
  metrics_.push_back(metrics);
  if (compiled) {
    first_steps_seconds_ += seconds;
    return;
  }
  step_seconds_.push_back(seconds);
  rebuild_seconds_.push_back(rebuild_seconds);
}

uint64_t RunRecord::sync() {
  log_.sync();
  return log_.size();
}

void RunRecord::draw(Draw when, const std::vector<EpochMetrics>& epochs,
                     const std::optional<TestPoint>& last_test, int64_t steps_in_all) {
  if (when == Draw::if_old && seconds_since(drawn_at_) < seconds_between_drawings) return;
  write_file_atomically(
      folder_.loss_svg(),
      draw_curves({.title = fmt::format("{} on {}", config_.model, dataset_title(config_.data)),
                   .subtitle = fmt::format("{}, {} schedule, learning rate {:g}, batch {}, seed {}",
                                           config_.optimizer, config_.schedule, config_.learning_rate(),
                                           config_.batch_size, config_.seed),
                   .steps = metrics_,
                   .epochs = epochs,
                   .last_test = last_test,
                   .steps_in_all = steps_in_all,
                   .quality = quality_,
                   .tested = tested_}));
  drawn_at_ = Clock::now();
}

void RunRecord::fill_in_times(Summary& summary, int64_t counted) const {
  const double timed = std::accumulate(step_seconds_.begin(), step_seconds_.end(), 0.0);
  const auto all = static_cast<double>(counted) * static_cast<double>(step_seconds_.size());
  summary.per_second = timed > 0 ? all / timed : 0;
  summary.loader_wait_share = timed > 0 ? std::min(1.0, summary.loader_wait_seconds / timed) : 0;
  summary.step_ms_median = 1e3 * median(step_seconds_);
  summary.rebuild_ms_median = 1e3 * median(rebuild_seconds_);
  summary.first_steps_seconds = first_steps_seconds_;
}

void RunRecord::write_plan(const Plan& plan, const std::map<std::string, std::string>& kernels) const {
  nlohmann::ordered_json json = to_json(plan);
  json["kernel_choices"] = kernels;
  write_json(folder_.plan(), json);
}

void RunRecord::write_confusion(const TestResult& test, int64_t steps) const {
  if (!test.classes) return;
  nlohmann::ordered_json json = to_json(*test.classes, class_names_);
  json["step"] = steps;
  write_file_atomically(folder_.confusion(), json.dump() + "\n");
  if (test.classes->classes() > most_drawn_classes) return;
  const std::string mistake = worst_mistake(*test.classes, class_names_);
  write_file_atomically(
      folder_.confusion_svg(),
      draw_confusion(
          *test.classes, class_names_,
          fmt::format("{} on {}: what is taken for what", config_.model, dataset_title(config_.data)),
          fmt::format("{} test {} after {} steps{}", grouped(test.classes->total()), tested_, grouped(steps),
                      mistake.empty() ? "" : "; " + mistake)));
}

void RunRecord::write_summary(const Summary& summary) const {
  write_json(folder_.summary(), to_json(summary));
}

}  // namespace athanor
