// oneDNN's kernels, as candidates.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "athanor/kernels/kernel.h"

namespace athanor::cpu {

/// The kernels for a request, best guess first; {} if oneDNN has none that is worth trying.
std::vector<Candidate> onednn_candidates(const KernelRequest& request);
/// Whether only oneDNN can compute an op: convolutions.
bool onednn_has_kernel(const Op& op, std::span<const TensorType> inputs, const TensorType& output,
                       const Attrs& attrs);
std::vector<Layout> onednn_preferred_layouts(const Op& op, std::span<const TensorType> inputs,
                                             const TensorType& output, const Attrs& attrs);
/// "2.6.3"
std::string onednn_version();

// One for each family, in the file of that name.
std::vector<Candidate> onednn_matmul(const KernelRequest& request);
std::vector<Candidate> onednn_conv(const KernelRequest& request);
std::vector<Candidate> onednn_pool(const KernelRequest& request);

}  // namespace athanor::cpu
