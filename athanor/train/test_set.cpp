#include "athanor/train/test_set.h"

#include <algorithm>
#include <utility>

#include "athanor/data/dataloader.h"
#include "athanor/train/training_step.h"

namespace athanor {
namespace {

constexpr int64_t ignored_label = -100;

/// `batch`, filled up to `size` pictures with zeros and ignored labels.
Batch filled_up(Batch batch, int64_t size) {
  const int64_t count = batch.labels.shape[0];
  if (count == size) return batch;
  Batch full{HostArray(DType::f32, batch.inputs.shape.with(0, size)), HostArray(DType::i64, {size})};
  std::copy(batch.inputs.bytes.begin(), batch.inputs.bytes.end(), full.inputs.bytes.begin());
  const auto labels = full.labels.as<int64_t>();
  std::fill(labels.begin(), labels.end(), ignored_label);
  std::ranges::copy(std::as_const(batch.labels).as<int64_t>(), labels.begin());
  return full;
}

class EvaluationMode {
 public:
  explicit EvaluationMode(nn::Module& model) : model_(model), training_(model.training()) { model_.eval(); }
  ~EvaluationMode() { model_.train(training_); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  nn::Module& model_;
  bool training_;
};

}  // namespace

MetricsSum test_model(nn::Module& model, Device device, std::shared_ptr<const Dataset> dataset,
                      int64_t batch_size, int workers, const std::function<bool(int64_t done)>& go_on) {
  const EvaluationMode mode(model);
  const int64_t size = std::min(batch_size, dataset->size());
  DataLoader loader(std::move(dataset), {.batch_size = size, .workers = workers});
  MetricsSum sum;
  while (auto batch = loader.next()) {
    const int64_t count = batch->labels.shape[0];
    const Batch full = filled_up(std::move(*batch), size);
    const PendingStep step =
        test_step(model, Tensor::from(full.inputs, device), Tensor::from(full.labels, device));
    const double loss = step.loss.item();
    sum.add(loss, static_cast<int64_t>(step.correct.item()), count);
    if (!go_on(sum.pictures)) break;
  }
  return sum;
}

}  // namespace athanor
