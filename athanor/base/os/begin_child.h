// What every process that was forked here begins with.
#pragma once

namespace athanor::os {

/// Called in the new process: it ends with `parent` and takes its own children along, leaves no core, and is
/// no longer told how to take signals. It reads and writes these files; -1 is nothing.
void begin_child(int parent, int input, int output, int errors);

}  // namespace athanor::os
