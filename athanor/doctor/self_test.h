// Tests on the devices whether they compute correctly.
#pragma once
#include "athanor/doctor/probe.h"

namespace athanor::doctor {

/// Matrix products in f32, f16 and bf16, softmax in f16 and attention in f32 on every device that the library
/// lists, each device in a child process with a time limit, against the same in f64 on the CPU. Fails for the
/// first device that differs by more than its dtype's rounding explains, or crashes; warns of one that does
/// not answer in time, for that may be slow or hung.
Finding device_self_test();

}  // namespace athanor::doctor
