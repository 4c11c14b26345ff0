// The folder of a run, and its files.
#pragma once
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "athanor/base/os/file.h"
#include "athanor/train/config.h"

namespace athanor {

/// The names of the files, and whether they can be used. Other classes write the files.
struct RunFolder {
  std::filesystem::path path;

  std::filesystem::path config() const { return path / "config.json"; }
  std::filesystem::path config_toml() const { return path / "config.toml"; }
  std::filesystem::path metrics() const { return path / "metrics.jsonl"; }
  std::filesystem::path checkpoint() const { return path / "checkpoint.safetensors"; }
  std::filesystem::path best() const { return path / "best.safetensors"; }
  std::filesystem::path summary() const { return path / "summary.json"; }
  std::filesystem::path plan() const { return path / "plan.json"; }
  std::filesystem::path loss_svg() const { return path / "loss.svg"; }
  std::filesystem::path confusion() const { return path / "confusion.json"; }
  std::filesystem::path confusion_svg() const { return path / "confusion.svg"; }
  std::filesystem::path state() const { return path / "state.json"; }
  std::filesystem::path samples() const { return path / "samples.jsonl"; }
  std::filesystem::path examples() const { return path / "examples.json"; }
  std::filesystem::path report() const { return path / "report.html"; }
  std::filesystem::path lock() const { return path / ".lock"; }

  /// Whether a run was started here.
  bool has_run() const;
  /// Whether it made steps, which a new run would lose.
  bool has_steps() const;
  /// The existing files that runs write, temporary ones among them.
  std::vector<std::filesystem::path> files() const;
  /// Whether a process works on the run.
  bool is_locked() const;
  /// Makes the folder if necessary. Throws Error(io) if that fails or nothing can be written into it.
  void create() const;
  /// Keeps other processes from working on the run. Throws Error(io) when one does.
  os::Lock take_lock() const;
  /// Throws Error(io) if the disk has no room for a checkpoint of this size beside the previous one, which is
  /// removed only after the new one is complete. The folder need not be there yet.
  void check_space(uint64_t bytes) const;
};

/// "runs/cnn-fashion-mnist-2026-11-21-113700", with "-2" and so on added until it is new.
RunFolder new_run_folder(const TrainConfig& config);

/// The runs in a folder, by name.
std::vector<RunFolder> runs_in(const std::filesystem::path& folder);

/// The run in ./runs whose checkpoint is the newest.
std::optional<RunFolder> newest_run();

/// The checkpoint that a path means: the file itself, the checkpoint in a run's folder, or, for "", the
/// newest run's. Throws Error(io) if there is none.
std::filesystem::path find_checkpoint(const std::string& path);

/// Throws Error(io) and Error(format).
TrainConfig read_config(const RunFolder& folder);
/// Writes a JSON document, indented, atomically. Throws Error(io).
void write_json(const std::filesystem::path& path, const nlohmann::ordered_json& document);

}  // namespace athanor
