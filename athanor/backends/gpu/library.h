// Vendors' libraries of kernels (cuBLASLt, cuDNN, rocBLAS, hipBLASLt, MIOpen), loaded at run time if they are
// installed. Their kernels are candidates beside our own.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "athanor/backends/gpu/driver.h"
#include "athanor/kernels/kernel.h"

namespace athanor::gpu {

class GpuDevice;

/// One way of a library to compute a request.
struct LibraryKernel {
  std::string name;  // the algorithm's, the same in every process: "algorithm 66 tile 20"
  size_t scratch_bytes = 0;
  /// Adds the work to the stream, with the device current. `buffers`: addresses of the inputs, the output,
  /// and the scratch memory if some was asked for, which begins at a multiple of `scratch_alignment`. May be
  /// called by several threads. Throws Error(device). It must not allocate: the stream may be captured.
  std::function<void(Stream stream, std::span<void* const> buffers)> give;
  /// Slow work, such as compiling, that is done once before the first give(). nullptr: nothing to do.
  std::function<void()> prepare = nullptr;
  std::string problem = {};     // why it is no candidate; give() may be empty then
  bool fewer_products = false;  // see Candidate
};
/// The problem of a kernel that needs more scratch memory than is taken for it; "" if it does not.
std::string scratch_problem(size_t bytes, size_t most);
constexpr size_t scratch_alignment = 256;

/// A library that is loaded and ready for one device. Its functions are called with the device current.
class KernelLibrary {
 public:
  virtual ~KernelLibrary() = default;
  KernelLibrary(const KernelLibrary&) = delete;
  KernelLibrary& operator=(const KernelLibrary&) = delete;
  virtual std::string version() const = 0;  // "13.1.0"
  /// Best guess first; {} for what it does not compute. Throws Error(device) if the library is broken; it is
  /// then not asked again.
  virtual std::vector<LibraryKernel> kernels(const KernelRequest& request) = 0;

 protected:
  KernelLibrary() = default;
};

struct LibraryKind {
  std::string name;  // "cuBLASLt"
  GpuTarget target;
  std::vector<std::string> ops;  // names of the ops that it may compute
  /// Throws Error(device) that says why it cannot be used: "it is not installed".
  std::unique_ptr<KernelLibrary> (*open)(const Facts& device);
};

/// Call this when the program starts. Returns true.
bool register_library(const LibraryKind& kind);

/// The libraries of one device. Each is loaded when an op of its own is first asked for. Shared by all
/// threads.
class Libraries {
 public:
  explicit Libraries(GpuDevice& device);
  Libraries(const Libraries&) = delete;
  Libraries& operator=(const Libraries&) = delete;
  ~Libraries();

  /// An epilogue that a library does not know is computed by a loop after its kernels, and a prologue by one
  /// before them.
  std::vector<Candidate> candidates(const KernelRequest& request);
  /// The libraries that were asked so far: "cuBLASLt 13.1.0", "no cuDNN: it is not installed".
  std::vector<std::string> found();
  /// Kernels that are no candidates for a request that candidates() was asked for, and why.
  std::vector<LeftOut> left_out(const KernelRequest& request);

 private:
  struct Entry;
  Candidate loop(const LoopProgram& program) const;

  GpuDevice& device_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Entry>> entries_;
  std::map<std::string, std::vector<LeftOut>> left_out_;  // by the request's key
};

/// A candidate that runs a kernel of a library.
Candidate library_candidate(GpuDevice& device, std::string name, LibraryKernel kernel);

}  // namespace athanor::gpu
