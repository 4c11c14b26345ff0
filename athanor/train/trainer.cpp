#include "athanor/train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "athanor/base/clock.h"
#include "athanor/base/error.h"
#include "athanor/base/file.h"
#include "athanor/base/os/interrupt.h"
#include "athanor/base/text.h"
#include "athanor/base/threads.h"
#include "athanor/compile/options.h"
#include "athanor/data/first_examples.h"
#include "athanor/data/open_dataset.h"
#include "athanor/kernels/cache.h"
#include "athanor/kernels/choose_device.h"
#include "athanor/kernels/precision_support.h"
#include "athanor/kernels/trace.h"
#include "athanor/kernels/trust.h"
#include "athanor/kernels/tuning_cache.h"
#include "athanor/nn/models.h"
#include "athanor/runtime/evaluate.h"
#include "athanor/train/loss_svg.h"
#include "athanor/train/test_set.h"
#include "athanor/train/training_step.h"

namespace athanor {
namespace {

namespace fs = std::filesystem;

// Drawing reads all steps so far, so not every checkpoint of a long run draws.
constexpr double seconds_between_drawings = 10;

// One step runs while the next is built. A second one waits, so that the device has work while this thread
// writes and tests.
constexpr size_t most_in_flight = 2;

/// What `find` gives; names that it does not know are mistakes of the option's.
template <class F>
auto from_option(const std::string& option, F&& find) {
  try {
    return find();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::name && error.code() != ErrorCode::device) throw;
    throw Error(ErrorCode::usage, error.problem(), option, error.hint());
  }
}

std::string why_device(const std::string& asked, const DeviceChoice& choice) {
  std::string why = asked == "auto" || asked == "gpu" ? fmt::format("{}: {}", asked, choice.why)
                                                      : fmt::format("asked for with --device {}", asked);
  const DeviceInfo info = info_of(choice.device);
  if (auto note = info.properties.find("note"); note != info.properties.end())
    why += "; " + note->second.value;
  return why;
}

/// Numbers differ between devices, so "auto" continues on the run's device if it is still there.
DeviceChoice device_for(const std::string& asked, const std::string& before) {
  if (asked == "auto" && !before.empty())
    for (const DeviceInfo& info : list_devices())
      if (to_string(info.device) == before) return {info.device, "the run was on it before"};
  return choose_device(asked);
}

/// Sets the options of this thread's compiler while the run lasts.
class CompileScope {
 public:
  explicit CompileScope(const TrainConfig& config) : before_(compile_options()) {
    compile_options().deterministic |= config.deterministic;
    compile_options().tuning = config.choices.empty() ? parse_tuning(config.tune) : Tuning::off;
    compile_options().check_nan |= config.check_nan;
  }
  ~CompileScope() { compile_options() = before_; }
  CompileScope(const CompileScope&) = delete;
  CompileScope& operator=(const CompileScope&) = delete;

 private:
  CompileOptions before_;
};

}  // namespace

