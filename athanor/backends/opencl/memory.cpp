#include "athanor/backends/opencl/memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/error.h"
#include "athanor/base/text.h"

namespace athanor::opencl {
namespace {

class ClStorage final : public Storage {
 public:
  ClStorage(ClDevice& device, cl_mem buffer, size_t bytes)
      : Storage(device.device(), bytes, reinterpret_cast<void*>(device.add_buffer(buffer, bytes))),
        device_(device),
        buffer_(buffer) {
    count_memory(device.device(), static_cast<int64_t>(bytes));
  }
  ~ClStorage() override {
    device_.remove_buffer(reinterpret_cast<uintptr_t>(address()));
    // Kernels that were enqueued keep it until they are done.
    api().ReleaseMemObject(buffer_);
    count_memory(device(), -static_cast<int64_t>(bytes()));
  }

  void read(void* destination, size_t offset, size_t count) const override {
    device_.wait();
    if (count == 0) return;
    const std::scoped_lock lock(device_.mutex);
    check(api().EnqueueReadBuffer(device_.queue(), buffer_, CL_TRUE, offset, count, destination, 0, nullptr,
                                  nullptr),
          fmt::format("cannot read {} from {}", format_bytes(count), to_string(device())));
  }
  void write(const void* source, size_t offset, size_t count) override {
    if (count == 0) return;
    const std::scoped_lock lock(device_.mutex);
    check(api().EnqueueWriteBuffer(device_.queue(), buffer_, CL_TRUE, offset, count, source, 0, nullptr,
                                   nullptr),
          fmt::format("cannot write {} to {}", format_bytes(count), to_string(device())));
  }

 private:
  ClDevice& device_;
  cl_mem buffer_;
};

[[noreturn]] void refuse(const ClDevice& device, size_t bytes, const std::string& why) {
  const uint64_t used = memory_use(device.device()).current, all = device.info().memory_bytes;
  throw Error(ErrorCode::out_of_memory,
              fmt::format("cannot allocate {} on {} ({}): {}; {} of {} are in use by this program",
                          format_bytes(bytes), to_string(device.device()), device.info().name, why,
                          format_bytes(used), format_bytes(all)),
              {}, "Use a smaller batch or model, or close other programs that use the device.");
}

}  // namespace

std::shared_ptr<Storage> allocate_memory(ClDevice& device, size_t bytes) {
  if (device.largest_buffer() > 0 && bytes > device.largest_buffer())
    refuse(device, bytes, fmt::format("its largest buffer is {}", format_bytes(device.largest_buffer())));
  cl_int code = CL_SUCCESS;
  const cl_mem buffer =
      api().CreateBuffer(device.context(), CL_MEM_READ_WRITE, std::max<size_t>(bytes, 1), nullptr, &code);
  if (code != CL_SUCCESS) refuse(device, bytes, error_name(code));
  return std::make_shared<ClStorage>(device, buffer, bytes);
}

}  // namespace athanor::opencl
