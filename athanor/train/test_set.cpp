#include "athanor/train/test_set.h"

#include "athanor/train/evaluation_mode.h"

namespace athanor {
TestResult test_model(nn::Module& model, Device device, const Task& task, int64_t batch_size,
                      const std::function<bool(int64_t done)>& go_on) {
  const EvaluationMode mode(model);
  const NoGrad no_history;
  const std::unique_ptr<Batches> batches = task.test_batches(batch_size);
  TestResult sum;
  while (const auto batch = batches->next()) {
    const Forward result =
        task.forward(model, Tensor::from(batch->inputs, device), Tensor::from(batch->labels, device));
    const double loss = result.loss.item();
    sum.add(loss, static_cast<int64_t>(result.correct.item()), counted(batch->labels));
    if (result.scores.defined()) {
      if (!sum.classes) sum.classes.emplace(task.spec().classes);
      const HostArray scores = result.scores.to_host();
      sum.classes->add(scores, batch->labels);
      keep_examples(sum, scores, batch->inputs, batch->labels);
    }
    if (!go_on(sum.count)) break;
  }
  return sum;
}

}  // namespace athanor
