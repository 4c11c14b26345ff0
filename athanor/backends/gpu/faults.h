// Faults that kernels report about their data: FAULT in the kernel language.
#pragma once
#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <string>

#include "athanor/backends/gpu/driver.h"
#include "athanor/kernels/queue.h"

namespace athanor::gpu {

class GpuDevice;

/// A possible fault in a kernel: an index of `op` outside `extent`, or an end of a group of its rows.
struct FaultSite {
  std::string op;
  int64_t extent = 0;
  bool group_ends = false;  // the index is an end that is below the one before it, or above `extent`
};

class Faults {
 public:
  explicit Faults(GpuDevice& device) : device_(device) {}
  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;

  /// The memory to which a launch that may fault reports, and its number.
  struct Report {
    Place place;
    int code = 0;
  };
  Report expect(const FaultSite& site, const CommandSite* command);
  /// For captured launches, which are launched again without expect(): keeps a launch's number valid until
  /// forget().
  void keep(int code);
  void forget(int code);
  /// Call this after launches that may fault were given to the device.
  void given() { possible_ = true; }
  /// Adds a copy of the report to the kernels' stream, if launches that may fault were given since the last
  /// copy. So a later wait need not wait for more than it asks for.
  void fetch();
  /// Throws Error(value) for a fault in a copy that has been made.
  void check();

 private:
  struct Expected {
    int code = 0;
    FaultSite site;
    std::string step, where;
  };
  // How many launches expected_ holds: the newest that may fault, by their number modulo this.
  static constexpr size_t remembered = 256;

  GpuDevice& device_;
  std::mutex mutex_, fetching_;
  std::array<Expected, remembered> expected_;
  std::map<int, Expected> kept_;  // captured launches by number
  /// The launch with this number; nullptr if too many followed it.
  const Expected* expected(int code) const;
  int last_ = 0;
  Memory memory_ = nullptr;
  std::atomic<int32_t*> fetched_ = nullptr;  // pinned
  std::atomic<bool> possible_ = false;       // since the last copy
};

}  // namespace athanor::gpu
