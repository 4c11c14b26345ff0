// The first steps of every process that is forked here.
#pragma once

namespace athanor::os {

/// Call this in the new process. It then ends with `parent`, has its own process group, so that its children
/// can be ended with it, writes no core dump, and handles signals in the default way. `input`, `output` and
/// `errors` become its standard files; -1: /dev/null.
void begin_child(int parent, int input, int output, int errors);

}  // namespace athanor::os