Trainer::Trainer(const TrainConfig& config, RunFolder folder, bool resume, Reporter& reporter)
    : config_(config), folder_(std::move(folder)), reporter_(reporter) {
  config_.validate();
  config_.data = from_any_folder(config_.data);
  if (resume && fs::exists(folder_.path)) lock_ = folder_.take_lock();
  std::optional<Checkpoint> checkpoint;
  if (resume && fs::exists(folder_.checkpoint())) checkpoint = read_checkpoint(folder_.checkpoint());
  const ScopedWaitListener waits = tell_reporter();
  set_cpu_threads(0);  // devices are compared as a whole, so that --threads changes no choice
  const DeviceChoice choice = from_option(
      "--device", [&] { return device_for(config_.device, checkpoint ? checkpoint->device : ""); });
  device_ = choice.device;
  device_why_ = why_device(config_.device, choice);
  require_examined(device_);
  precision_note_ = require_precision(device_, parse_precision(config_.precision));
  // The number of threads decides how sums are split, so a resumed run keeps it wherever it goes on.
  set_cpu_threads(static_cast<int>(checkpoint ? checkpoint->threads : config_.threads));
  reset_peak_memory(device_);

  throw_if_interrupted();
  train_ = from_option("--data", [&] { return open_dataset(config_.data, Split::train); });
  test_ = first_examples(open_dataset(config_.data, Split::test, train_->spec().normalization),
                         config_.eval_examples);
  throw_if_interrupted();
  if (test_->spec().input != train_->spec().input)
    throw Error(ErrorCode::shape,
                fmt::format("the test pictures are {}, the training pictures {}",
                            to_string(test_->spec().input), to_string(train_->spec().input)),
                config_.data, "Make them of one size");
  if (config_.batch_size > train_->size())
    throw Error(ErrorCode::usage,
                fmt::format("a batch of {} is larger than the {} training pictures", config_.batch_size,
                            train_->size()),
                "--batch-size", fmt::format("Give at most {}", train_->size()));

  manual_seed(config_.seed);
  make_model();
  loader_.emplace(train_, LoaderOptions{.batch_size = config_.batch_size,
                                        .shuffle = true,
                                        .seed = config_.seed,
                                        .drop_last = true,
                                        .workers = static_cast<int>(config_.workers)});
  schedule_ = optim::make_schedule(config_.schedule, {.lr = config_.learning_rate(),
                                                      .total_steps = config_.epochs * loader_->batches(),
                                                      .warm_up_steps = config_.warm_up});
  tuning_.emplace(config_, device_);
  if (checkpoint)
    go_on_from(std::move(*checkpoint));
  else if (!config_.choices.empty())
    tuning_->repeat_another();
  throw_if_interrupted();

  folder_.create();
  if (!lock_) lock_ = folder_.take_lock();
  folder_.check_space(checkpoint_bytes());
  write_json(folder_.config(), to_json(config_));
  if (resume) tuning_->repeat(record_in(read_lost_steps(folder_.metrics(), state_.metrics_bytes)));
  log_.emplace(folder_.metrics(), state_.metrics_bytes);
  if (state_.step > 0) metrics_ = read_metrics(folder_.metrics());
  if (static_cast<int64_t>(metrics_.size()) != state_.step)
    throw Error(ErrorCode::format,
                fmt::format("the file has {} steps, the checkpoint {}", metrics_.size(), state_.step),
                folder_.metrics().string(), "The file was changed: restore it, or start a new run");
  tuning_->go_on_from(metrics_);
  saved_at_ = drawn_at_ = Clock::now();
  saved_step_ = state_.step;
  reporter_.started(facts(device_why_));
}

ScopedWaitListener Trainer::tell_reporter() {
  return ScopedWaitListener(
      [this](const std::string& what, const std::string& how_far) { reporter_.waiting(what, how_far); });
}

void Trainer::make_model() {
  model_ = nn::make_model(config_.model, train_->spec().input, train_->spec().classes);
  model_->to(device_);
  optimizer_ = make_optimizer(config_, model_->parameters());
  if (config_.precision == "f16") scaler_.emplace(device_);
  mark_.emplace(*model_, *optimizer_, scaler_ ? &*scaler_ : nullptr);
}

StepOptions Trainer::step_options() {
  return {.label_smoothing = config_.label_smoothing,
          .clip_norm = config_.clip_norm,
          .precision = parse_precision(config_.precision),
          .scaler = scaler_ ? &*scaler_ : nullptr};
}

// Checkpoints replace one another: the last stays until the next is written.
uint64_t Trainer::checkpoint_bytes() const {
  uint64_t bytes = optimizer_->state_bytes();
  for (const auto& parameter : model_->parameters()) bytes += parameter.value().type().bytes();
  for (const auto& [name, buffer] : model_->named_buffers()) bytes += buffer.value().type().bytes();
  return bytes;
}

