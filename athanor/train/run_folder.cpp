#include "athanor/train/run_folder.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <nlohmann/json.hpp>
#include <system_error>

#include "athanor/base/error.h"
#include "athanor/base/file.h"
#include "athanor/base/text.h"
#include "athanor/data/open_dataset.h"
#include "athanor/nn/models.h"

namespace athanor {
namespace {

namespace fs = std::filesystem;

const fs::path runs = "runs";

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

}  // namespace

bool RunFolder::has_run() const {
  return is_there(config()) || is_there(checkpoint()) || is_there(metrics());
}

bool RunFolder::has_steps() const {
  std::error_code missing;
  const auto size = fs::file_size(metrics(), missing);
  return is_there(checkpoint()) || (!missing && size > 0);
}

std::vector<fs::path> RunFolder::files() const {
  const auto is_ours = [&](fs::path file) {
    if (file.extension() == ".tmp") file.replace_extension();
    const std::vector<fs::path> known{config(),  config_toml(), metrics(),  checkpoint(), best(),
                                      summary(), plan(),        loss_svg(), confusion(),  confusion_svg(),
                                      state(),   samples(),     examples(), report(),     lock()};
    return std::ranges::find(known, file) != known.end() ||
           file.filename().string().starts_with("events.out.tfevents.");
  };
  std::vector<fs::path> found;
  std::error_code failed;
  for (fs::directory_iterator at(path, failed), end; !failed && at != end; at.increment(failed))
    if (is_ours(at->path()) && !fs::is_directory(at->symlink_status(failed))) found.push_back(at->path());
  std::ranges::sort(found);
  return found;
}

bool RunFolder::is_locked() const {
  if (!is_there(lock())) return false;
  try {
    return !os::Lock::take(lock());
  } catch (const std::system_error&) {
    return false;  // a folder that is not writable
  }
}

void RunFolder::create() const {
  std::error_code failed;
  fs::create_directories(path, failed);
  if (failed || !fs::is_directory(path))
    throw Error(ErrorCode::io,
                fmt::format("the run's folder cannot be made: {}",
                            failed ? failed.message() : "a file has that name"),
                path.string(), "Choose another folder with --out");
  const fs::path probe = path / ".writable";
  try {
    write_file_atomically(probe, std::string_view());
  } catch (const Error& error) {
    throw Error(ErrorCode::io,
                fmt::format("nothing can be written into the run's folder: {}", error.problem()),
                path.string(), "Choose another folder with --out");
  }
  fs::remove(probe, failed);
}

os::Lock RunFolder::take_lock() const {
  try {
    if (auto taken = os::Lock::take(lock())) return std::move(*taken);
  } catch (const std::system_error& error) {
    throw file_error("lock", lock(), error.code());
  }
  throw Error(ErrorCode::io, "another process is at work on this run", path.string(),
              "Wait until it ends, stop it, or start a run in another folder with --out");
}

void RunFolder::check_space(uint64_t bytes) const {
  const uint64_t needed = is_there(checkpoint()) ? bytes : 2 * bytes;
  std::error_code unknown;
  fs::path made = fs::absolute(path, unknown);  // the part of it that exists
  while (!fs::exists(made, unknown) && made.has_relative_path()) made = made.parent_path();
  const fs::space_info space = fs::space(made, unknown);
  if (unknown || space.capacity == 0 || space.available >= needed) return;
  throw Error(ErrorCode::io,
              fmt::format("the disk is too full for the run: checkpoints need {} more, because a new one is "
                          "written before the old one is deleted; {} are free",
                          format_bytes(needed), format_bytes(space.available)),
              path.string(), "Free some space, or choose a folder on another disk with --out");
}

RunFolder new_run_folder(const TrainConfig& config) {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  const std::string name = fmt::format("{}-{}-{:%Y-%m-%d-%H%M%S}", nn::model_title(config.model),
                                       dataset_title(config.data), fmt::localtime(now));
  fs::path path = runs / name;
  for (int number = 2; is_there(path); ++number) path = runs / fmt::format("{}-{}", name, number);
  return {path};
}

std::vector<RunFolder> runs_in(const fs::path& folder) {
  std::vector<RunFolder> found;
  std::error_code failed;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed))
    if (const RunFolder run{at->path()}; run.has_run()) found.push_back(run);
  std::ranges::sort(found, {}, &RunFolder::path);
  return found;
}

std::optional<RunFolder> newest_run() {
  std::optional<RunFolder> newest;
  fs::file_time_type newest_time;
  for (const RunFolder& folder : runs_in(runs)) {
    std::error_code missing;
    const auto time = fs::last_write_time(folder.checkpoint(), missing);
    if (!missing && (!newest || time > newest_time)) newest = folder, newest_time = time;
  }
  return newest;
}

fs::path find_checkpoint(const std::string& path) {
  if (path.empty()) {
    if (const auto run = newest_run()) return run->checkpoint();
    throw Error(ErrorCode::io, "there is no trained model in ./runs", {},
                "Name one with --checkpoint FILE_OR_FOLDER, or train one with 'athanor train'");
  }
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) {
    if (is_there(path)) return path;
    throw Error(ErrorCode::io, "there is no such checkpoint", path,
                "Give the folder of a run, or its checkpoint.safetensors");
  }
  const RunFolder folder{path};
  if (!is_there(folder.checkpoint()))
    throw Error(ErrorCode::io, "the folder holds no checkpoint.safetensors", path,
                folder.has_run() ? "The run has not saved itself yet" : "Give the folder of a run");
  return folder.checkpoint();
}

TrainConfig read_config(const RunFolder& folder) {
  const std::string source = folder.config().string();
  constexpr uint64_t longest = uint64_t{64} << 20;
  const auto json = nlohmann::json::parse(read_text_file(folder.config(), longest), nullptr, false);
  if (!json.is_object())
    throw Error(ErrorCode::format, "the file is not JSON", source,
                "Restore it, or start a new run in another folder");
  return train_config_from_json(json, source);
}

void write_json(const fs::path& path, const nlohmann::ordered_json& document) {
  write_file_atomically(path, document.dump(2) + "\n");
}

}  // namespace athanor
