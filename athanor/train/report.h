// The report of a run.
#pragma once
#include <string>

#include "athanor/train/run_folder.h"

namespace athanor {

/// An HTML document of everything in a run's folder: results, curves, confused classes, examples, memory over
/// the step, its kernels, options and machine. It needs no other file and no network, and suits light and
/// dark, wide and narrow screens. What the run has not written yet is left out. Throws Error(io|format).
std::string html_report(const RunFolder& folder);

}  // namespace athanor
