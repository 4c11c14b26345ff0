// What is remembered about this machine: tuning results, compiled kernels, and whether devices compute
// correctly.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "athanor/base/os/file.h"

struct sqlite3;

namespace athanor {

/// A file athanor.db (SQLite) in $ATHANOR_CACHE, $XDG_CACHE_HOME/athanor or ~/.cache/athanor, shared by all
/// processes. If it cannot be opened or written, nothing is remembered, which only costs time.
///
/// Reported once on standard error: a file that cannot be opened or written, and why; a file of a later
/// version, which is left as it is and not used; a file that another program keeps locked for more than half
/// a second; a damaged file, which is moved to PATH.damaged.
class KernelCache {
 public:
  static KernelCache& instance();
  /// The version of what the tables hold, of how candidates are checked, and of what generated sources rely
  /// on. A file of an earlier version is emptied. Stored as SQLite's user_version.
  static constexpr int schema = 9;

  /// The result of timing a problem's candidates.
  struct Winner {
    std::string name;
    double seconds = 0;
    /// Identifies the candidates and their sources: a winner among other candidates does not count.
    std::string candidates;
    std::vector<std::pair<std::string, double>> times;  // names and seconds of all that were timed
    double spread = 0;                                  // of the winner's samples (see timing.h)
    int disturbed = 0;   // timings in a row that other work disturbed; above 0 the winner is provisional
    std::string bucket;  // of problems that are alike (see alike.h)
    double work = 0;     // of the problem, to compare it with those
  };
  std::optional<Winner> find_winner(const std::string& key);
  /// The winners of a bucket, with the keys of their problems.
  std::vector<std::pair<std::string, Winner>> find_alike(const std::string& bucket);
  /// The winners of a problem on devices of this name with any driver, with their keys: a key begins with the
  /// device's name and ends with the request's, and "|" separates the parts.
  std::vector<std::pair<std::string, Winner>> find_elsewhere(const std::string& device,
                                                             const std::string& request);
  void store_winner(const std::string& key, const Winner& winner);

  /// The best rates that kernels of a device have reached: 0 if none was timed.
  struct Peak {
    double flops_per_second = 0, bytes_per_second = 0;
    int64_t problems = 0;  // that were timed
    /// Seconds of a problem with this arithmetic and memory traffic; 0 if too few problems were timed.
    double least_seconds(double flops, double bytes) const;
  };
  Peak find_peak(const std::string& environment);
  /// Counts a problem, and raises the rates that it exceeds.
  void raise_peak(const std::string& environment, double flops_per_second, double bytes_per_second);

  /// A candidate is marked before it is tried. If the mark of a process that has ended is still there, trying
  /// it killed or hung that process, and it must not be tried again. unmark() removes this process's mark and
  /// those of processes that have ended.
  bool is_marked(const std::string& key, const std::string& candidate);
  void mark(const std::string& key, const std::string& candidate);
  void unmark(const std::string& key, const std::string& candidate);

  /// The verdict of a device's examination (kernels/trust.h).
  struct Verdict {
    std::vector<std::string> wrong;  // a line each
    int64_t checks = 0;
    double seconds = 0;
  };
  std::optional<Verdict> find_verdict(const std::string& key);
  void store_verdict(const std::string& key, const Verdict& verdict);
  /// Kernels that gave correct results: fused loops (kernels/check_loop.h) and guesses (kernels/guess.h).
  bool is_checked(const std::string& key);
  void store_checked(const std::string& key);
  /// Waits until no other process examines this device; hold it until the verdict is stored.
  std::optional<os::Lock> turn_to_examine(const std::string& key);
  /// The same for one of the device's matrix units. A process whose turn it is to examine the device may wait
  /// for one that tries a unit.
  std::optional<os::Lock> turn_to_try(const std::string& key);

  /// A short name for a text: 128 bits in hexadecimal. It does not protect against forgery.
  static std::string hash(const std::string& text);
  /// A key that changes with the device, its driver, the compiler's options and the source.
  static std::string binary_key(const std::string& environment, const std::string& source);
  /// A compiled kernel, or "".
  std::string find_binary(const std::string& key);
  void store_binary(const std::string& key, const std::string& device, const std::string& kernel,
                    const std::string& binary);
  /// A kernel that was compiled in one program with others.
  struct Part {
    std::string program;  // the key of the program's binary
    std::string name;     // of the kernel in the program
  };
  std::optional<Part> find_part(const std::string& key);
  void store_part(const std::string& key, const Part& part);
  /// Whether the kernel is here, alone or in a program with others.
  bool has_binary(const std::string& key);
  /// Waits until no other process of the user compiles the kernel with this key. Hold the lock until the
  /// kernel is stored. Otherwise a driver's own cache may return what another process has only begun to write
  /// (PoCL 3.1: the binary is then empty inside, and the process that loads it aborts).
  static std::optional<os::Lock> turn_to_compile(const std::string& key);

  struct Entry {
    std::string kind;  // "winner", "marked", "examined" or "binary"
    std::string key, value;
    int64_t bytes = 0;
    double seconds = 0;
    bool disturbed = false;  // of a winner: found while the machine was busy
    double spread = 0;       // of a winner: of its samples
  };
  std::vector<Entry> entries();
  /// Why the file is not used: "cannot be used (Permission denied)"; "" if it is.
  std::string why_unused();
  /// A damaged file stays where it is, unused: for programs that only look.
  void leave_damaged();
  /// Throws Error(io) when the file cannot be used.
  void clear();
  /// Copies everything to a new file. Throws Error(io).
  void export_to(const std::filesystem::path& path);

  /// What became of an entry of an imported file.
  enum class Fate : uint8_t {
    added,
    replaced,  // another was here
    present,   // the same was here
    damaged,   // left out
    running    // left out: a mark of a process that runs
  };
  struct Imported {
    std::string kind, key;  // as in Entry
    Fate fate;
  };
  /// Adds a file's winners, marks and kernels, except damaged ones. Adds none if it throws: Error(format) for
  /// a file that is no whole cache of this version, Error(io) if one of the files cannot be used.
  std::vector<Imported> import_from(const std::filesystem::path& path);
  /// The file, or an empty path if there is no place for one.
  const std::filesystem::path& file() const { return file_; }

 private:
  KernelCache();
  bool open();
  bool open_for_writing() { return open() && writable_; }
  /// False when the file must not be used or is damaged; then it is closed again.
  bool prepare_file(std::string& damage);
  /// True when the path now has a sound file, or none.
  bool move_aside(const std::string& damage);
  /// Called after a statement that returned no row: gives the file up if it cannot be used, and reports this.
  void look_for_trouble(bool writing);
  void wrote(bool done);
  void give_up(const std::string& why);
  /// Reports on standard error.
  void note(const std::string& what) const;

  std::mutex mutex_;
  std::filesystem::path file_;
  sqlite3* database_ = nullptr;
  bool tried_ = false, writable_ = true, moved_aside_ = false, leaves_damaged_ = false;
  std::string trouble_;  // why the file is not used
};

/// Kernels compiled from source by this process.
int64_t compilations();
void count_compilation();

}  // namespace athanor
