// What a test counts beside loss and right answers.
#pragma once
#include "athanor/data/batches.h"
#include "athanor/train/class_counts.h"

namespace athanor {

class Tally {
 public:
  virtual ~Tally() = default;
  /// `scores`: Forward::scores of the batch.
  virtual void add(const Batch& batch, const HostArray& scores) = 0;
  virtual void finish(TestResult& result) = 0;
};

/// Classes of whole examples: the confusion matrix, mistakes, F1.
class ClassTally final : public Tally {
 public:
  explicit ClassTally(int64_t classes) { result_.classes.emplace(classes); }
  void add(const Batch& batch, const HostArray& scores) override;
  void finish(TestResult& result) override;

 private:
  TestResult result_;
};

}  // namespace athanor
