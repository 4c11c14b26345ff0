#include "athanor/train/trainer.h"

#include <utility>

#include "athanor/data/open_dataset.h"
#include "athanor/train/training_run.h"

namespace athanor {

Trainer::Trainer(const TrainConfig& config, RunFolder folder, bool resume, Reporter& reporter,
                 std::unique_ptr<const Task> task)
    : run_(std::make_unique<TrainingRun>(config, std::move(folder), resume, reporter, std::move(task))) {}
Trainer::~Trainer() = default;

TrainerCallbacks& Trainer::callbacks() { return run_->callbacks; }
RunEnd Trainer::run() { return run_->run(); }
void Trainer::request_stop() { run_->stop_requested = true; }
bool Trainer::finished() const { return run_->finished(); }
int64_t Trainer::steps() const { return run_->state().step; }
bool Trainer::saved() const { return run_->saved(); }
const std::vector<EpochMetrics>& Trainer::epochs() const { return run_->state().epochs; }
nn::Module& Trainer::model() { return run_->model(); }

TrainConfig stored_config(const RunFolder& folder) {
  TrainConfig config = std::filesystem::exists(folder.config()) ? read_config(folder)
                                                                : read_checkpoint(folder.checkpoint()).config;
  config.data = from_any_folder(config.data);  // older runs stored it as it was given
  return config;
}

}  // namespace athanor
