#include "athanor/train/tally.h"

#include <utility>

namespace athanor {

void ClassTally::add(const Batch& batch, const HostArray& scores) {
  result_.classes->add(scores, batch.labels);
  keep_examples(result_, scores, batch.inputs, batch.labels);
}

void ClassTally::finish(TestResult& result) {
  result.measures = class_measures(*result_.classes);
  result.classes = std::move(result_.classes);
  result.mistakes = std::move(result_.mistakes);
  result.first_right = std::move(result_.first_right);
}

}  // namespace athanor
