// The options of a training run: every option of `athanor train`, with its default.
#pragma once
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace athanor {

/// When a run saves a checkpoint, besides the end of each epoch: after a number of steps, or of seconds.
struct CheckpointInterval {
  double seconds = 30;
  int64_t steps = 0;  // 0: by seconds
  bool operator==(const CheckpointInterval&) const = default;
};
/// "200" (steps) or "30s". Throws Error(usage).
CheckpointInterval parse_checkpoint_interval(const std::string& text);
std::string to_string(const CheckpointInterval& interval);

/// The options of a run. Field `batch_size` is the option `--batch-size`, and so on. A run's numbers depend
/// on the options that resume_config() does not allow to change.
struct TrainConfig {
  std::string model = "cnn";           // see nn::model_names()
  std::string data = "fashion-mnist";  // as open_dataset() takes it; for language models a text file
  std::string task = "auto";           // see task_names(); auto: what the model is for
  std::string target;                  // the column of a table to predict (DataOptions); "": by its name
  std::string loss;                    // for regression: mse, l1 or huber; "": mse
  int64_t image_size = 0;              // of image files, see DataOptions; 0: what these suggest
  int64_t max_broken = 10;             // how many unreadable images are skipped
  std::string augment = "none";        // as Augmentation::parse() takes it, with "standard"
  std::string augment_on = "loader";   // its threads; "device": as part of the step, see DeviceAugmentation
  int64_t context = 0;                 // tokens that a language model sees; 0: nn::default_context()
  std::string tokenizer;               // a tokenizer.json; "": each byte is a token
  double validation = 0;               // share of the training data that is held back, and tested on
  std::string init;                    // safetensors file with initial weights; "": random
  std::string freeze;                  // patterns of parameters that are not trained, with commas between
  int64_t lora = 0;                    // the rank of adapters; only these are trained; 0: none
  double lora_alpha = 0;               // adapters are scaled by lora_alpha / lora; 0: by 1
  std::string device = "auto";         // as parse_device() takes it
  int64_t epochs = 4;
  int64_t batch_size = 128;
  bool batch_may_shrink = false;  // to the size of the training data; not an option, not stored
  int64_t accumulate = 1;         // parts in which a batch is computed, one after the other
  std::string precision = "f32";  // see precision_names()
  std::string optimizer = "sgd";  // see optim::optimizer_names()
  std::optional<double> lr;       // the largest learning rate of the schedule; none: default_lr(optimizer)
  double momentum = 0.9;          // for sgd (Nesterov, unless it is 0)
  double weight_decay = 5e-4;     // adamw: decoupled; others: added to the gradient
  std::string weight_decay_on = "all";  // see weight_decay_names()
  std::string schedule = "one-cycle";   // see optim::schedule_names()
  int64_t warm_up = 0;                  // steps in which the rate rises to lr; one-cycle has its own
  double label_smoothing = 0;
  double clip_norm = 0;  // the largest norm of all gradients together; 0: not clipped
  double ema = 0;        // decay of an average of the weights, which is tested and used; 0: none
  int64_t patience = 0;  // stop after this many epochs without a better test; 0: never
  uint64_t seed = 0;
  int64_t threads = 0;        // of CPU kernels; 0: one for each core that other programs leave
  int64_t workers = 1;        // threads that make batches
  int64_t max_steps = 0;      // stop after this many steps; 0: after the epochs. Schedules do not change
  int64_t eval_examples = 0;  // test on this many of the first test images; 0: on all
  int64_t sample = 0;         // tokens of text that a language model writes after each epoch
  CheckpointInterval checkpoint_every;
  std::string tune = "quick";  // see tuning_names(): when kernels are timed
  std::string choices;         // a run whose kernels are repeated, or its metrics.jsonl; "": none
  int64_t memory_limit = 0;    // bytes of device memory that a step may take; 0: no limit
  std::string offload;         // "optimizer": its state is kept in host memory; "": nothing
  bool tensorboard = false;    // write event files for TensorBoard, too
  bool deterministic = false;  // choose kernels without timing them
  bool check_nan = false;      // after every kernel, look for NaN and infinity

  /// The learning rate, given or default.
  double learning_rate() const;
  /// Examples that are computed at one time, in training and in tests.
  int64_t part_size() const { return std::max<int64_t>(1, batch_size / accumulate); }
  /// Throws Error(usage) naming the first option that is out of range or unknown, with the nearest match.
  void validate() const;
  /// As validate(), but only for the options of reading data: image_size, workers and validation.
  void check_reading() const;
  bool operator==(const TrainConfig&) const = default;

 private:
  void check_task() const;
};

double default_lr(const std::string& optimizer);

/// "auto", "classification", "regression", "segmentation"
const std::vector<std::string>& task_names();
/// The losses of regression: "mse", "l1", "huber"
const std::vector<std::string>& loss_names();

/// If the batch may shrink, makes it no larger than the training data, and a multiple of its parts.
void shrink_batch(TrainConfig& config, int64_t examples);

/// Sets `tune` to "off" where kernels are fixed, by `deterministic` or `choices`: a run's files say what was
/// done.
void settle_tuning(TrainConfig& config);

/// "all", or "weights": parameters of two and more dimensions, so not biases and norms.
const std::vector<std::string>& weight_decay_names();

/// The default options of a model and task, see the table in docs/training.md.
TrainConfig default_config(const std::string& model, const std::string& task = "auto");

nlohmann::json to_json(const TrainConfig& config);
/// Throws Error(format) naming `source` if a field is missing, unknown or of another type.
TrainConfig train_config_from_json(const nlohmann::json& json, const std::string& source);

/// The options for resuming: those of the stored run, with those given now that do not change its numbers
/// (workers, max_steps, eval_examples, checkpoint_every, check_nan, device). `was_given("batch_size")` says
/// whether the caller gave that field. Throws Error(usage) when another option was given another value.
TrainConfig resume_config(const TrainConfig& stored, const TrainConfig& given,
                          const std::function<bool(const std::string& field)>& was_given,
                          const std::filesystem::path& folder);

/// "--batch-size" for "batch_size".
std::string option_name(std::string field);

}  // namespace athanor