void Trainer::go_on_from(Checkpoint checkpoint) {
  check_same_data(checkpoint.data);
  try {
    model_->load_state_dict(checkpoint.model);
    optimizer_->load_state_dict(checkpoint.optimizer);
    if (scaler_) scaler_->load_state_dict(checkpoint.scaler);
    loader_->restore(checkpoint.state.loader);
  } catch (const Error& error) {
    throw Error(ErrorCode::format, fmt::format("the checkpoint does not fit the run: {}", error.problem()),
                folder_.checkpoint().string(), "Start a new run in another folder");
  }
  default_generator().restore(checkpoint.state.random);
  TuningCache::instance().restore(checkpoint.kernels);
  kernels_ = std::move(checkpoint.kernels);
  tuning_->repeat(checkpoint.kernels_to_come);
  state_ = std::move(checkpoint.state);
}

void Trainer::check_same_data(const ExampleSpec& stored) const {
  const ExampleSpec& here = train_->spec();
  if (stored.input == here.input && stored.classes == here.classes &&
      stored.normalization.mean == here.normalization.mean &&
      stored.normalization.stddev == here.normalization.stddev)
    return;
  throw Error(ErrorCode::value,
              fmt::format("the pictures in '{}' are not those that the run was trained on", config_.data),
              folder_.path.string(), "Bring the data back as it was, or start a new run");
}

RunFacts Trainer::facts(const std::string& device_why) const {
  return {.config = config_,
          .folder = folder_,
          .device = info_of(device_),
          .device_why = device_why,
          .precision_note = precision_note_,
          .trust = trust_note(device_),
          .threads = cpu_threads(),
          .parameters = model_->parameter_count(),
          .train_pictures = train_->size(),
          .test_pictures = test_->size(),
          .data = train_->spec(),
          .steps_before = state_.step,
          .steps_in_epoch = loader_->batches(),
          .steps_in_all = last_step()};
}

int64_t Trainer::last_step() const {
  const int64_t steps = config_.epochs * loader_->batches();
  return config_.max_steps > 0 ? std::min(config_.max_steps, steps) : steps;
}

bool Trainer::at_end() const { return launched() >= last_step(); }
LoaderState Trainer::position() const { return ahead_ ? ahead_from_ : loader_->state(); }
bool Trainer::epoch_is_over() const { return position().next_batch == loader_->batches(); }
bool Trainer::finished() const { return at_end() && !epoch_is_over() && fs::exists(folder_.summary()); }

RunEnd Trainer::run() {
  const std::optional<os::Lock> lock = std::move(lock_);  // until the work ends, in whatever way
  const InterruptScope interrupts;
  const CompileScope options(config_);
  const ScopedWaitListener waits = tell_reporter();
  const RunTuning::Scope tuning(*tuning_);
  std::error_code ignored;
  fs::remove(folder_.summary(), ignored);  // of an earlier end, which this run goes beyond
  try {
    run_to_end();
    return RunEnd::finished;
  } catch (const Interrupted&) {
    settle(0);
    if (whole_ && state_.step != saved_step_) save(Svg::now);
    return RunEnd::interrupted;
  }
}

void Trainer::run_to_end() {
  // Initial values are computed before, so that the first step's plan is the one of all steps.
  eval({});
  while (!at_end() || epoch_is_over()) {
    throw_if_interrupted();
    if (epoch_is_over()) {
      settle(0);
      finish_epoch();
    } else {
      try {
        step();
      } catch (const Error& error) {
        if (error.code() == ErrorCode::out_of_memory) stop_without_memory(error);
        throw;
      }
      if (checkpoint_is_due()) {
        settle(0);
        save(Svg::if_old);
      }
    }
  }
  settle(0);
  if (!tested_) tested_ = test();
  save(Svg::now);
  finish();
}

Trainer::Uploaded Trainer::upload() {
  std::optional<Batch> batch;
  {
    const TraceScope trace("wait for a batch");
    batch = loader_->next();
  }
  const TraceScope trace("upload");
  return {Tensor::from(batch->inputs, device_), Tensor::from(batch->labels, device_)};
}

