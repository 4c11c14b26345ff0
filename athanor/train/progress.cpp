#include "athanor/train/progress.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "athanor/base/text.h"
#include "athanor/base/utf8.h"
#include "athanor/base/wrap.h"
#include "athanor/train/confusion_svg.h"
#include "athanor/train/sampling.h"

namespace athanor {
namespace {

constexpr double bar_interval = 0.1, line_interval = 10;  // seconds
constexpr size_t rate_steps = 100;                        // the rate is the mean over this many steps
constexpr double recent = 0.05;                           // weight of the newest step in the displayed values
constexpr double most_loader_wait = 0.03;                 // of a run's time, before advice is given
constexpr double least_loader_wait = 1;                   // seconds; shorter waits do not matter

/// How to make batches faster.
std::string loader_advice(const TrainConfig& config) {
  std::string advice = fmt::format("try --workers {}", 2 * std::max<int64_t>(1, config.workers));
  if (config.augment != "none") advice += ", fewer kinds of --augment";
  return advice + ", or data that is stored smaller";
}

std::string types_of(const std::string& precision) {
  return fmt::format("products of {}, {}", precision,
                     precision == "tf32" ? "everything else in f32" : "weights, sums and loss in f32");
}

/// Text about loss scaling; "" without it.
std::string scaling_of(const Summary& summary) {
  if (!summary.loss_scale) return {};
  return fmt::format("; loss scale {:g} at the end, {} step{} skipped", *summary.loss_scale,
                     grouped(summary.skipped_steps), summary.skipped_steps == 1 ? "" : "s");
}

std::string whole_seconds(double seconds) {
  return seconds < 60 ? fmt::format("{:.0f} s", seconds) : format_duration(seconds);
}

/// "4 epochs of 468 steps", or how many --max-steps leaves.
std::string length_of_run(const RunFacts& facts) {
  const auto steps = [](int64_t count) {
    return fmt::format("{} step{}", grouped(count), count == 1 ? "" : "s");
  };
  const int64_t epochs = facts.config.epochs;
  if (facts.steps_in_all < epochs * facts.steps_in_epoch)
    return fmt::format("{} (an epoch has {})", steps(facts.steps_in_all), grouped(facts.steps_in_epoch));
  return fmt::format("{} epoch{} of {}", epochs, epochs == 1 ? "" : "s", steps(facts.steps_in_epoch));
}

}  // namespace

std::string Progress::strong(const std::string& text) const {
  return screen_.color ? "\x1b[1m" + text + "\x1b[0m" : text;
}
std::string Progress::faint(const std::string& text) const {
  return screen_.color ? "\x1b[2m" + text + "\x1b[0m" : text;
}

void Progress::clear() {
  if (shown_) out_ << "\r\x1b[2K" << std::flush;
  shown_ = false;
}

void Progress::line(const std::string& text) {
  clear();
  out_ << text << '\n' << std::flush;
}

void Progress::row(const std::string& title, const std::string& text) {
  const int indent = text_columns(title) + 2;
  line(fmt::format("{}  {}", strong(title), wrapped(text, screen_.columns - indent, indent)));
}

void Progress::remark(const std::string& text) { line(faint(wrapped(text, screen_.columns, 0))); }

bool Progress::is_time(double interval) {
  const auto now = Clock::now();
  if (std::chrono::duration<double>(now - shown_at_).count() < interval) return false;
  shown_at_ = now;
  return true;
}

std::string Progress::bar(double share, int cells) const {
  const int full = std::clamp(static_cast<int>(share * cells + 1e-9), 0, cells);
  std::string done, rest;
  for (int i = 0; i < full; ++i) done += screen_.unicode ? "━" : "#";
  for (int i = full; i < cells; ++i) rest += screen_.unicode ? (screen_.color ? "━" : "─") : "-";
  if (!screen_.color) return done + rest;
  return "\x1b[36m" + done + "\x1b[0m" + faint(rest);
}

// The bar takes the space that the text leaves.
void Progress::show(const std::string& head, double share, const std::string& tail) {
  const int room = screen_.columns - 1 - static_cast<int>(head.size() + tail.size()) - 4;
  std::string text = head + "  " + tail;
  if (room >= 6)
    text = head + "  " + bar(share, std::min(room, 30)) + "  " + tail;
  else
    text.resize(std::min(text.size(), static_cast<size_t>(std::max(0, screen_.columns - 1))));
  out_ << "\r\x1b[2K" << text << std::flush;
  shown_ = true;
}

void Progress::waiting(const std::string& what, const std::string& how_far) {
  if (!is_time(screen_.interactive ? bar_interval : line_interval)) return;
  std::string text = how_far.empty() ? what : fmt::format("{}, {}", what, how_far);
  if (!screen_.interactive) return line(text);
  text.resize(std::min(text.size(), static_cast<size_t>(std::max(0, screen_.columns - 1))));
  out_ << "\r\x1b[2K" << faint(text) << std::flush;
  shown_ = true;
}

void Progress::started(const RunFacts& facts) {
  facts_ = facts;
  shown_at_ = Clock::now();
  skipped_ = facts.skipped_before;
  const TrainConfig& config = facts.config;
  row("model ", fmt::format("{}, {} parameters{}", config.model, grouped(facts.parameters),
                            facts.trained == 0 || facts.trained == facts.parameters
                                ? ""
                                : fmt::format(", {} of them trained", grouped(facts.trained))));
  if (!facts.init_note.empty()) row("init  ", facts.init_note);
  if (!facts.adapter_note.empty()) row("lora  ", facts.adapter_note);
  if (!config.freeze.empty()) row("frozen", config.freeze);
  row("data  ", fmt::format("{}, {}", config.data, facts.data));
  row("device", fmt::format("{}: {}, {} thread{} ({})", to_string(facts.device.device), facts.device.name,
                            facts.threads, facts.threads == 1 ? "" : "s", facts.device_why));
  if (!facts.trust.empty()) row("trust ", fmt::format("the device is {}", facts.trust));
  if (!facts.offload_note.empty()) row("state ", facts.offload_note);
  row("train ",
      fmt::format("{}, batch {}{}, {} with learning rate {:g}, {} schedule", length_of_run(facts),
                  config.batch_size, facts.batch_note.empty() ? "" : fmt::format(" ({})", facts.batch_note),
                  config.optimizer, config.learning_rate(), config.schedule));
  if (config.precision != "f32")
    row("types ", fmt::format("{}{}", types_of(config.precision),
                              facts.precision_note.empty() ? "" : "; " + facts.precision_note));
  line(fmt::format("{}  {}", strong("run   "), facts.folder.path.string()));
  if (facts.steps_before > 0)
    row("resume", fmt::format("step {} of {}", grouped(facts.steps_before), grouped(facts.steps_in_all)));
  line("");
  if (facts.steps_before >= facts.steps_in_all) return;
  const std::string next = facts.config.tune == "full" ? "compiling the training step and timing kernels ..."
                                                       : "compiling the training step ...";
  if (!screen_.interactive) return line(next);
  out_ << faint(next) << std::flush;
  shown_ = true;
}

namespace {

std::string problems(int64_t count) {
  return fmt::format("{} problem{}", grouped(count), count == 1 ? "" : "s");
}

/// When kernels were timed, and for how many problems; "" if none was.
std::string tuning_of(const Summary& summary) {
  std::string text;
  if (summary.tuned_first > 0)
    text = fmt::format("{} timed before plans first ran, in {}", problems(summary.tuned_first),
                       format_duration(summary.first_tuning_seconds));
  const int64_t between = summary.tuned + summary.left_to_be_tuned;
  if (between == 0) return text;
  if (!text.empty()) text += "; ";
  text += fmt::format("{} of {} timed between steps, in {}", grouped(summary.tuned), problems(between),
                      format_duration(summary.tuning_seconds));
  if (summary.left_to_be_tuned > 0) text += "; the next run goes on ('athanor tune' times all)";
  return text;
}

}  // namespace

void Progress::compiled(const StepFacts& facts) {
  if (steps_ > 0) return;  // a plan that differs only in the order of its inputs: nothing new
  const std::string timing = facts.problems_timed == 0 ? ""
                                                       : fmt::format(", {} of it timing kernels for {}",
                                                                     format_duration(facts.timing_seconds),
                                                                     problems(facts.problems_timed));
  remark(fmt::format("Compiled the step in {}{}: {} kernels, {} of memory ('athanor explain' shows them)",
                     format_duration(facts.compile_seconds), timing, facts.kernels,
                     format_bytes(static_cast<uint64_t>(facts.planned_memory_bytes))));
  if (!facts.libraries.empty()) remark(fmt::format("Libraries: {}", fmt::join(facts.libraries, "; ")));
}

void Progress::tuned(const TuningFacts& facts) {
  tuning_ = facts.state.over ? "" : fmt::format("  tuning {}/{}", facts.state.timed, facts.state.problems);
  for (const KernelChange& change : facts.changes)
    remark(fmt::format("from step {} on: {} by {}, {:.2f} times as fast ({} of {} problems timed)",
                       grouped(facts.step), change.request.substr(0, change.request.find(' ')), change.now,
                       change.speedup, facts.state.timed, facts.state.problems));
}

void Progress::threads_changed(const ThreadFacts& facts) {
  const std::string count = fmt::format("{} thread{}", facts.threads, facts.threads == 1 ? "" : "s");
  const std::string part_time =
      facts.part_time > 0 ? fmt::format(", and {} part of the time", facts.part_time) : "";
  const std::string why = facts.threads < facts.most
                              ? fmt::format(" of {}{}: other programs use the cores (--threads {} keeps all)",
                                            facts.most, part_time, facts.most)
                              : std::string();
  remark(fmt::format("from step {} on: {}{}", grouped(facts.step), count, why));
}

void Progress::stepped(const StepMetrics& metrics, double seconds) {
  skipped_ += metrics.skipped ? 1 : 0;
  if (++steps_ > 1) step_seconds_.push_back(seconds);  // the first one compiles
  if (step_seconds_.size() > rate_steps) step_seconds_.pop_front();
  const double weight = std::max(recent, 1 / static_cast<double>(steps_));
  recent_loss_ += weight * (metrics.loss - recent_loss_);
  recent_accuracy_ += weight * (metrics.accuracy - recent_accuracy_);
  if (step_seconds_.empty() || !is_time(screen_.interactive ? bar_interval : line_interval)) return;

  const double mean_seconds = std::accumulate(step_seconds_.begin(), step_seconds_.end(), 0.0) /
                              static_cast<double>(step_seconds_.size());
  const Unit unit = facts_.scoring->unit();
  const auto rate =
      static_cast<int64_t>(static_cast<double>(facts_.config.batch_size * unit.in_example) / mean_seconds);
  const double left = mean_seconds * static_cast<double>(facts_.steps_in_all - metrics.step);
  const double share = static_cast<double>(metrics.step) / static_cast<double>(facts_.steps_in_all);
  const std::string head =
      fmt::format("epoch {}/{}  {:3.0f} %", metrics.epoch, facts_.config.epochs, 100 * share);
  const std::string skipped = skipped_ == 0 ? "" : fmt::format("  {} skipped", grouped(skipped_));
  const std::string tail =
      fmt::format("{} {}  loss {:.3f}  {}{}  ETA {}{}", grouped(rate), unit.rate, recent_loss_,
                  facts_.scoring->bar(recent_loss_, recent_accuracy_), skipped, whole_seconds(left), tuning_);
  if (screen_.interactive)
    show(head, share, tail);
  else
    line(fmt::format("{}  step {}  {}", head, metrics.step, tail));
}

void Progress::tested(int64_t done, int64_t of) {
  if (!is_time(screen_.interactive ? bar_interval : line_interval)) return;
  const double share = static_cast<double>(done) / static_cast<double>(of);
  if (screen_.interactive)
    show("testing", share, grouped(done) + " " + facts_.scoring->unit().many);
  else
    line(fmt::format("testing  {:3.0f} %  {} of {} {}", 100 * share, grouped(done), grouped(of),
                     facts_.scoring->unit().many));
}

// "loss 0.412, accuracy 85.3 %"
std::string Progress::result(double loss, double accuracy, const TestMeasures* test) const {
  std::string text = fmt::format("loss {:.3f}", loss);
  const std::vector<Measure> measures = facts_.scoring->measures(loss, accuracy);
  for (const Measure& measure : measures)
    text += ", " + (test != nullptr ? strong(measure.text) : measure.text);
  if (test == nullptr) return text;
  const std::string best = facts_.scoring->best(loss, accuracy, *test);
  return best == measures.front().text ? text : text + ", " + strong(best);
}

void Progress::epoch_ended(const EpochMetrics& epoch) {
  line(fmt::format("epoch {}/{}  train {}  test {}", epoch.epoch, facts_.config.epochs,
                   result(epoch.train_loss, epoch.train_accuracy, nullptr),
                   result(epoch.test_loss, epoch.test_accuracy, &epoch.test_more)));
}

void Progress::sampled(int64_t /*step*/, const std::string& text) {
  std::string shown = without_controls(valid_utf8(text));
  for (size_t at = 0; (at = shown.find('\n', at)) != std::string::npos; at += 5) shown.insert(at + 1, "    ");
  line(faint("    " + shown));
}

// Why the time is not the steps times the median.
std::string Progress::where_time_went(const Summary& summary) const {
  if (facts_.steps_before > 0) return ", over all parts of the run";
  if (summary.steps == 1 || summary.first_steps_seconds < 0.01 * summary.train_seconds) return {};
  return fmt::format(", {} of it in the first, which chose and compiled kernels",
                     format_duration(summary.first_steps_seconds));
}

void Progress::ended(const Summary& summary) {
  const RunFolder& folder = facts_.folder;
  line("");
  const ResultText words =
      facts_.scoring->in_words(summary.test_loss, summary.test_accuracy, facts_.test_count);
  std::string rest = words.rest;
  if (!summary.classes)
    for (const Measure& measure : summary.more) rest += ", " + measure.text;
  row("result ", fmt::format("{}{}", strong(words.figure), rest));
  if (summary.classes) {
    std::string text;
    for (const Measure& measure : summary.more) text += measure.text + ", ";
    const std::string mistake = worst_mistake(*summary.classes, summary.class_names);
    row("classes", fmt::format("{}{}", text, mistake.empty() ? "no mistakes" : mistake));
    if (by_name(summary.more).contains("mean_iou"))
      row("IoU    ", iou_of_classes(*summary.classes, summary.class_names));
  }
  if (summary.stopped_early)
    row("stopped", fmt::format("after epoch {}: epoch {} was the best (best.safetensors)",
                               summary.epochs.size(), summary.best_epoch));
  if (!summary.trust.empty()) row("trust  ", fmt::format("{} is {}", summary.device, summary.trust));
  if (summary.per_second > 0)
    row("speed  ", fmt::format("{:.2f} ms a step (median), {} {} a second", summary.step_ms_median,
                               grouped(static_cast<int64_t>(summary.per_second)), summary.unit.rated));
  if (summary.config.precision != "f32")
    row("types  ", fmt::format("{}{}", types_of(summary.config.precision), scaling_of(summary)));
  row("time   ",
      fmt::format("{} for {} step{}{}", format_duration(summary.train_seconds), grouped(summary.steps),
                  summary.steps == 1 ? "" : "s", where_time_went(summary)));
  if (summary.examination_seconds >= 0.1)
    row("before ", fmt::format("{} to examine {}, which is done once",
                               format_duration(summary.examination_seconds), summary.device));
  if (!summary.broken.empty())
    row("broken ",
        fmt::format("{} {} could not be read, and others took their place: {}{}", summary.broken.size(),
                    summary.broken.size() == 1 ? "image" : "images", summary.broken.front(),
                    summary.broken.size() > 1 ? "; summary.json has all" : ""));
  if (summary.loader_wait_share >= most_loader_wait && summary.loader_wait_seconds >= least_loader_wait)
    row("loader ", fmt::format("{:.0f} % of the time was spent waiting for batches: {}",
                               100 * summary.loader_wait_share, loader_advice(summary.config)));
  if (const std::string tuning = tuning_of(summary); !tuning.empty()) row("tuning ", tuning);
  row("memory ",
      fmt::format("{} at most; {} of {} kernels off the device", format_bytes(summary.peak_memory_bytes),
                  summary.kernels_off_device, summary.kernels_total));
  line(fmt::format("{}  {}/", strong("files  "), folder.path.string()));
  row("       ",
      fmt::format("loss.svg (curves{}, for a browser), checkpoint.safetensors, metrics.jsonl, summary.json, "
                  "plan.json",
                  summary.classes && summary.classes->classes() <= most_drawn_classes
                      ? "; confusion.svg: mistakes"
                      : ""));
  line(fmt::format("{}  athanor {} --checkpoint {}", strong("next   "), facts_.scoring->use(),
                   folder.path.string()));
}

}  // namespace athanor
