#include "athanor/train/dataset_task.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "athanor/base/error.h"
#include "athanor/base/os/interrupt.h"
#include "athanor/data/first_examples.h"
#include "athanor/data/held_back.h"
#include "athanor/data/open_dataset.h"
#include "athanor/train/task.h"

namespace athanor {

Splits open_both_splits(const TrainConfig& config, DataOptions data) {
  data.image_size = config.image_size;
  data.most_broken = config.max_broken;
  Splits splits;
  try {
    splits.first = open_dataset(config.data, Split::train, data);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::name) throw;
    throw Error(ErrorCode::usage, error.problem(), "--data", error.hint());
  }
  throw_if_interrupted();
  data.like = splits.first->spec();
  if (config.validation > 0)
    splits = held_back(splits.first, config.validation, config.seed);
  else
    splits.second = open_dataset(config.data, Split::test, data);
  splits.second = first_examples(splits.second, config.eval_examples);
  throw_if_interrupted();
  return splits;
}

std::string inputs_text(const ExampleSpec& spec) {
  if (!spec.columns.empty()) return fmt::format("examples of {} numbers", spec.input[2]);
  return fmt::format("images of {}x{}x{}", spec.input[0], spec.input[1], spec.input[2]);
}

void check_splits(const Dataset& train, const Dataset& test, int64_t batch_size, const std::string& many,
                  const std::string& place) {
  if (test.spec().input != train.spec().input)
    throw Error(ErrorCode::shape,
                fmt::format("the test {0} are {1}, the training {0} {2}", many, to_string(test.spec().input),
                            to_string(train.spec().input)),
                place, "Make them of one size");
  if (batch_size > train.size())
    throw Error(
        ErrorCode::usage,
        fmt::format("a batch of {} is larger than the {} training {}", batch_size, train.size(), many),
        "--batch-size", fmt::format("Give at most {}", train.size()));
}

FullBatches::FullBatches(std::shared_ptr<const Dataset> dataset, int64_t batch_size, int workers)
    : size_(std::min(batch_size, dataset->size())),
      loader_(std::move(dataset), {.batch_size = size_, .workers = workers}) {}

std::optional<Batch> FullBatches::next() {
  std::optional<Batch> batch = loader_.next();
  if (!batch || batch->labels.shape[0] == size_) return batch;
  Batch full{HostArray(DType::f32, batch->inputs.shape.with(0, size_)),
             HostArray(batch->labels.dtype, batch->labels.shape.with(0, size_))};
  if (full.labels.dtype == DType::i64)
    std::ranges::fill(full.labels.as<int64_t>(), ignored_target);
  else
    std::ranges::fill(full.labels.as<float>(), ignored_number);
  std::ranges::copy(batch->inputs.bytes, full.inputs.bytes.begin());
  std::ranges::copy(batch->labels.bytes, full.labels.bytes.begin());
  return full;
}

}  // namespace athanor
