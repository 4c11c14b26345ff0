// OpenCL's installed drivers ("ICDs"), and which of them serves a GPU.
#pragma once
#include <string>
#include <vector>

#include "athanor/doctor/facts.h"

namespace athanor::doctor {

struct OpenclDriver {
  std::string file, library;  // "/etc/OpenCL/vendors/intel.icd", and the library that it names
  bool there = false;         // the library exists

  bool is_rusticl() const;
  bool serves(const Gpu& gpu) const;
  std::string name() const;  // "intel.icd"
};

/// The folder in which the loader looks for drivers.
std::string opencl_vendors_folder(const Facts& facts);
/// The file libOpenCL.so.1, which finds the drivers; "" if it is missing.
std::string opencl_loader(const Facts& facts);
std::vector<OpenclDriver> opencl_drivers(const Facts& facts);

/// How OpenCL reaches a GPU.
struct OpenclUse {
  enum class State {
    listed,      // OpenCL was asked, and lists the GPU
    served,      // a driver for it is installed
    hidden,      // only Mesa's Rusticl is, which shows only devices of the drivers that RUSTICL_ENABLE names
    none,        // no driver for it is installed
    impossible,  // no such driver exists: NVIDIA's and AMD's GPUs in WSL, Intel's that are too old
  } state = State::none;
  std::string driver;           // "intel.icd", if one serves it
  std::string variable, value;  // if hidden: RUSTICL_ENABLE, and its needed value
};
OpenclUse opencl_use(const Facts& facts, const Gpu& gpu);

/// Whether the GPU is Intel's and older than Broadwell, which Intel's OpenCL driver and Rusticl's iris need.
bool predates_opencl_drivers(const Gpu& gpu);
/// Rusticl's name for a GPU's driver: "radeonsi", "iris"; "" if it has none for the GPU.
std::string rusticl_driver(const Gpu& gpu);
/// RUSTICL_ENABLE with `driver` in it.
std::string rusticl_enable_with(const Facts& facts, const std::string& driver);

/// Whether OpenCL was asked which devices it has.
bool opencl_answered(const Facts& facts);
/// Whether CUDA or HIP, whichever serves a GPU of this vendor, was asked: a recorded machine may not have its
/// answers.
bool own_runtime_asked(const Facts& facts, const Gpu& gpu);

}  // namespace athanor::doctor
