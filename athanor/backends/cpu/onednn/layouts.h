// The layouts in which oneDNN is fast: see Backend::preferred_layouts.
#pragma once
#include "athanor/backends/cpu/kernels.h"

namespace athanor::cpu {

std::vector<Layout> layouts_of_pool(const Op& op, std::span<const TensorType> inputs,
                                    const TensorType& output, const Attrs& attrs);
std::vector<Layout> layouts_of_conv(const Op& op, std::span<const TensorType> inputs,
                                    const TensorType& output, const Attrs& attrs);

}  // namespace athanor::cpu
