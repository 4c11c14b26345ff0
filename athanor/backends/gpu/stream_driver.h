// CUDA and HIP as a driver of the GPU backend, over their tables of functions.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "athanor/backends/gpu/driver.h"
#include "athanor/backends/gpu/runtime_compiler.h"
#include "athanor/backends/gpu/stream_api.h"

namespace athanor::gpu {

class StreamDriver final : public Driver {
 public:
  StreamDriver(const StreamApi& api, FindCompiler compiler, int handle, Device device);

  void open() override;
  Memory allocate(size_t bytes, std::string& why) override;
  std::optional<uint64_t> free_bytes() override;
  void free(Memory memory) noexcept override;
  void* pin(size_t bytes) override;
  Stream make_stream() override;
  void upload(Stream stream, Place to, const void* from, size_t bytes, Span* span) override;
  void download(Stream stream, void* to, Place from, size_t bytes, Span* span) override;
  void copy(Stream stream, Place to, Place from, size_t bytes, Span* span) override;
  void fill(Stream stream, Place to, uint8_t value, size_t bytes) override;
  void launch(Stream stream, const Launch& launch, Span* span) override;
  void give(Stream stream, const std::function<void(Stream)>& commands, Span* span) override;
  bool reaches(const Driver& other) const override;
  void copy_between(Stream stream, const Side& to, const Side& from, size_t bytes, Span* span) override;
  bool captures() const override { return api_.capture_begin != nullptr; }
  void begin_capture(Stream stream) override;
  Captured end_capture(Stream stream, std::string& why) override;
  void replay(Stream stream, Captured captured) override;
  void release_captured(Captured captured) noexcept override;
  Mark mark(Stream stream, bool timed) override;
  void wait(Stream stream, Mark mark) override;
  bool passed(Mark mark) override;
  void await(Mark mark) override;
  void finish(Stream stream) override;
  void release(Mark mark) noexcept override;
  Interval interval(const Span& span) override;
  Module compile(const std::string& source, const GpuLaunch& launch, std::string* binary) override;
  Module load(const std::string& binary) override;
  Function find(Module module, const GpuLaunch& launch) override;
  void unload(Module module, std::span<const Function> functions) noexcept override;
  KernelResources resources(Function function, const GpuLaunch& launch) override;

 private:
  /// The local memory that a launch has to ask for, in bytes; 0 if kernels declare all of it themselves.
  size_t local_at_launch(size_t wanted) const { return api_.function_allow != nullptr ? wanted : 0; }
  /// Makes the device current in the calling thread, so that calls go to it.
  void enter() const;
  int make_current() const;
  /// Gives something back. A device that is lost has nothing to give back.
  template <class Call>
  void quietly(Call call) const noexcept {
    try {
      enter();
      call();
    } catch (const std::exception&) {
    }
  }
  /// A tensor as kernels of CUDA take it, by value (CUtensorMap).
  struct alignas(64) TensorMap {
    std::array<std::byte, 128> bytes;
  };
  TensorMap encoded(const BoxedTensor& tensor, void* address) const;
  /// Gives commands between two marks, if a span is asked for.
  template <class Commands>
  void spanned(Stream stream, Span* span, Commands commands);
  /// The device's value, or `otherwise` if the driver does not report one.
  int attribute(int which, int otherwise) const;
  void check(int code, std::string_view doing) const;
  void check_wait(int code) const;
  /// Whether the code (the same in CUDA and HIP) is of a kernel or memory that failed.
  /// Every later call returns such a code.
  static bool is_of_earlier_work(int code);
  std::string error_name(int code) const;
  /// Throws Error(device): either the kernel cannot be compiled, or the compiler does not know the device.
  [[noreturn]] void refuse_compilation(const Compilation& failed, const std::string& name) const;
  /// The value by which the interface names this device as another's peer.
  void* as_peer() const;
  /// Lets this device access the other's memory directly, if the hardware can.
  void connect(const StreamDriver& other);

  const StreamApi& api_;
  int handle_;
  int version_ = 0;  // the driver's, in its own form: 12040
  std::string architecture_;
  const CompilerApi& compiler_;
  std::string compiled_for_;  // the architecture by the compiler's name
  void* context_ = nullptr;
  Mark start_ = nullptr;          // times are counted from here
  std::atomic<size_t> form_ = 0;  // the first of the compiler's forms that the driver loads
  std::atomic<int> refused_ = 0;  // the code with which loading last failed
  std::mutex connecting_;
  std::set<int> connected_;  // numbers of devices
};

/// Every device that the interface lists; {} if it is missing. `compiler` is asked if there is a device.
std::vector<std::unique_ptr<Driver>> list_devices(const StreamApi& api, FindCompiler compiler,
                                                  uint8_t provider);

}  // namespace athanor::gpu
