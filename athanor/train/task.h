// Task: what a run learns, and from which data.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "athanor/data/batches.h"
#include "athanor/data/dataset.h"
#include "athanor/nn/module.h"
#include "athanor/train/config.h"
#include "athanor/train/scoring.h"
#include "athanor/train/tally.h"
#include "athanor/train/training_step.h"

namespace athanor {

/// Provides a training run with its data as batches, a model, and the loss. The Trainer does the rest; it
/// knows neither images nor text. Classification, Regression, Segmentation and LanguageModelling are tasks;
/// derive others from this.
///
/// Batches have one shape throughout, so that all steps run one plan. Targets are i64, where ignored_target
/// does not count, or f32 [B, ...], where examples that begin with ignored_number do not count.
class Task {
 public:
  virtual ~Task() = default;

  /// The description of the data in checkpoints, so that a trained model can be used without the data.
  virtual const ExampleSpec& spec() const = 0;
  /// "60,000 training and 10,000 test images of 1x28x28, 10 classes"
  virtual std::string describe() const = 0;
  virtual std::shared_ptr<const Scoring> scoring() const = 0;
  /// For a test, whose forward() returns scores.
  virtual std::unique_ptr<Tally> tally() const { return std::make_unique<ClassTally>(spec().classes); }

  /// A new model, with initial values from default_generator().
  virtual std::unique_ptr<nn::Module> make_model() const = 0;
  /// The loss of a batch, and how many of its targets the model predicts: for training if model.training(),
  /// otherwise for testing.
  virtual Forward forward(nn::Module& model, const Tensor& inputs, const Tensor& targets) const = 0;

  /// Endless training epochs. Throws Error(usage) if the data is too small for one batch.
  virtual std::unique_ptr<Batches> training_batches() const = 0;
  /// The test data, once. The last batch is filled up with targets that do not count.
  virtual std::unique_ptr<Batches> test_batches(int64_t batch_size) const = 0;
  /// Targets that count in all test batches together.
  virtual int64_t test_count() const = 0;
  /// The examples that could not be read so far, each with the reason; others took their place.
  virtual std::vector<std::string> broken() const { return {}; }
  /// The types of a batch, for planning without data.
  virtual TensorType input_type(int64_t batch_size) const = 0;
  virtual TensorType target_type(int64_t batch_size) const = 0;
  int64_t batch_bytes(int64_t batch_size) const {
    return static_cast<int64_t>(input_type(batch_size).bytes() + target_type(batch_size).bytes());
  }

  /// Tokenizer::source() of text, which goes into checkpoints.
  virtual std::string tokenizer() const { return {}; }
  /// A sample of the model's output for people, such as generated text; "" if there is none.
  virtual std::string sample(nn::Module& /*model*/, Device /*device*/, int64_t /*tokens*/,
                             uint64_t /*seed*/) const {
    return {};
  }
};

enum class TaskKind { classification, regression, segmentation, next_token, masked_tokens };
/// The task that `config.task` and `config.model` name.
TaskKind task_kind(const TrainConfig& config);

/// Numbers from this one up are not targets.
inline constexpr float ignored_number = 1e30F;
/// How many of a batch's targets count.
int64_t counted(const HostArray& targets);

/// The task of `config.model` on `config.data`. Throws what opening the data throws. A batch that may shrink
/// becomes no larger than the training data: `config.batch_size` is what the task takes.
std::unique_ptr<const Task> open_task(TrainConfig& config);
/// The same task without its data, of which only `spec` is known: for looking at steps without running them.
std::unique_ptr<const Task> task_without_data(const TrainConfig& config, const ExampleSpec& spec);
/// Throws Error(usage) if the model learns from text and the data is not text, or the other way round.
void check_kind_of_data(const TrainConfig& config);

}  // namespace athanor
