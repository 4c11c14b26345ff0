// Guesses: kernels that run before anything was timed for their problem, or instead of it.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "athanor/kernels/cache.h"
#include "athanor/kernels/tuner.h"

namespace athanor {

/// The problem of the same bucket (alike.h) that is nearest in size among those whose winner is one of the
/// candidates.
struct Neighbour {
  std::string key;
  KernelCache::Winner winner;
  size_t candidate = 0;  // the winner's index
  double seconds = 0;    // estimated for the requested problem with that kernel
  size_t alike = 0;      // how many such problems there are
};
std::optional<Neighbour> nearest_neighbour(Device device, const KernelRequest& request,
                                           const std::vector<Candidate>& candidates);
/// "[1, 48, 256] [1, 256, 64]": the shapes of the inputs in a problem's key.
std::string shapes_in(const std::string& key);
/// Whether timing this problem is worth its time (alike.h), given the nearest problem that was timed.
bool is_worth_timing(Device device, const KernelRequest& request, const std::vector<Candidate>& candidates,
                     const std::optional<Neighbour>& neighbour);

/// Picks without timing. In this order: what is remembered of this problem, even provisionally; the winner of
/// an alike problem; the winner of this problem on a device of the same name with another driver; the first
/// candidate. This process then keeps the choice until timing finds a faster one (runtime/tuning_session.h).
Choice guess(Device device, const KernelRequest& request, const std::vector<Candidate>& candidates);

/// Takes the choice's candidate because it needs little scratch memory. The process keeps it, a resumed run
/// takes it again, and it is not timed. Sets choice.unchecked.
void take_spared(Device device, const KernelRequest& request, const std::vector<Candidate>& candidates,
                 Choice& choice);

/// Runs an unchecked guess, as the tuner runs candidates (marked, under a watchdog), and compares its result
/// as the tuner does. If it is wrong, the other candidates are tried in order until one is right. The right
/// one is remembered. Throws Error(device) when none is.
void check_guess(Device device, const KernelRequest& request, const std::vector<Candidate>& candidates,
                 Choice& choice);

/// Whether timing may still find a faster kernel than the one that this process took.
bool is_open(Device device, const KernelRequest& request, const std::vector<Candidate>& candidates);

}  // namespace athanor
