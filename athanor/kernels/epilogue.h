// What is done with a contraction's result before it is stored: see KernelRequest::epilogue.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/kernels/kernel.h"

namespace athanor {

enum class Activation : uint8_t { none, relu, tanh, sigmoid };
/// "relu"; "" for none.
std::string_view to_string(Activation activation);

/// The epilogues that libraries of kernels have: a vector is added along the result's channels (axis 1 of a
/// convolution, the last of a matmul), then a function is applied.
struct SimpleEpilogue {
  bool bias = false;  // the last input: dense, with the result's dtype
  Activation activation = Activation::none;
};
/// The request's epilogue as a SimpleEpilogue, if it is one. A request without an epilogue has an empty one.
std::optional<SimpleEpilogue> simple_epilogue(const KernelRequest& request);

/// Whether the epilogue does more than change each element before it is stored: it stores several results,
/// does not store the op's own, or reduces some (sums of rows, of columns, of channels).
bool has_further_results(const KernelRequest& request);

/// What the epilogue computes, for people: {"bias", "relu"}, {"mul", "add"}.
std::vector<std::string> epilogue_names(const KernelRequest& request);
/// The same for keys of problems: a text that tells epilogues apart; "" if there is none.
std::string epilogue_key(const KernelRequest& request);

/// The same problem without its epilogue, with the op's result, and those of KernelRequest::with.
KernelRequest without_epilogue(const KernelRequest& request);

}  // namespace athanor
