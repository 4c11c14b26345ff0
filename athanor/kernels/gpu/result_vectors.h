// The vectors of an epilogue's operands (ResultEpilogue::Vector) in source, for a run of elements that are
// finished together.
#pragma once
#include <string>
#include <vector>

#include "athanor/kernels/gpu/result_epilogue.h"

namespace athanor::gpu {

using ResultVectors = std::vector<ResultEpilogue::Vector>;

/// Declares what the vectors are read into. `run` names the run.
void declare_vectors(Code& code, const ResultVectors& vectors, const std::string& run);
/// Reads them. The others are those of ResultEpilogue::call() for the run's first element.
void read_vectors(Code& code, const ResultEpilogue& epilogue, const ResultVectors& vectors,
                  const std::string& run, const std::string& at, const std::string& row,
                  const std::string& column);
/// Element r of each, for ResultEpilogue::call().
std::vector<std::string> elements_of(const ResultVectors& vectors, const std::string& run, int64_t r);

}  // namespace athanor::gpu
