// The templates: one function for each op or family, each in a separate file with its text
// (templates/NAME.cpp, templates/NAME.kernel).
#pragma once
#include <vector>

#include "athanor/kernels/gpu/gpu_kernel.h"

namespace athanor::gpu {

std::vector<GpuCandidate> matmul(const KernelRequest& request, const GpuTraits& traits);
std::vector<GpuCandidate> conv2d(const KernelRequest& request, const GpuTraits& traits);
std::vector<GpuCandidate> conv2d_input_grad(const KernelRequest& request, const GpuTraits& traits);
std::vector<GpuCandidate> conv2d_weight_grad(const KernelRequest& request, const GpuTraits& traits);
std::vector<GpuCandidate> pool2d(const KernelRequest& request, const GpuTraits& traits);
std::vector<GpuCandidate> pool2d_grad(const KernelRequest& request, const GpuTraits& traits);
/// scaled_dot_product_attention, attention_lse and attention_grad_q, _k and _v, with extents above 0.
std::vector<GpuCandidate> attention(const KernelRequest& request, const GpuTraits& traits);
std::vector<GpuCandidate> pad(const KernelRequest& request, const GpuTraits& traits);
std::vector<GpuCandidate> concat(const KernelRequest& request, const GpuTraits& traits);
std::vector<GpuCandidate> fold(const KernelRequest& request, const GpuTraits& traits);
std::vector<GpuCandidate> take_along(const KernelRequest& request, const GpuTraits& traits);
std::vector<GpuCandidate> scatter_add(const KernelRequest& request, const GpuTraits& traits);
std::vector<GpuCandidate> cumsum(const KernelRequest& request, const GpuTraits& traits);
std::vector<GpuCandidate> argsort(const KernelRequest& request, const GpuTraits& traits);

}  // namespace athanor::gpu
