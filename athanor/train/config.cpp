#include "athanor/train/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "athanor/base/error.h"
#include "athanor/base/text.h"
#include "athanor/compile/options.h"
#include "athanor/data/augmentation.h"
#include "athanor/graph/precision.h"
#include "athanor/nn/models.h"
#include "athanor/nn/own_model.h"
#include "athanor/optim/optimizer.h"
#include "athanor/optim/schedule.h"
#include "athanor/train/device_augmentation.h"

namespace athanor {
namespace {

using nlohmann::json;

constexpr int64_t most_threads = 1024, most_workers = 256;

/// Whether a resumed run may change this field.
enum class OnResume { keep, may_change };

/// Calls f(name, field, on_resume) for every field: the one list that reading, writing and comparing share.
template <class Config, class F>
void for_each_field(Config& config, F&& f) {
  using enum OnResume;
  f("model", config.model, keep);
  f("data", config.data, keep);
  f("task", config.task, keep);
  f("target", config.target, keep);
  f("loss", config.loss, keep);
  f("image_size", config.image_size, keep);
  f("max_broken", config.max_broken, may_change);
  f("augment", config.augment, keep);
  f("augment_on", config.augment_on, keep);
  f("context", config.context, keep);
  f("tokenizer", config.tokenizer, keep);
  f("validation", config.validation, keep);
  f("init", config.init, keep);
  f("freeze", config.freeze, keep);
  f("lora", config.lora, keep);
  f("lora_alpha", config.lora_alpha, keep);
  f("device", config.device, may_change);
  f("epochs", config.epochs, config.schedule == "constant" ? may_change : keep);
  f("batch_size", config.batch_size, keep);
  f("accumulate", config.accumulate, keep);
  f("precision", config.precision, keep);
  f("optimizer", config.optimizer, keep);
  f("lr", config.lr, keep);
  f("momentum", config.momentum, keep);
  f("weight_decay", config.weight_decay, keep);
  f("weight_decay_on", config.weight_decay_on, keep);
  f("schedule", config.schedule, keep);
  f("warm_up", config.warm_up, keep);
  f("label_smoothing", config.label_smoothing, keep);
  f("clip_norm", config.clip_norm, keep);
  f("ema", config.ema, keep);
  f("patience", config.patience, may_change);
  f("seed", config.seed, keep);
  f("threads", config.threads, keep);
  f("workers", config.workers, may_change);
  f("max_steps", config.max_steps, may_change);
  f("eval_examples", config.eval_examples, may_change);
  f("sample", config.sample, may_change);
  f("checkpoint_every", config.checkpoint_every, may_change);
  f("tune", config.tune, may_change);
  f("choices", config.choices, keep);
  f("memory_limit", config.memory_limit, may_change);
  f("offload", config.offload, may_change);
  f("tensorboard", config.tensorboard, may_change);
  f("deterministic", config.deterministic, keep);
  f("check_nan", config.check_nan, may_change);
}

// Fields that older runs do not have.
constexpr std::array<std::string_view, 26> later_fields{
    "augment_on", "tensorboard",     "eval_examples", "precision", "tune",      "choices",    "image_size",
    "max_broken", "augment",         "memory_limit",  "context",   "tokenizer", "validation", "init",
    "freeze",     "weight_decay_on", "ema",           "patience",  "sample",    "accumulate", "offload",
    "lora",       "lora_alpha",      "task",          "target",    "loss"};

template <class T>
json field_to_json(const T& value) {
  if constexpr (std::is_same_v<T, std::optional<double>>)
    return value ? json(*value) : json();
  else if constexpr (std::is_same_v<T, CheckpointInterval>)
    return to_string(value);
  else
    return value;
}

template <class T>
void field_from_json(const json& value, T& field) {
  if constexpr (std::is_same_v<T, std::optional<double>>) {
    field = value.is_null() ? std::nullopt : std::optional(value.get<double>());
  } else if constexpr (std::is_same_v<T, CheckpointInterval>) {
    field = parse_checkpoint_interval(value.get<std::string>());
  } else {
    field = value.get<T>();
  }
}

[[noreturn]] void refuse(const std::string& field, const std::string& problem, const std::string& hint) {
  throw Error(ErrorCode::usage, problem, option_name(field), hint);
}

void check_range(const std::string& field, int64_t value, int64_t least, int64_t most) {
  if (value < least)
    refuse(field, fmt::format("{} is too small", value),
           fmt::format("Give a whole number from {} on", least));
  if (value > most)
    refuse(field, fmt::format("{} is too large", value), fmt::format("Give at most {}", most));
}

/// `share`: the value must lie in [0, 1); otherwise in [0, infinity).
void check_number(const std::string& field, double value, bool share) {
  if (!std::isfinite(value)) refuse(field, fmt::format("{} is not a finite number", value), "Give a number");
  if (value < 0 || (share && value >= 1))
    refuse(field, fmt::format("{} is out of range", value),
           share ? "Give a number from 0 up to, but not including, 1" : "Give a number from 0 on");
}

void check_name(const std::string& field, const std::string& name, const std::vector<std::string>& names) {
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  const std::vector<std::string_view> known(names.begin(), names.end());
  refuse(field, fmt::format("there is no {} '{}'", field, name),
         fmt::format("{}{}", nearest(name, known).empty() ? "" : nearest_hint(name, known) + " ",
                     fmt::format("Known: {}", fmt::join(known, ", "))));
}

template <class T>
std::optional<T> parse_whole(std::string_view text) {
  T value{};
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

CheckpointInterval parse_checkpoint_interval(const std::string& text) {
  const bool seconds = text.ends_with('s');
  const auto number = parse_whole<int64_t>(std::string_view(text).substr(0, text.size() - (seconds ? 1 : 0)));
  if (!number || *number < 1)
    refuse("checkpoint_every", fmt::format("'{}' is not an interval", text),
           "Give a number of steps ('200') or of seconds ('30s')");
  return seconds ? CheckpointInterval{static_cast<double>(*number), 0} : CheckpointInterval{0, *number};
}

std::string to_string(const CheckpointInterval& interval) {
  return interval.steps > 0 ? std::to_string(interval.steps) : fmt::format("{:.0f}s", interval.seconds);
}

double default_lr(const std::string& optimizer) { return optimizer == "sgd" ? 0.1 : 0.003; }

const std::vector<std::string>& weight_decay_names() {
  static const std::vector<std::string> names{"all", "weights"};
  return names;
}

const std::vector<std::string>& task_names() {
  static const std::vector<std::string> names{"auto", "classification", "regression", "segmentation"};
  return names;
}

const std::vector<std::string>& loss_names() {
  static const std::vector<std::string> names{"mse", "l1", "huber"};
  return names;
}

void shrink_batch(TrainConfig& config, int64_t examples) {
  if (config.batch_may_shrink && config.batch_size > examples && examples >= config.accumulate)
    config.batch_size = examples - examples % config.accumulate;
}

void settle_tuning(TrainConfig& config) {
  if (config.deterministic || !config.choices.empty()) config.tune = "off";
}

TrainConfig default_config(const std::string& model, const std::string& task) {
  TrainConfig config;
  config.model = model;
  config.task = task;
  if (task == "regression") {
    config.epochs = 20;
    config.batch_size = 32;
    config.optimizer = "adamw";
    config.lr = 1e-3;
    config.weight_decay = 0.01;
    config.weight_decay_on = "weights";
    config.clip_norm = 1;
  }
  if (model == "vit-tiny") {  // as timm and torchvision train it
    config.optimizer = "adamw";
    config.lr = 1e-3;
    config.weight_decay = 0.05;
    config.weight_decay_on = "weights";
    config.clip_norm = 1;
  }
  if (model == "inception_v3") {
    config.batch_size = 32;
    config.lr = 0.05;
  }
  if (model == "unet-small") {
    config.epochs = 20;
    config.batch_size = 8;
    config.optimizer = "adamw";
    config.lr = 1e-3;
    config.weight_decay = 0.01;
    config.weight_decay_on = "weights";
    config.clip_norm = 1;
  }
  if (!nn::is_language_model(model)) return config;
  config.epochs = 10;
  const bool large = model == "gpt2-small" || model == "bert-base";
  config.batch_size = large ? 8 : 32;
  config.optimizer = "adamw";
  config.lr = large ? 6e-4 : 3e-3;
  config.weight_decay = 0.1;
  config.weight_decay_on = "weights";
  config.clip_norm = 1;
  config.validation = 0.1;
  if (nn::objective_of(model) == nn::Objective::masked_tokens)
    config.lr = large ? 1e-4 : 1e-3;
  else
    config.sample = 100;
  return config;
}

double TrainConfig::learning_rate() const { return lr.value_or(default_lr(optimizer)); }

void TrainConfig::check_task() const {
  check_name("task", task, task_names());
  const bool text = nn::is_language_model(model);
  if (text && task != "auto")
    refuse("task", fmt::format("{} is a model of text, and its task is known", model), "Leave it out");
  if (text && !target.empty())
    refuse("target", fmt::format("{} learns from text, which has no columns", model), "Leave it out");
  const bool of_pixels = !text && nn::objective_of(model) == nn::Objective::pixels;
  if (task != "auto" && !text && of_pixels != (task == "segmentation"))
    refuse(
        "task",
        fmt::format("{} gives {}", model, of_pixels ? "a class for each pixel" : "one answer for an image"),
        of_pixels ? "Leave it out, or take another model" : "For segmentation: --model unet-small");
  if (of_pixels && (!target.empty() || label_smoothing > 0))
    refuse(target.empty() ? "label_smoothing" : "target", "segmentation does without", "Leave it out");
  if (augment_on == "device" && (task == "regression" || of_pixels))
    refuse("augment_on", "only classification augments images on the device", "Leave it out");
  if (!loss.empty() && task != "regression")
    refuse("loss", "only regression has a choice of losses", "Leave it out, or give --task regression");
  if (!loss.empty()) check_name("loss", loss, loss_names());
  if (task == "regression" && label_smoothing > 0)
    refuse("label_smoothing", "numbers have no labels to smooth", "Leave it out");
}

void TrainConfig::check_reading() const {
  check_name("task", task, task_names());
  check_range("image_size", image_size, 0, 16384);
  check_range("workers", workers, 0, most_workers);
  check_number("validation", validation, true);
}

void TrainConfig::validate() const {
  if (nn::is_own_model(model))
    nn::load_own_model(model);
  else
    check_name("model", model, nn::model_names());
  check_task();
  check_name("optimizer", optimizer, optim::optimizer_names());
  check_name("schedule", schedule, optim::schedule_names());
  check_name("precision", precision, precision_names());
  check_name("tune", tune, tuning_names());
  check_reading();
  check_range("max_broken", max_broken, 0, INT64_MAX);
  const Augmentation changes = Augmentation::parse(with_standard(augment, "crop"));
  check_name("augment_on", augment_on, {"loader", "device"});
  if (augment_on == "device") (void)DeviceAugmentation(changes);
  check_range("epochs", epochs, 1, 1'000'000);
  check_range("batch_size", batch_size, 1, INT32_MAX);
  check_range("accumulate", accumulate, 1, batch_size);
  if (batch_size % accumulate != 0)
    refuse("accumulate", fmt::format("a batch of {} has no {} equal parts", batch_size, accumulate),
           "Give a number that divides --batch-size");
  check_range("threads", threads, 0, most_threads);
  check_range("max_steps", max_steps, 0, INT64_MAX);
  if (!offload.empty()) check_name("offload", offload, {"optimizer"});
  check_range("memory_limit", memory_limit, 0, INT64_MAX);
  check_range("eval_examples", eval_examples, 0, INT64_MAX);
  check_number("lr", learning_rate(), false);
  if (learning_rate() == 0) refuse("lr", "a learning rate of 0 learns nothing", "Give a number above 0");
  check_range("warm_up", warm_up, 0, INT32_MAX);
  if (warm_up > 0 && schedule == "one-cycle")
    refuse("warm_up", "the one-cycle schedule has its own warm-up",
           "Choose another --schedule, or leave it out");
  check_name("weight_decay_on", weight_decay_on, weight_decay_names());
  check_range("context", context, 0, 1 << 20);
  check_range("patience", patience, 0, 1'000'000);
  check_range("sample", sample, 0, 1'000'000);
  check_number("ema", ema, true);
  check_range("lora", lora, 0, 1 << 16);
  check_number("lora_alpha", lora_alpha, false);
  if (lora_alpha > 0 && lora == 0) refuse("lora_alpha", "there are no adapters", "Give their rank: --lora 8");
  const bool text = nn::is_language_model(model);
  if (text && validation == 0)
    refuse("validation", "a text has no test part, so some of it must be held back", "Give a share: 0.1");
  if (text && label_smoothing > 0)
    refuse("label_smoothing", "language models are trained without", "Leave it out");
  if (text && augment != "none")
    refuse("augment", "it augments images, and language models learn from text", "Leave it out");
  if (!text && (context > 0 || !tokenizer.empty() || sample > 0))
    refuse(context > 0  ? "context"
           : sample > 0 ? "sample"
                        : "tokenizer",
           fmt::format("{} does not learn from text", model), "It is for language models, such as gpt2-nano");
  if (sample > 0 && nn::objective_of(model) == nn::Objective::masked_tokens)
    refuse("sample", fmt::format("{} predicts hidden tokens and generates no text", model),
           "It is for models that generate text, such as gpt2-nano");
  check_number("momentum", momentum, true);
  check_number("weight_decay", weight_decay, false);
  check_number("label_smoothing", label_smoothing, true);
  check_number("clip_norm", clip_norm, false);
}

nlohmann::json to_json(const TrainConfig& config) {
  json result = json::object();
  for_each_field(config,
                 [&](const char* name, const auto& field, OnResume) { result[name] = field_to_json(field); });
  return result;
}

TrainConfig train_config_from_json(const nlohmann::json& source_json, const std::string& source) {
  TrainConfig config;
  std::vector<std::string> known;
  for_each_field(config, [&](const char* name, auto& field, OnResume) {
    known.emplace_back(name);
    if (std::ranges::find(later_fields, name) != later_fields.end() && !source_json.contains(name)) return;
    try {
      field_from_json(source_json.at(name), field);
    } catch (const std::exception&) {
      throw Error(ErrorCode::format, fmt::format("the option '{}' is missing or not as it was written", name),
                  source, "Restore the file, or start a new run in another folder");
    }
  });
  for (const auto& [name, value] : source_json.items())
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw Error(ErrorCode::format, fmt::format("the option '{}' is unknown", name), source,
                  "The run may be from a newer Athanor");
  return config;
}

TrainConfig resume_config(const TrainConfig& stored, const TrainConfig& given,
                          const std::function<bool(const std::string& field)>& was_given,
                          const std::filesystem::path& folder) {
  json result = to_json(stored);
  const json wanted = to_json(given);
  for_each_field(stored, [&](const std::string& name, const auto&, OnResume on_resume) {
    if (!was_given(name) || wanted[name] == result[name]) return;
    if (on_resume == OnResume::keep)
      refuse(
          name,
          fmt::format("{} was given, but the run in '{}' has {}, and another value would change its numbers",
                      wanted[name].dump(), folder.string(), result[name].dump()),
          fmt::format("Leave {} out to continue the run, or start another run in another --out",
                      option_name(name)));
    result[name] = wanted[name];
  });
  return train_config_from_json(result, folder.string());
}

std::string option_name(std::string field) {
  for (char& c : field)
    if (c == '_') c = '-';
  return "--" + field;
}

}  // namespace athanor
