// The display of `athanor train`: the device, a progress bar, a line for each epoch, and the result.
#pragma once
#include <deque>
#include <ostream>
#include <string>

#include "athanor/base/clock.h"
#include "athanor/train/reporter.h"

namespace athanor {

/// What the output can display.
struct Screen {
  bool interactive = false;  // a terminal, whose last line can be overwritten; else a plain line now and then
  bool unicode = false, color = false;
  int columns = 80;
};

/// Reports for people.
class Progress : public Reporter {
 public:
  Progress(std::ostream& out, const Screen& screen) : out_(out), screen_(screen) {}
  ~Progress() override { clear(); }

  void waiting(const std::string& what, const std::string& how_far) override;
  void started(const RunFacts& facts) override;
  void compiled(const StepFacts& facts) override;
  void tuned(const TuningFacts& facts) override;
  void threads_changed(const ThreadFacts& facts) override;
  void stepped(const StepMetrics& metrics, double seconds) override;
  void tested(int64_t done, int64_t of) override;
  void epoch_ended(const EpochMetrics& epoch) override;
  void sampled(int64_t step, const std::string& text) override;
  void ended(const Summary& summary) override;
  /// Removes the progress bar, so that something else can be printed.
  void clear();

 private:
  void line(const std::string& text);
  /// A title and its text, in lines of the screen's width. Paths and commands are not for this: people copy
  /// them.
  void row(const std::string& title, const std::string& text);
  void remark(const std::string& text);
  void show(const std::string& head, double share, const std::string& tail);
  std::string result(double loss, double accuracy, const TestMeasures* test) const;
  std::string where_time_went(const Summary& summary) const;
  std::string bar(double share, int cells) const;
  std::string strong(const std::string& text) const;
  std::string faint(const std::string& text) const;
  bool is_time(double interval);

  std::ostream& out_;
  Screen screen_;
  RunFacts facts_;
  bool shown_ = false;  // the last line is a bar
  Clock::time_point shown_at_ = Clock::now();
  std::deque<double> step_seconds_;  // of the latest steps
  std::string tuning_;               // how far it is; "" when nothing is tuned
  double recent_loss_ = 0, recent_accuracy_ = 0;
  int64_t steps_ = 0;    // that this process made
  int64_t skipped_ = 0;  // of the whole run, by loss scaling
};

}  // namespace athanor
