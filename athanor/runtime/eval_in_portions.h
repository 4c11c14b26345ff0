// Evaluation of values that need little together, one after the other.
#pragma once

namespace athanor {

/// Computes everything that is pending, as eval({}) does, but in plans of few values: of a sixteenth of all
/// bytes, or 1 MiB, or one value. Their temporaries are few, and their memory is given back at the end. For
/// initial values: together they would take more memory than a training step has use for.
void eval_in_portions();

}  // namespace athanor
