// Examining devices from the program: apart, so that a driver that crashes or hangs is an answer.
#pragma once
#include <string>

#include "athanor/kernels/trust.h"

namespace CLI {
class App;
}

namespace athanor::cli {

/// From now on a device is examined by further runs of this program, and standard error says how far they
/// are. Where a process compiles one kernel at a time, there is one for each core. (A copy of this process
/// would not do: drivers have threads, which copies lack.)
void examine_devices_apart();

/// Adds `trust` to a summary if its numbers may be wrong (trust_note()).
template <class Json>
void add_trust_note(Json& summary, Device device) {
  if (const std::string note = trust_note(device); !note.empty()) summary["trust"] = note;
}

/// The hidden command `examine-device DEVICE [PART...]`: what such a run does. It prints lines of JSON.
void add_examine_device(CLI::App& program, int& exit_code);

}  // namespace athanor::cli
