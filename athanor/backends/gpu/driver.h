// Driver: what Athanor needs from a GPU's programming interface. OpenCL, CUDA and HIP have these functions
// under different names. Everything else (pools, queues, programs, faults, traces) is shared, in this folder.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/base/error.h"
#include "athanor/device/device.h"
#include "athanor/kernels/gpu/gpu_access.h"

namespace athanor::gpu {

// A driver's own handles; nullptr is none.
using Memory = void*;
using Stream = void*;    // commands in order
using Mark = void*;      // a point in a stream
using Module = void*;    // compiled code
using Function = void*;  // a kernel in a module
using Captured = void*;  // commands to run again

/// An offset, in bytes, into some memory.
struct Place {
  Memory memory = nullptr;
  size_t offset = 0;
};

/// Where a command begins and ends; see Driver::interval(). The two may be the same mark.
struct Span {
  Mark begin = nullptr, end = nullptr;
};
/// Seconds on the driver's own clock.
struct Interval {
  double begin = 0, end = 0;
};

/// What is known of a device before it is opened.
struct Facts {
  DeviceInfo info;
  GpuTraits traits;
  GpuTarget target = GpuTarget::opencl;
  /// Units that the device may have, for GpuDevice::traits() to try; the driver does not report them.
  std::vector<MatrixUnit> units_to_try;
  /// What compiled programs depend on: names and versions of device, driver and compiler, and its options.
  std::string fingerprint;
  uint64_t largest_buffer = 0;        // bytes; 0: no limit but the memory
  bool waves = false;                 // whether kernels may ask for WAVE_WIDTH()
  bool shares_host_memory = false;    // the device is the host's processor
  bool unified_memory = false;        // its memory is the host's, as for a GPU inside a processor
  bool spans_cost_nothing = false;    // whether each command may be given a span without slowing it
  bool tells_resources = false;       // whether resources() may be asked
  bool compiles_side_by_side = true;  // whether threads compile at the same time
  int release = 0;            // of the interface; libraries must match it: 12 for CUDA 12.4; 0: not known
  std::string unusable, fix;  // why the device cannot be opened, and what helps; "" if it can
};

struct Launch {
  const std::string& name;  // the kernel's, for errors
  Function function = nullptr;
  std::array<size_t, 3> groups{}, group_size{};
  size_t local_at_launch = 0;  // bytes for each group that the kernel does not declare itself
  std::span<const Place> buffers;
  std::span<const BoxedTensor> tensors;  // in some of these buffers
  /// For kernels that may report a fault: the memory for it, and the launch's number. Code 0: the kernel
  /// takes neither.
  Place fault = {};
  int fault_code = 0;
};

/// One device of one interface. Functions throw Error(device) for what the driver reports, unless they say
/// otherwise; several threads may call them. Nothing but facts() may be called before open().
class Driver {
 public:
  virtual ~Driver() = default;
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  const Facts& facts() const { return facts_; }
  virtual void open() = 0;
  /// Adds to an error of earlier work the steps where it may have arisen. Set once, when the device is open.
  std::function<Error(const Error&)> locate;
  /// Throws Error(device): "cannot use cuda:0 (NAME): why".
  [[noreturn]] void refuse(const std::string& why, const std::string& fix) const;

  /// nullptr if there is not enough; `why` is then the driver's message.
  virtual Memory allocate(size_t bytes, std::string& why) = 0;
  /// Bytes that no program has allocated; none if the driver does not say.
  virtual std::optional<uint64_t> free_bytes() { return {}; }
  /// The memory must not be in use by any command.
  virtual void free(Memory memory) noexcept = 0;
  /// Pinned host memory, which the device can read directly. It is kept until the process ends.
  virtual void* pin(size_t bytes) = 0;

