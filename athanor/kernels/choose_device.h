// Which device to use: by name, or the fastest by measurement.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "athanor/device/device.h"
#include "athanor/device/machine.h"
#include "athanor/kernels/tuner.h"

namespace athanor {

struct DeviceChoice {
  Device device;
  std::string why;  // "asked for", "the only device here", "the fastest here, ...: opencl:0 900 GFLOP/s; ..."
};

/// Seconds of a product of matrices on a device, as measured now. Throws Error if it fails.
using TimeProduct = std::function<Measured(const DeviceInfo&)>;

/// The device that a name means: what parse_device() knows; "auto", see choose_among(); or "gpu", which is
/// "auto" among the GPUs. `why` also says which GPUs of the machine nothing uses. Throws Error(device).
DeviceChoice choose_device(const std::string& name);
/// The same for "auto" and "gpu" on another machine with these devices.
DeviceChoice choose_device(const std::string& name, const Machine& machine, std::vector<DeviceInfo> devices,
                           const TimeProduct& time);

/// What "auto" means if these are all the devices: the one that computes a 512 x 512 product of f32 matrices
/// fastest. Times are remembered with their spread. A new comparison is repeated if it is close or was
/// disturbed by other work. If it stays disturbed, the next process compares again. The host's own processor
/// is never used through OpenCL if there is anything else. A card that several backends list is one device:
/// it is used through CUDA or HIP where they work, unless OpenCL is remembered to be faster there. A device
/// that fails, or that its examination (kernels/trust.h) found wrong, is left out, and `why` says why. Throws
/// Error(device) if all fail.
DeviceChoice choose_among(const std::vector<DeviceInfo>& devices, const TimeProduct& time);

}  // namespace athanor
