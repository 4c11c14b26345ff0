// What is done with a contraction's operand before it is multiplied: see KernelRequest::prologue.
#pragma once
#include <string>
#include <vector>

#include "athanor/kernels/kernel.h"

namespace athanor {

/// What the prologue computes, for people: {"sub", "mul"}.
std::vector<std::string> prologue_names(const KernelRequest& request);
/// The same for keys of problems: a text that tells prologues apart; "" if there is none.
std::string prologue_key(const KernelRequest& request);

/// The same problem for an input that has been computed already.
KernelRequest without_prologue(const KernelRequest& request);

/// A candidate for `request`, which has a prologue: `loop`, the device's kernel for the prologue, then
/// `plain`, a kernel for the problem without it (without_prologue).
Candidate begin_by_loop(Candidate loop, Candidate plain, const KernelRequest& request);

}  // namespace athanor