void Trainer::step() {
  const TraceScope trace("step");
  tuning_->before_step(launched() + 1, plan_, reporter_, [this] { settle(0); });
  if (in_flight_.empty()) settled_at_ = Clock::now();
  const EvaluationStats before = evaluation_stats();
  StepInFlight made;
  made.metrics = {.step = launched() + 1, .epoch = position().epoch + 1, .lr = schedule_(launched())};
  ahead_from_ = position();
  const Uploaded batch = ahead_ ? std::move(*ahead_) : upload();
  ahead_.reset();
  made.pictures = batch.labels.shape()[0];
  try {
    made.results = launch(batch, made.metrics.lr);
  } catch (const Interrupted&) {
    ahead_ = batch;  // the next step's, again
    throw;
  }
  const EvaluationStats& after = evaluation_stats();
  plan_ = last_plan();
  tested_.reset();
  made.compiled = after.plans_compiled > before.plans_compiled;
  made.metrics.kernels = tuning_->news(made.metrics.step, plan_);
  made.rebuild_seconds = after.rebuild_seconds - before.rebuild_seconds;
  in_flight_.push_back(std::move(made));
  if (in_flight_.back().compiled)
    reporter_.compiled({.compile_seconds = after.compile_seconds - before.compile_seconds,
                        .kernels = static_cast<int64_t>(plan_->steps.size()),
                        .planned_memory_bytes = plan_->planned_memory_bytes()});
  if (device_ != Device{} && !at_end() && !epoch_is_over()) {
    // While the device computes, the next batch goes up.
    ahead_from_ = loader_->state();
    ahead_ = upload();
  }
  settle(most_in_flight);
}

void Trainer::settle(size_t left_in_flight) {
  while (!in_flight_.empty() &&
         (in_flight_.size() > left_in_flight || in_flight_.front().results.correct.ready()))
    settle_oldest();
}

void Trainer::settle_oldest() {
  const StepInFlight oldest = std::move(in_flight_.front());
  in_flight_.pop_front();
  StepMetrics metrics = oldest.metrics;
  {
    const TraceScope wait("wait for the loss");
    metrics.loss = oldest.results.loss.item();
  }
  if (!std::isfinite(metrics.loss)) stop_at_nan(metrics);
  const auto correct = static_cast<int64_t>(oldest.results.correct.item());
  metrics.accuracy = static_cast<double>(correct) / static_cast<double>(oldest.pictures);
  if (scaler_) {
    metrics.loss_scale = oldest.results.loss_scale.item();
    const auto skipped = static_cast<int64_t>(oldest.results.skipped.item());
    metrics.skipped = skipped > state_.skipped_steps;
    state_.skipped_steps = skipped;
  }

  log_->write(to_line(metrics));
  metrics_.push_back(metrics);
  state_.epoch_sum.add(metrics.loss, correct, oldest.pictures);
  ++state_.step;

  const double seconds = seconds_since(settled_at_);
  settled_at_ = Clock::now();
  state_.train_seconds += seconds;
  if (oldest.compiled) {
    first_steps_seconds_ += seconds;
  } else {
    step_seconds_.push_back(seconds);
    rebuild_seconds_.push_back(oldest.rebuild_seconds);
  }
  reporter_.stepped(metrics, seconds);
}

PendingStep Trainer::launch(const Uploaded& batch, double lr) {
  mark_->set();
  try {
    optimizer_->set_lr(lr);
    PendingStep pending = training_step(*model_, *optimizer_, batch.inputs, batch.labels, step_options());
    const TraceScope trace("launch");
    eval({pending.loss});
    return pending;
  } catch (const Interrupted&) {
    whole_ = mark_->go_back();
    throw;
  }
}

void Trainer::stop_at_nan(const StepMetrics& metrics) {
  write_svg();
  const std::string again = fmt::format("athanor train --resume --check-nan --out {}", folder_.path.string());
  throw Error(
      ErrorCode::numeric,
      fmt::format("the loss of step {} is {}", metrics.step, std::isnan(metrics.loss) ? "NaN" : "infinite"),
      fmt::format("epoch {}, learning rate {:g}", metrics.epoch, metrics.lr),
      fmt::format("Try a smaller --lr, or --clip-norm 1. To see which operation gave it first: {}", again));
}

