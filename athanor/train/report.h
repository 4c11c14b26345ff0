// The report of a run.
#pragma once
#include <string>

#include "athanor/train/run_folder.h"

namespace athanor {

/// An HTML document of all that a run's folder says: results, curves, what was taken for what, examples,
/// memory over the step, its kernels, options and machine. It needs no other file and no network, and is
/// for light and dark, wide and narrow screens. What the run has not written yet is left out. Throws
/// Error(io|format).
std::string html_report(const RunFolder& folder);

}  // namespace athanor
