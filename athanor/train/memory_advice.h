// Advice for a step that does not fit a device's memory.
#pragma once
#include <cstdint>
#include <functional>

#include "athanor/base/error.h"
#include "athanor/device/device.h"
#include "athanor/train/config.h"

namespace athanor {

/// `error` with how much memory a step needs according to its plan, and the largest batch that would fit.
/// `planned(batch_size)` plans a step, in bytes; if it throws an Error, nothing is added. It is not
/// called if the host has too little memory left to compile a plan: libraries that get none crash.
Error with_memory_advice(const Error& error, Device device, int64_t batch_size,
                         const std::function<int64_t(int64_t batch_size)>& planned);

/// `error` of a test that does not fit, with what to do about it.
Error with_test_advice(const Error& error, const TrainConfig& config);

/// Whether a memory limit was too low.
bool is_low_limit(const Error& error);
/// `error` with what to do about it: for a training step, or for a test, which runs after the steps.
Error with_limit_advice(const Error& error, const TrainConfig& config, bool in_test);

}  // namespace athanor