void Trainer::stop_without_memory(const Error& error) {
  const uint64_t all = info_of(device_).memory_bytes, used = memory_use(device_).current;
  std::string problem = error.problem(), hint = error.hint();
  try {
    // The memory of a plan is affine in the batch size, except for the kernels' scratch. Two small plans give
    // the line.
    const ScopedDisable untuned("tune");
    // The step that failed goes with the model that it was to update: what is pending would be planned along.
    ahead_.reset();
    in_flight_.clear();
    mark_.reset();
    optimizer_.reset();
    make_model();
    eval({});
    const int64_t small = std::max<int64_t>(1, config_.batch_size / 64);
    const auto one = static_cast<double>(plan_of_a_step(small)->planned_memory_bytes());
    const double slope = (static_cast<double>(plan_of_a_step(2 * small)->planned_memory_bytes()) - one) /
                         static_cast<double>(small);
    const double fixed = one - slope * static_cast<double>(small);
    const double planned = fixed + slope * static_cast<double>(config_.batch_size);
    // If a device refuses memory although it reports enough: it has what it has given, and no more.
    const double room =
        planned < static_cast<double>(all) ? static_cast<double>(used) : static_cast<double>(all);
    problem += fmt::format(". A step of batch {} is planned to need {}; {} of {} are free",
                           config_.batch_size, format_bytes(static_cast<uint64_t>(planned)),
                           format_bytes(all > used ? all - used : 0), format_bytes(all));
    const auto batch = static_cast<int64_t>((0.9 * room - fixed) / slope);  // the pool rounds up
    hint = batch > 0 ? fmt::format("The largest batch that fits is about {0}: --batch-size {0}",
                                   std::min(batch, config_.batch_size - 1))
                     : "Not even one picture fits: use a smaller model";
  } catch (const Error&) {
    // If not even a small plan can be made, there is nothing to add.
  }
  throw Error(error.code(), problem, error.where(), hint);
}

MetricsSum Trainer::test() {
  const Autocast scope(parse_precision(config_.precision));
  return test_model(*model_, device_, test_, config_.batch_size, static_cast<int>(config_.workers),
                    [&](int64_t done) {
                      reporter_.tested(done, test_->size());
                      throw_if_interrupted();
                      return true;
                    });
}

void Trainer::finish_epoch() {
  tested_ = test();
  const EpochMetrics epoch{.epoch = position().epoch + 1,
                           .step = state_.step,
                           .train_loss = state_.epoch_sum.mean_loss(),
                           .train_accuracy = state_.epoch_sum.accuracy(),
                           .test_loss = tested_->mean_loss(),
                           .test_accuracy = tested_->accuracy()};
  state_.epochs.push_back(epoch);
  state_.epoch_sum = {};
  loader_->next();  // nothing: on to the next epoch
  save(Svg::now);
  reporter_.epoch_ended(epoch);
}

bool Trainer::checkpoint_is_due() const {
  const CheckpointInterval& every = config_.checkpoint_every;
  return every.steps > 0 ? launched() - saved_step_ >= every.steps
                         : seconds_since(saved_at_) >= every.seconds;
}

void Trainer::save(Svg svg) {
  log_->sync();
  state_.metrics_bytes = log_->size();
  state_.loader = position();
  state_.random = default_generator().state();
  for (const auto& [problem, kernel] : TuningCache::instance().used()) kernels_[problem] = kernel;
  write_checkpoint(folder_.checkpoint(), {.config = config_,
                                          .device = to_string(device_),
                                          .threads = cpu_threads(),
                                          .data = train_->spec(),
                                          .state = state_,
                                          .kernels = kernels_,
                                          .kernels_to_come = tuning_->to_come(),
                                          .model = model_->state_dict(),
                                          .optimizer = optimizer_->state_dict(),
                                          .scaler = scaler_ ? scaler_->state_dict() : nn::StateDict()});
  saved_step_ = state_.step;
  saved_at_ = Clock::now();
  if (svg == Svg::if_old && seconds_since(drawn_at_) < seconds_between_drawings) return;
  write_svg();
  drawn_at_ = Clock::now();
}

