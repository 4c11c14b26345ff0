// Examining devices from the program: in other processes, so that a crash or a hang of a driver is a result.
#pragma once
#include <string>

#include "athanor/kernels/trust.h"

namespace CLI {
class App;
}

namespace athanor::cli {

/// From now on a device is examined by further runs of this program, and standard error shows their progress.
/// If a process compiles one kernel at a time, there is one run for each core. (A copy of this process would
/// not do: drivers have threads, which copies lack.)
void examine_devices_apart();

/// Adds `trust` to a summary if its numbers may be wrong (trust_note()).
template <class Json>
void add_trust_note(Json& summary, Device device) {
  if (const std::string note = trust_note(device); !note.empty()) summary["trust"] = note;
}

/// The hidden command `examine-device DEVICE [PART...]`: what such a run does. It prints lines of JSON.
void add_examine_device(CLI::App& program, int& exit_code);

}  // namespace athanor::cli
