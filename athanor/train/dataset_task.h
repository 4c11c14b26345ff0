// What tasks on datasets share: both splits, options, and batches.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "athanor/data/augmentation.h"
#include "athanor/data/data_options.h"
#include "athanor/data/dataloader.h"
#include "athanor/nn/models.h"
#include "athanor/train/config.h"
#include "athanor/train/task.h"

namespace athanor {

/// Training and test data; without training data a model is only tested.
using Splits = std::pair<std::shared_ptr<const Dataset>, std::shared_ptr<const Dataset>>;

/// The training and test data of `config`. `data`: further options of the dataset. Throws what
/// open_dataset() throws; Error(usage) for a name that does not exist.
Splits open_both_splits(const TrainConfig& config, DataOptions data);

/// The options that every task takes from `config`. Throws what Augmentation::parse() throws.
template <class Options>
Options dataset_options(const TrainConfig& config, const Splits& splits) {
  Options options{.train = splits.first, .test = splits.second, .data_name = config.data};
  options.model = [name = config.model](const ExampleSpec& spec) {
    return nn::make_model(name, spec.input, spec.classes);
  };
  options.batch_size = config.batch_size;
  options.seed = config.seed;
  options.workers = static_cast<int>(config.workers);
  options.augmentation = std::make_shared<const Augmentation>(Augmentation::parse(
      with_standard(config.augment, standard_augmentation(config.data, splits.second->spec()))));
  return options;
}

/// "images of 3x32x32", or "examples of 7 numbers".
std::string inputs_text(const ExampleSpec& spec);

/// Throws Error(shape) if the splits differ in shape, Error(usage) if there is less than a batch.
/// `many`: "images".
void check_splits(const Dataset& train, const Dataset& test, int64_t batch_size, const std::string& many,
                  const std::string& place);

/// Examples in their order. The last batch is filled up with zeros whose targets do not count.
class FullBatches final : public Batches {
 public:
  FullBatches(std::shared_ptr<const Dataset> dataset, int64_t batch_size, int workers);
  std::optional<Batch> next() override;
  int64_t batches() const override { return loader_.batches(); }
  LoaderState state() const override { return loader_.state(); }
  void restore(const LoaderState& state) override { loader_.restore(state); }

 private:
  int64_t size_;
  DataLoader loader_;
};

/// A task on `options.train` and `options.test`; without `train`, a model is only tested. Training batches
/// are full: examples that do not fill one are left out of the epoch. Epochs are shuffled, so each leaves out
/// others.
template <class Options>
class DatasetTask : public Task {
 public:
  const ExampleSpec& spec() const override {
    return (options_.train ? options_.train : options_.test)->spec();
  }
  std::unique_ptr<nn::Module> make_model() const override { return options_.model(spec()); }
  std::unique_ptr<Batches> training_batches() const override {
    return std::make_unique<DataLoader>(options_.train, LoaderOptions{.batch_size = options_.batch_size,
                                                                      .shuffle = true,
                                                                      .seed = options_.seed,
                                                                      .drop_last = true,
                                                                      .workers = options_.workers,
                                                                      .augmentation = options_.augmentation});
  }
  std::unique_ptr<Batches> test_batches(int64_t batch_size) const override {
    return std::make_unique<FullBatches>(options_.test, batch_size, options_.workers);
  }
  int64_t test_count() const override { return options_.test->size(); }
  std::vector<std::string> broken() const override {
    std::vector<std::string> all = options_.train ? options_.train->broken() : std::vector<std::string>{};
    const std::vector<std::string> test = options_.test->broken();
    all.insert(all.end(), test.begin(), test.end());
    return all;
  }
  TensorType input_type(int64_t batch_size) const override {
    return {DType::f32, spec().input.insert(0, batch_size), {}};
  }

 protected:
  explicit DatasetTask(Options options) : options_(std::move(options)) {}
  Options options_;
};

}  // namespace athanor
