// Examining devices from the program: apart, so that a driver that crashes or hangs is an answer.
#pragma once

namespace CLI {
class App;
}

namespace athanor::cli {

/// From now on a device is examined by a run of this program of its own, which says on standard error how far
/// it is. (A copy of this process would not do: drivers have threads, which copies lack.)
void examine_devices_apart();

/// The hidden command `examine-device NAME`: what that run does. It prints lines of JSON.
void add_examine_device(CLI::App& program, int& exit_code);

}  // namespace athanor::cli
