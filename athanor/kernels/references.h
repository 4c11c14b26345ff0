// What a device's kernels are compared with if the host would take long.
#pragma once
#include <cstddef>
#include <optional>
#include <vector>

#include "athanor/kernels/kernel.h"

namespace athanor {

/// Another kernel of the same device for the same problem.
struct Reference {
  Candidate candidate;
  std::optional<size_t> place;  // among the candidates; none: it was made for the comparison
};

/// Kernels whose result candidate `i` can be compared with, the best first; {} if the host is to compute the
/// result. They are of another make, that is, of another generator, or with other instructions: first those
/// of libraries, which need no compiling, then the simplest. If there is none, loops compute the request's
/// prologue and epilogue before and after a kernel of another make.
std::vector<Reference> references(Device device, const KernelRequest& request,
                                  const std::vector<Candidate>& candidates, size_t i);

}  // namespace athanor
