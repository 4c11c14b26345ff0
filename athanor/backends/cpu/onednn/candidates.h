// What oneDNN's candidates share.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "athanor/backends/cpu/kernels.h"

namespace athanor::cpu {

/// Whether oneDNN computes in the request's types at all. Prepares the calling thread for it.
bool onednn_takes(const KernelRequest& request);
/// Calls `make` if oneDNN takes the request; else returns no candidates.
template <std::vector<Candidate> (*make)(const KernelRequest&)>
std::vector<Candidate> by_onednn(const KernelRequest& request) {
  return onednn_takes(request) ? make(request) : std::vector<Candidate>();
}
/// "2.6.3"
std::string onednn_version();

}  // namespace athanor::cpu