// A run that --max-steps ends is tested in the middle of an epoch.
std::optional<TestPoint> Trainer::last_test() const {
  if (!tested_ || (!state_.epochs.empty() && state_.epochs.back().step == state_.step)) return std::nullopt;
  return TestPoint{state_.step, tested_->mean_loss(), tested_->accuracy()};
}

void Trainer::write_svg() const {
  write_file_atomically(
      folder_.loss_svg(),
      draw_curves({.title = fmt::format("{} on {}", config_.model, dataset_title(config_.data)),
                   .subtitle = fmt::format("{}, {} schedule, learning rate {:g}, batch {}, seed {}",
                                           config_.optimizer, config_.schedule, config_.learning_rate(),
                                           config_.batch_size, config_.seed),
                   .steps = metrics_,
                   .epochs = state_.epochs,
                   .last_test = last_test(),
                   .steps_in_all = last_step()}));
}

void Trainer::finish() {
  const bool inside_epoch = state_.epoch_sum.pictures > 0;
  double timed = 0;
  for (const double seconds : step_seconds_) timed += seconds;
  const auto pictures = static_cast<double>(config_.batch_size) * static_cast<double>(step_seconds_.size());
  Summary summary{
      .config = config_,
      .device = to_string(device_),
      .trust = trust_note(device_),
      .threads = cpu_threads(),
      .steps = state_.step,
      .parameters = model_->parameter_count(),
      .train_loss = inside_epoch || state_.epochs.empty() ? state_.epoch_sum.mean_loss()
                                                          : state_.epochs.back().train_loss,
      .test_loss = tested_->mean_loss(),
      .test_accuracy = tested_->accuracy(),
      .epochs = state_.epochs,
      .images_per_second = timed > 0 ? pictures / timed : 0,
      .step_ms_median = 1e3 * median(step_seconds_),
      .rebuild_ms_median = 1e3 * median(rebuild_seconds_),
      .train_seconds = state_.train_seconds,
      .first_steps_seconds = first_steps_seconds_,
      .tuning_seconds = tuning_->state().seconds,
      .tuned = static_cast<int64_t>(tuning_->state().timed),
      .left_to_be_tuned = static_cast<int64_t>(tuning_->state().problems - tuning_->state().timed),
      .peak_memory_bytes = memory_use(device_).peak,
      .plans_compiled = evaluation_stats().plans_compiled,
      .compile_seconds = evaluation_stats().compile_seconds,
      .compilations = compilations()};
  if (!metrics_.empty()) summary.loss_scale = metrics_.back().loss_scale;
  summary.skipped_steps = state_.skipped_steps;
  if (!plan_) plan_ = plan_of_a_step(config_.batch_size);
  summary.planned_memory_bytes = plan_->planned_memory_bytes();
  summary.kernels_total = static_cast<int64_t>(plan_->steps.size());
  summary.kernels_off_device = plan_->kernels_off_device();
  nlohmann::ordered_json plan = to_json(*plan_);
  plan["kernel_choices"] = kernels_;
  write_json(folder_.plan(), plan);
  write_json(folder_.summary(), to_json(summary));
  reporter_.ended(summary);
}

// For a run that was killed after its last step and before its summary.
std::shared_ptr<const Plan> Trainer::plan_of_a_step(int64_t batch) {
  const Tensor pictures = Tensor::from(HostArray(DType::f32, train_->spec().input.insert(0, batch)), device_);
  const Tensor labels = Tensor::from(HostArray(DType::i64, {batch}), device_);
  const PendingStep pending = training_step(*model_, *optimizer_, pictures, labels, step_options());
  return plan_for({pending.loss});
}

TrainConfig stored_config(const RunFolder& folder) {
  TrainConfig config =
      fs::exists(folder.config()) ? read_config(folder) : read_checkpoint(folder.checkpoint()).config;
  config.data = from_any_folder(config.data);  // older runs have it as it was given
  return config;
}

}  // namespace athanor
