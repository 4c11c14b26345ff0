// What tasks on datasets share: both splits, and test batches.
#pragma once
#include <memory>
#include <string>
#include <utility>

#include "athanor/data/data_options.h"
#include "athanor/data/dataloader.h"
#include "athanor/train/config.h"

namespace athanor {

/// Training and test data; without training data a model is only tested.
using Splits = std::pair<std::shared_ptr<const Dataset>, std::shared_ptr<const Dataset>>;

/// The training and test data of `config`. `data`: further options of the dataset. Throws what
/// open_dataset() throws; Error(usage) for a name that does not exist.
Splits open_both_splits(const TrainConfig& config, DataOptions data);

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

}  // namespace athanor
