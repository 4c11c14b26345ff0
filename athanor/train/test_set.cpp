#include "athanor/train/test_set.h"

#include "athanor/train/evaluation_mode.h"

namespace athanor {

TestResult test_model(nn::Module& model, Device device, const Task& task, int64_t batch_size,
                      const std::function<bool(int64_t done)>& go_on) {
  static const PartName name = std::make_shared<const std::string>("test");
  const PartScope unless_a_module_made_it(name);
  const EvaluationMode mode(model);
  const NoGrad no_history;
  const std::unique_ptr<Batches> batches = task.test_batches(batch_size);
  TestResult sum;
  std::unique_ptr<Tally> tally;
  while (const auto batch = batches->next()) {
    const Forward result =
        task.forward(model, Tensor::from(batch->inputs, device), Tensor::from(batch->labels, device));
    const double loss = result.loss.item();
    sum.add(loss, result.correct.item(), counted(batch->labels));
    if (result.scores.defined()) {
      if (!tally) tally = task.tally();
      tally->add(*batch, result.scores.to_host());
    }
    if (!go_on(sum.count)) break;
  }
  if (tally) tally->finish(sum);
  return sum;
}

}  // namespace athanor
