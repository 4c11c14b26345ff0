// Athanor's own kernels. They work for every element type, row-major or strided, and need no library.
#pragma once
#include <span>
#include <vector>

#include "athanor/kernels/kernel.h"

namespace athanor::cpu {

/// The kernels for a request; {} for ops without a kernel here.
std::vector<Candidate> generic_candidates(const KernelRequest& request);
bool generic_has_kernel(const Op& op, std::span<const TensorType> inputs, const TensorType& output,
                        const Attrs& attrs);

// One for each op or family, in the file of that name.
Candidate batch_matmul_kernel(const KernelRequest& request);
Candidate pad_kernel(const KernelRequest& request);
Candidate concat_kernel(const KernelRequest& request);
Candidate fold_kernel(const KernelRequest& request);
Candidate take_along_kernel(const KernelRequest& request);
Candidate scatter_add_kernel(const KernelRequest& request);
Candidate cumsum_kernel(const KernelRequest& request);
Candidate argsort_kernel(const KernelRequest& request);
Candidate pool_kernel(const KernelRequest& request);
Candidate pool_grad_kernel(const KernelRequest& request);
Candidate reorder_kernel(const KernelRequest& request);

}  // namespace athanor::cpu
