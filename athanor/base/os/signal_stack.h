// A stack for handlers of signals.
#pragma once

namespace athanor::os {

/// Gives the calling thread a stack of its own for handlers with SA_ONSTACK, if it has none. Does nothing on
/// systems without such stacks.
///
/// Without one the system writes some kilobytes of registers below the stack pointer. While oneDNN multiplies
/// in f32, that points into a buffer of the heap, and what lies before the buffer would be overwritten.
void use_signal_stack();

}  // namespace athanor::os
