// A stack for signal handlers.
#pragma once

namespace athanor::os {

/// Gives the calling thread a stack of its own for handlers with SA_ONSTACK, if it has none. Does nothing on
/// systems without such stacks.
///
/// Without one, the system saves some kilobytes of registers below the stack pointer. While oneDNN multiplies
/// in f32, the stack pointer points into a buffer on the heap, so memory before the buffer would be
/// overwritten.
void use_signal_stack();

}  // namespace athanor::os
