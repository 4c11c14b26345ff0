// Probes: measured rates, bandwidths and latencies of a device, compared with its data sheet.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "athanor/device/detect.h"
#include "athanor/device/device.h"
#include "athanor/graph/dtype.h"
#include "athanor/kernels/gpu/matrix_unit.h"

namespace athanor {

struct Measurement {
  /// concurrency (units that work at the same time), wave_width, f32_tflops and i8_tops (multiply-adds; one
  /// counts as two operations), f32_product_tflops and the same for f16 and bf16 (the fastest matrix
  /// product), bandwidth_gb_s (copies: bytes read and written), cache_bandwidth_gb_s, to_device_gb_s,
  /// from_device_gb_s, launch_us (one after another), round_trip_us (launched and waited for),
  /// matrix_units_found (those that Athanor's kernels use; if no driver reports them, those that multiplied
  /// right when they were tried)
  std::string property;
  double value = 0;
  std::string how;      // in a few words
  std::string missing;  // why there is no value; "" if there is one
};

/// A measurement that is lower than it should be.
struct Shortfall {
  std::string device, property;
  double measured = 0, expected = 0;
  std::string expected_by;  // "data sheet", "kfd"
  std::vector<std::string> causes;
};

/// Called with the current measurement ("product of matrices in f16") and its progress ("1024 x 1024, kernel
/// 12 of 96"; "" at its start).
using ProbeProgress = std::function<void(const std::string& what, const std::string& how_far)>;

/// A part of a probe, with a measurement for each of its properties. If something cannot be measured, the
/// measurement says why.
struct ProbePart {
  std::string what;  // "memory bandwidth"
  std::vector<std::string> properties;
  std::function<std::vector<Measurement>(const ProbeProgress&)> measure;  // throws Error
};

/// Everything that can be measured on a device, in this order. It takes some seconds, or minutes if kernels
/// of products have to be chosen first. Throws Error if the device cannot be used at all.
std::vector<ProbePart> probe_parts(Device device);

/// Measures a part. Errors become reasons in the measurements.
std::vector<Measurement> run_part(const ProbePart& part, const ProbeProgress& say);
/// A part's properties without values, with the reason.
std::vector<Measurement> missing(const std::vector<std::string>& properties, const std::string& why);

/// Adds measurements to a device's properties with the source "probe" ("probe cpu" and "probe opencl" if
/// several backends were measured).
void add_measurements(FoundDevice& device, const std::vector<Measurement>& measurements,
                      const std::string& source);

/// Measurements below 0.7 of the data sheet or of the driver's value, with likely causes.
std::vector<Shortfall> find_shortfalls(const FoundDevice& device);

/// matrix_units_found: how many, and which: "wmma 16x16x16 of f16 and bf16".
Measurement matrix_units_found(std::span<const MatrixUnit> units);

// For probe_parts(): everything except matrix products, on the two kinds of devices.
std::vector<ProbePart> probe_parts_of_gpu(Device device);
std::vector<ProbePart> probe_parts_of_cpu();

}  // namespace athanor
