#include "athanor/train/summary.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace athanor {

nlohmann::ordered_json to_json(const Summary& summary) {
  nlohmann::ordered_json epochs = nlohmann::ordered_json::array();
  for (const auto& epoch : summary.epochs) epochs.push_back(nlohmann::ordered_json(to_json(epoch)));
  nlohmann::ordered_json json{{"model", summary.config.model},
                              {"data", summary.config.data},
                              {"augment", summary.config.augment},
                              {"device", summary.device},
                              {"threads", summary.threads},
                              {"seed", summary.config.seed},
                              {"batch_size", summary.config.batch_size},
                              {"precision", summary.config.precision},
                              {"steps", summary.steps},
                              {"epochs", summary.epochs.size()},
                              {"train_loss", summary.train_loss},
                              {"test_loss", summary.test_loss},
                              {"test_" + summary.quality.field, summary.test_accuracy},
                              {summary.unit.rate_field, summary.per_second},
                              {"step_ms_median", summary.step_ms_median},
                              {"rebuild_ms_median", summary.rebuild_ms_median},
                              {"train_seconds", summary.train_seconds},
                              {"first_steps_seconds", summary.first_steps_seconds},
                              {"loader_wait_seconds", summary.loader_wait_seconds},
                              {"loader_wait_share", summary.loader_wait_share},
                              {"first_tuning_seconds", summary.first_tuning_seconds},
                              {"tuned_first", summary.tuned_first},
                              {"tuning_seconds", summary.tuning_seconds},
                              {"tuned", summary.tuned},
                              {"left_to_be_tuned", summary.left_to_be_tuned},
                              {"parameters", summary.parameters},
                              {"peak_memory_bytes", summary.peak_memory_bytes},
                              {"planned_memory_bytes", summary.planned_memory_bytes},
                              {"kernels_total", summary.kernels_total},
                              {"kernels_off_device", summary.kernels_off_device},
                              {"plans_compiled", summary.plans_compiled},
                              {"compile_seconds", summary.compile_seconds},
                              {"compilations", summary.compilations},
                              {"examination_seconds", summary.examination_seconds},
                              {"epoch_metrics", epochs}};
  for (const Measure& measure : summary.measures) json["test_" + measure.name] = measure.value;
  if (summary.best_epoch > 0) json["best_epoch"] = summary.best_epoch;
  if (summary.stopped_early) json["stopped_early"] = true;
  if (summary.loss_scale) {
    json["loss_scale"] = *summary.loss_scale;
    json["skipped_steps"] = summary.skipped_steps;
  }
  if (!summary.broken.empty()) json["broken"] = summary.broken;
  if (!summary.trust.empty()) json["trust"] = summary.trust;
  return json;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*std::max_element(values.begin(), middle) + *middle) / 2;
}

}  // namespace athanor
