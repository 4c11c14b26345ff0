// The folder of a run, and what lies in it.
#pragma once
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "athanor/base/os/file.h"
#include "athanor/train/config.h"

namespace athanor {

/// Names, and whether they can be used; filling the files is up to others.
struct RunFolder {
  std::filesystem::path path;

  std::filesystem::path config() const { return path / "config.json"; }
  std::filesystem::path metrics() const { return path / "metrics.jsonl"; }
  std::filesystem::path checkpoint() const { return path / "checkpoint.safetensors"; }
  std::filesystem::path summary() const { return path / "summary.json"; }
  std::filesystem::path plan() const { return path / "plan.json"; }
  std::filesystem::path loss_svg() const { return path / "loss.svg"; }
  std::filesystem::path lock() const { return path / ".lock"; }

  /// Whether a run was begun here.
  bool has_run() const;
  /// Whether it made steps, which a new run would lose.
  bool has_steps() const;
  /// Makes the folder, if need be. Throws Error(io) when that cannot be or nothing can be written into it.
  void create() const;
  /// Keeps other processes from working on the run. Throws Error(io) when one does.
  os::Lock take_lock() const;
  /// Throws Error(io) when the disk has no room for a checkpoint of so many bytes beside the one before it,
  /// which is removed when the new one is whole.
  void check_space(uint64_t bytes) const;
};

/// "runs/cnn-fashion-mnist-2026-11-21-113700", with "-2" and so on added until it is new.
RunFolder new_run_folder(const TrainConfig& config);

/// The run in ./runs whose checkpoint is the newest.
std::optional<RunFolder> newest_run();

/// The checkpoint that a path means: the file, the folder of a run, or, for "", the newest run's. Throws
/// Error(io) when there is none.
std::filesystem::path find_checkpoint(const std::string& path);

/// Throws Error(io) and Error(format).
TrainConfig read_config(const RunFolder& folder);
/// Writes a JSON document, indented, atomically. Throws Error(io).
void write_json(const std::filesystem::path& path, const nlohmann::ordered_json& document);

}  // namespace athanor
