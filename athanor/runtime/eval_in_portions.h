// Evaluation in small portions, one after the other.
#pragma once

namespace athanor {

/// Computes everything that is pending, as eval({}) does, but in plans of few values: at most a sixteenth of
/// all bytes or 1 MiB, whichever is more, or one value. Such plans have few temporaries, and their memory is
/// given back at the end. For initial values: together they would take more memory than a training step.
void eval_in_portions();

}  // namespace athanor
