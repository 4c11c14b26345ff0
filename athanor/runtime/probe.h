// What a device really does: rates, bandwidths and latencies, measured, and compared with what is said of it.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "athanor/device/detect.h"
#include "athanor/device/device.h"
#include "athanor/graph/dtype.h"

namespace athanor {

struct Measurement {
  /// concurrency (units that work at once), wave_width, f32_tflops and i8_tops (multiply-adds; an addition
  /// and a product are two operations), f32_product_tflops and the like for f16 and bf16 (the fastest product
  /// of matrices), bandwidth_gb_s (copies: read and written bytes), cache_bandwidth_gb_s, to_device_gb_s,
  /// from_device_gb_s, launch_us (one after the other), round_trip_us (launched and waited for)
  std::string property;
  double value = 0;
  std::string how;      // in a few words
  std::string missing;  // why there is no value; "" when there is
};

/// A measurement that is less than it should be.
struct Shortfall {
  std::string device, property;
  double measured = 0, expected = 0;
  std::string expected_by;  // "data sheet", "kfd"
  std::vector<std::string> causes;
};

/// Is told what is measured now ("product of matrices in f16"), and how far that is ("1024 x 1024, kernel 12
/// of 96"; "" at its beginning).
using ProbeProgress = std::function<void(const std::string& what, const std::string& how_far)>;

/// A part of a probe, which gives a measurement for each of its properties. What cannot be measured is said
/// in the measurement.
struct ProbePart {
  std::string what;  // "memory bandwidth"
  std::vector<std::string> properties;
  std::function<std::vector<Measurement>(const ProbeProgress&)> measure;  // throws Error
};

/// All that can be measured of a device, in that order. Some seconds together, and minutes where kernels of
/// products have to be chosen first. Throws Error where the device cannot be used at all.
std::vector<ProbePart> probe_parts(Device device);

/// Measures a part; what an error keeps from being measured is said in the measurements.
std::vector<Measurement> run_part(const ProbePart& part, const ProbeProgress& say);
/// A part's properties, with why they have no values.
std::vector<Measurement> missing(const std::vector<std::string>& properties, const std::string& why);

/// Adds measurements to a device's properties as source "probe" ("probe cpu", "probe opencl" where several
/// backends were measured).
void add_measurements(FoundDevice& device, const std::vector<Measurement>& measurements,
                      const std::string& source);

/// Measurements below 0.7 of the data sheet, or of what a driver says, with likely causes.
std::vector<Shortfall> find_shortfalls(const FoundDevice& device);

// For probe_parts(): all but products of matrices, on devices of the two kinds.
std::vector<ProbePart> probe_parts_of_gpu(Device device);
std::vector<ProbePart> probe_parts_of_cpu();

}  // namespace athanor
