// Tests whether the devices compute correctly.
#pragma once
#include <functional>
#include <string>

#include "athanor/doctor/probe.h"

namespace athanor::doctor {

/// Called with the device and what it computes: "opencl:0", "conv2d, 31 of 120".
using SelfTestProgress = std::function<void(const std::string& device, const std::string& what)>;

/// The whole examination (examine/examine.h) of every device that the library lists, each in a child process.
/// The verdict is remembered, so that a device that computes wrongly or crashes is not used. Fails if a
/// device does; otherwise warns if one gives no answer for minutes, because it may be slow or hung.
Finding device_self_test(const SelfTestProgress& progress = {});

/// The devices that failed their examination, as athanor.db remembers it.
Finding remembered_examinations();

}  // namespace athanor::doctor
