// Options of the compiler: passes that can be switched off, and how kernels are chosen.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace athanor {

/// The parts of the compiler that ATHANOR_DISABLE=fuse,layout or ScopedDisable disables. Results stay
/// the same; only speed and memory differ.
enum class Pass : uint8_t {
  dedicated,  // kernels for whole composite ops (conv2d, max_pool2d, ...); off: everything decomposes into
              // primitives
  epilogue,   // elementwise ops computed inside the kernel of the contraction before them
  simplify,   // algebraic identities, common subexpressions, dead code
  layout,     // blocked layouts kept from op to op
  fuse,       // elementwise ops and reductions joined into one loop
  inplace,    // parameters updated in place; buffers reused; results written where they are put together
  join,       // many parameters updated in one launch
  tune,       // kernels chosen by timing; off: the backend's best guess
  replay,     // plans that run again and again are given to the device in one call
  recompute,  // values recomputed instead of kept: those of nn::checkpoint, and for a memory limit
  libraries,  // on GPUs, kernels of vendors' libraries beside our own
  prologue,   // elementwise ops computed inside the kernel of the contraction behind them
  chain,      // loops that walk the same rows computed row by row, in one launch
};
constexpr int pass_count = 13;

/// How a plan's kernels are chosen by default.
enum class Tuning : uint8_t {
  off,    // the best guess: the remembered choice for this or a similar problem; nothing is timed
  quick,  // the same, except for the host's kernels, which are timed for some seconds
  full,   // the remembered choice; all other problems are timed
};
/// "off", "quick", "full".
std::string_view to_string(Tuning tuning);
/// Throws Error(usage) naming the option --tune.
Tuning parse_tuning(const std::string& name);
const std::vector<std::string>& tuning_names();

struct CompileOptions {
  uint32_t disabled = 0;       // one bit for each Pass
  bool deterministic = false;  // choose kernels without timing
  Tuning tuning = Tuning::full;
  /// Whether to leave out fusion that takes more memory.
  bool spares_memory = false;
  bool only_plans = false;  // plans are made but not run: no kernel is timed, compiled or checked
  bool check_nan = false;   // look for NaN and infinity after each step of a plan
  /// The most memory to use on each device, in bytes (Plan::planned_memory_bytes and memory_beside). It
  /// applies to the host only if no other device is used. 0: no limit.
  int64_t memory_limit = 0;
  /// The part of the limit that is used outside the plan, such as by waiting batches.
  int64_t memory_beside = 0;
  int64_t plan_limit() const {
    return memory_limit > 0 ? std::max<int64_t>(1, memory_limit - memory_beside) : 0;
  }
  /// Names of ops that may run on the host if a device cannot run them (ATHANOR_HOST_OPS=a,b).
  std::vector<std::string> host_ops = {};
  bool allows_on_host(const std::string& op) const {
    return std::find(host_ops.begin(), host_ops.end(), op) != host_ops.end();
  }
  bool enabled(Pass pass) const { return (disabled >> static_cast<int>(pass) & 1) == 0; }
};

/// "fuse"
std::string_view to_string(Pass pass);

/// This thread's options. Their initial values come from ATHANOR_DISABLE, ATHANOR_DETERMINISTIC,
/// ATHANOR_CHECK_NAN and ATHANOR_HOST_OPS. Throws Error(name) with the nearest match if ATHANOR_DISABLE has a
/// name that is no pass.
CompileOptions& compile_options();

/// While it exists, this thread's plans are made but not run (CompileOptions::only_plans).
class OnlyPlansScope {
 public:
  explicit OnlyPlansScope(bool only = true) : before_(compile_options().only_plans) {
    compile_options().only_plans = only;
  }
  ~OnlyPlansScope() { compile_options().only_plans = before_; }
  OnlyPlansScope(const OnlyPlansScope&) = delete;
  OnlyPlansScope& operator=(const OnlyPlansScope&) = delete;

 private:
  bool before_;
};

/// Passes named "fuse,layout" as bits. Throws Error(name).
uint32_t parse_passes(std::string_view names);

/// Switches passes off while it exists.
class ScopedDisable {
 public:
  explicit ScopedDisable(std::string_view names);
  ~ScopedDisable();
  ScopedDisable(const ScopedDisable&) = delete;
  ScopedDisable& operator=(const ScopedDisable&) = delete;

 private:
  uint32_t before_;
};

}  // namespace athanor
