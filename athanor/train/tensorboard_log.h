// A run's numbers for TensorBoard.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "athanor/base/os/file.h"
#include "athanor/formats/tensorboard.h"
#include "athanor/train/metrics.h"
#include "athanor/train/run_folder.h"
#include "athanor/train/scoring.h"

namespace athanor {

/// Writes events.out.tfevents.TIME.athanor into a run's folder: each step's loss, accuracy and learning rate,
/// each test, and text that a language model writes. A resumed run begins another file, as TensorBoard
/// expects: for repeated steps it takes the later values.
class TensorBoardLog {
 public:
  /// Throws Error(io).
  explicit TensorBoardLog(const RunFolder& folder);

  void add(const StepMetrics& step);
  void add(const EpochMetrics& epoch, const std::vector<Measure>& measures);
  void add_text(int64_t step, const std::string& text);

 private:
  void write(int64_t step, const std::vector<TensorBoardValue>& values);
  std::filesystem::path path_;
  os::File file_;
};

}  // namespace athanor
