// What was found out on this machine and is worth keeping: tuning results and compiled kernels.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <vector>

struct sqlite3;

namespace athanor {

/// A file athanor.db (SQLite) in $ATHANOR_CACHE, $XDG_CACHE_HOME/athanor or ~/.cache/athanor, shared by all
/// processes. Where it cannot be opened or written nothing is remembered: that costs time, and nothing else.
class KernelCache {
 public:
  static KernelCache& instance();

  /// The winner of a problem, or "".
  std::string find_winner(const std::string& key);
  void store_winner(const std::string& key, const std::string& winner, double seconds);

  /// Candidates are marked before they are tried: a mark that is still there means that trying one killed or
  /// hung the process, and that it is not to be tried again.
  bool is_marked(const std::string& key, const std::string& candidate);
  void mark(const std::string& key, const std::string& candidate);
  void unmark(const std::string& key, const std::string& candidate);

  /// A key that changes with the device, its driver, the compiler's options and the source.
  static std::string binary_key(const std::string& environment, const std::string& source);
  /// A compiled kernel, or "".
  std::string find_binary(const std::string& key);
  void store_binary(const std::string& key, const std::string& device, const std::string& kernel,
                    const std::string& binary);

  struct Entry {
    std::string kind;  // "winner", "marked" or "binary"
    std::string key, value;
    int64_t bytes = 0;
    double seconds = 0;
  };
  std::vector<Entry> entries();
  void clear();
  /// A copy of everything in a new file; what a file holds, added to what is here. Throws Error(io|format).
  void export_to(const std::filesystem::path& path);
  void import_from(const std::filesystem::path& path);
  /// The file, or an empty path where there is nowhere to keep one.
  const std::filesystem::path& file() const { return file_; }

 private:
  KernelCache();
  bool open();
  class Statement;

  std::mutex mutex_;
  std::filesystem::path file_;
  sqlite3* database_ = nullptr;
  bool tried_ = false;
};

/// Kernels compiled from source by this process.
int64_t compilations();
void count_compilation();

}  // namespace athanor
