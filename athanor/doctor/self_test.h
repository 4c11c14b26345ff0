// Tests on the devices whether they compute correctly.
#pragma once
#include "athanor/doctor/probe.h"

namespace athanor::doctor {

/// The whole examination (examine/examine.h) of every device that the library lists, each in a child process;
/// what comes of it is remembered, so that a device that computes wrongly is not used. Fails for the first
/// device that does, or crashes; warns of one that says nothing for minutes, for that may be slow or hung.
Finding device_self_test();

}  // namespace athanor::doctor