  virtual Stream make_stream() = 0;
  /// Commands. Host memory must not change until they have run. If `span` is given it is filled in, and the
  /// caller must release both its marks.
  virtual void upload(Stream stream, Place to, const void* from, size_t bytes, Span* span) = 0;
  virtual void download(Stream stream, void* to, Place from, size_t bytes, Span* span) = 0;
  virtual void copy(Stream stream, Place to, Place from, size_t bytes, Span* span) = 0;
  virtual void fill(Stream stream, Place to, uint8_t value, size_t bytes) = 0;
  virtual void launch(Stream stream, const Launch& launch, Span* span) = 0;
  /// Lets a vendor's library add commands to the stream (or, if it is nullptr, do something else), with the
  /// device current in this thread. Only for drivers whose memory is an address.
  virtual void give(Stream stream, const std::function<void(Stream)>& commands, Span* span);

  /// Whether streams of this device may wait for marks of the other, and copy from and to its memory.
  virtual bool reaches(const Driver&) const { return false; }
  /// Copies between two devices, each of them this one or one that it reaches.
  struct Side {
    Driver& driver;
    Place place;
  };
  virtual void copy_between(Stream, const Side& /*to*/, const Side& /*from*/, size_t /*bytes*/, Span*) {}

  /// A point after all commands of the stream so far, which the device reaches without being waited for;
  /// `timed`: it may be used for interval().
  virtual Mark mark(Stream stream, bool timed) = 0;
  /// Makes later commands of the stream wait for the mark, which may be of another stream.
  virtual void wait(Stream stream, Mark mark) = 0;
  /// False if that is not known: an error is for await() to report.
  virtual bool passed(Mark mark) = 0;
  /// Waits on the host.
  virtual void await(Mark mark) = 0;
  virtual void finish(Stream stream) = 0;
  virtual void release(Mark mark) noexcept = 0;
  /// When the span's commands ran; they must have ended.
  virtual Interval interval(const Span& span) = 0;

  /// Commands of the stream between these two calls are captured and do not run. Another thread may use other
  /// streams. end_capture() must always be called. It returns nullptr if the driver refuses, and `why` is its
  /// message.
  virtual bool captures() const { return false; }
  virtual void begin_capture(Stream) {}
  virtual Captured end_capture(Stream, std::string& /*why*/) { return nullptr; }
  virtual void replay(Stream, Captured) {}
  /// Whether captured commands may be replayed before their last run has ended.
  virtual bool replays_overlap() const { return true; }
  /// The commands must not be running.
  virtual void release_captured(Captured) noexcept {}

  /// Compiles the launch's rendered source. If `binary` is given, it gets a binary for load() in another
  /// process, or "".
  virtual Module compile(const std::string& source, const GpuLaunch& launch, std::string* binary) = 0;
  /// nullptr if the driver refuses the binary, as after an update.
  virtual Module load(const std::string& binary) = 0;
  /// The launch's kernel. Allows it the local memory that it needs.
  virtual Function find(Module module, const GpuLaunch& launch) = 0;
  virtual void unload(Module module, std::span<const Function> functions) noexcept = 0;
  /// The resources that a kernel takes in this launch.
  virtual KernelResources resources(Function, const GpuLaunch&) { return {}; }

 protected:
  Driver() = default;
  /// Adds what follows from the facts so far: properties with their source, and the units that kernels are
  /// chosen for (for a GPU, the user's number if set). Properties of `more` without a value are left out.
  void describe(const std::string& source, int64_t units, const std::map<std::string, std::string>& more);
  /// Throws Error(out_of_memory) or Error(device): "cuda:0: cannot fill memory: CUDA_ERROR_INVALID_VALUE".
  [[noreturn]] void fail(bool out_of_memory, std::string_view doing, const std::string& error) const;
  /// The same if the call only reports that earlier work failed.
  [[noreturn]] void fail_late(std::string_view doing, const std::string& error) const;
  /// Throws Error(device) with the compiler's error and log.
  [[noreturn]] void fail_to_compile(const std::string& kernel, const std::string& error) const;

  Facts facts_;
};

}  // namespace athanor::gpu
