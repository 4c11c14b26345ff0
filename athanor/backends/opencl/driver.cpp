#include "athanor/backends/opencl/driver.h"

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <new>

#include "athanor/backends/gpu/backend.h"
#include "athanor/base/os/memory.h"

namespace athanor::opencl {
namespace {

using gpu::Mark;
using gpu::Place;
using gpu::Span;
using gpu::Stream;

cl_mem buffer_of(const Place& place) { return static_cast<cl_mem>(place.memory); }
cl_command_queue queue_of(Stream stream) { return static_cast<cl_command_queue>(stream); }
cl_event event_of(Mark mark) { return static_cast<cl_event>(mark); }

[[maybe_unused]] const bool driver_registered = gpu::register_backend("opencl", list_devices, false);

}  // namespace

void OpenClDriver::check(cl_int code, std::string_view doing) const {
  if (code != CL_SUCCESS)
    fail(code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_HOST_MEMORY, doing, error_name(code));
}

void OpenClDriver::open() {
  cl_int code = CL_SUCCESS;
  const std::array<cl_context_properties, 3> properties = {
      CL_CONTEXT_PLATFORM, reinterpret_cast<cl_context_properties>(platform_), 0};
  context_ = api().CreateContext(properties.data(), 1, &id_, nullptr, nullptr, &code);
  check(code, "use " + facts_.info.name);
}

// If the device is the host's processor, large buffers lie on huge pages: its drivers take malloc's memory,
// in which kernels that walk many rows at once wait for page tables (Winograd's transforms: a third of the
// time).
cl_mem OpenClDriver::create_buffer(size_t bytes, cl_int& code) {
  constexpr std::align_val_t aligned{os::huge_page};
  if (!facts_.shares_host_memory || bytes < 2 * os::huge_page)
    return api().CreateBuffer(context_, CL_MEM_READ_WRITE, bytes, nullptr, &code);
  void* const memory = ::operator new(bytes, aligned, std::nothrow);
  if (memory == nullptr) {
    code = CL_MEM_OBJECT_ALLOCATION_FAILURE;
    return nullptr;
  }
  os::prefer_huge_pages(memory, bytes);
  cl_mem buffer = api().CreateBuffer(context_, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, bytes, memory, &code);
  // Kernels that were enqueued keep a buffer until they are done.
  const auto free_memory = [](cl_mem, void* address) { ::operator delete(address, aligned); };
  if (code == CL_SUCCESS) {
    code = api().SetMemObjectDestructorCallback(buffer, free_memory, memory);
    if (code == CL_SUCCESS) return buffer;
    api().ReleaseMemObject(buffer);
  }
  ::operator delete(memory, aligned);
  return nullptr;
}

gpu::Memory OpenClDriver::allocate(size_t bytes, std::string& why) {
  cl_int code = CL_SUCCESS;
  cl_mem buffer = create_buffer(bytes, code);
  if (code == CL_SUCCESS) return buffer;
  const bool full = code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_HOST_MEMORY ||
                    code == CL_OUT_OF_RESOURCES || code == CL_INVALID_BUFFER_SIZE;
  if (!full) check(code, "allocate memory");
  why = error_name(code);
  return nullptr;
}

void OpenClDriver::free(gpu::Memory memory) noexcept { api().ReleaseMemObject(static_cast<cl_mem>(memory)); }

void* OpenClDriver::pin(size_t bytes) {
  cl_int code = CL_SUCCESS;
  cl_mem buffer =
      api().CreateBuffer(context_, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, bytes, nullptr, &code);
  check(code, "pin memory of the host");
  const cl_command_queue queue = queue_of(make_stream());
  void* const memory = api().EnqueueMapBuffer(queue, buffer, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, bytes, 0,
                                              nullptr, nullptr, &code);
  api().ReleaseCommandQueue(queue);
  if (code != CL_SUCCESS) api().ReleaseMemObject(buffer);
  check(code, "map pinned memory");
  return memory;
}

Stream OpenClDriver::make_stream() {
  cl_int code = CL_SUCCESS;
  cl_command_queue queue = api().CreateCommandQueue(context_, id_, CL_QUEUE_PROFILING_ENABLE, &code);
  check(code, "make a queue");
  return queue;
}

void OpenClDriver::upload(Stream stream, Place to, const void* from, size_t bytes, Span* span) {
  cl_event event = nullptr;
  check(api().EnqueueWriteBuffer(queue_of(stream), buffer_of(to), CL_FALSE, to.offset, bytes, from, 0,
                                 nullptr, span != nullptr ? &event : nullptr),
        "write memory");
  if (span != nullptr) *span = {event, event};
}

void OpenClDriver::download(Stream stream, void* to, Place from, size_t bytes, Span* span) {
  cl_event event = nullptr;
  check(api().EnqueueReadBuffer(queue_of(stream), buffer_of(from), CL_FALSE, from.offset, bytes, to, 0,
                                nullptr, span != nullptr ? &event : nullptr),
        "read memory");
  if (span != nullptr) *span = {event, event};
}

void OpenClDriver::copy(Stream stream, Place to, Place from, size_t bytes, Span* span) {
  cl_event event = nullptr;
  check(api().EnqueueCopyBuffer(queue_of(stream), buffer_of(from), buffer_of(to), from.offset, to.offset,
                                bytes, 0, nullptr, span != nullptr ? &event : nullptr),
        "copy memory");
  if (span != nullptr) *span = {event, event};
}

void OpenClDriver::fill(Stream stream, Place to, uint8_t value, size_t bytes) {
  check(api().EnqueueFillBuffer(queue_of(stream), buffer_of(to), &value, sizeof value, to.offset, bytes, 0,
                                nullptr, nullptr),
        "fill memory");
}

void OpenClDriver::launch(Stream stream, const gpu::Launch& launch, Span* span) {
  auto* kernel = static_cast<cl_kernel>(launch.function);
  const cl_command_queue queue = queue_of(stream);
  const std::scoped_lock lock(launching_);
  const bool records = recorder_.records(queue);
  if (records) check(recorder_.make_own(queue, kernel), "make a kernel to be captured");
  cl_uint next = 0;
  const auto set = [&](const Place& place) {  // see BUFFER in language/opencl.kernel
    cl_mem buffer = buffer_of(place);
    const cl_ulong offset = place.offset;
    check(api().SetKernelArg(kernel, next++, sizeof(cl_mem), &buffer), "set a kernel's argument");
    check(api().SetKernelArg(kernel, next++, sizeof offset, &offset), "set a kernel's argument");
  };
  for (const Place& place : launch.buffers) set(place);
  if (launch.fault_code != 0) {
    set(launch.fault);
    const cl_int code = launch.fault_code;
    check(api().SetKernelArg(kernel, next++, sizeof code, &code), "set a kernel's argument");
  }
  std::array<size_t, 3> all{};
  for (size_t d = 0; d < all.size(); ++d) all[d] = launch.groups[d] * launch.group_size[d];
  cl_event event = nullptr;
  const cl_int code =
      records ? recorder_.add(queue, kernel, all.data(), launch.group_size.data())
              : api().EnqueueNDRangeKernel(queue, kernel, 3, nullptr, all.data(), launch.group_size.data(), 0,
                                           nullptr, span != nullptr ? &event : nullptr);
  if (code != CL_SUCCESS) check(code, fmt::format("launch the kernel '{}'", launch.name));
  if (span != nullptr) *span = {event, event};
}

// On the host's processor a call for each launch takes little time compared with the launch.
bool OpenClDriver::captures() const {
  const char* const asked = facts_.shares_host_memory ? std::getenv("ATHANOR_REPLAY") : "1";
  return recorder_.possible() && asked != nullptr && std::string_view(asked) == "1";
}

void OpenClDriver::begin_capture(Stream stream) {
  const std::scoped_lock lock(launching_);
  check(recorder_.begin(queue_of(stream)), "capture a plan");
}

gpu::Captured OpenClDriver::end_capture(Stream stream, std::string& why) {
  const std::scoped_lock lock(launching_);
  return recorder_.end(queue_of(stream), why);
}

void OpenClDriver::replay(Stream stream, gpu::Captured captured) {
  check(recorder_.replay(queue_of(stream), captured), "replay a plan");
}

// A device may leave a queue's commands alone until it is told to go: the host would wait for it in vain, or
// build the next step while it idles.
Mark OpenClDriver::mark(Stream stream, bool) {
  cl_event event = nullptr;
  check(api().EnqueueMarkerWithWaitList(queue_of(stream), 0, nullptr, &event), "mark a queue");
  check(api().Flush(queue_of(stream)), "start a queue");
  return event;
}

void OpenClDriver::wait(Stream stream, Mark mark) {
  const cl_event event = event_of(mark);
  check(api().EnqueueBarrierWithWaitList(queue_of(stream), 1, &event, nullptr), "wait for another queue");
}

bool OpenClDriver::passed(Mark mark) {
  cl_int status = CL_QUEUED;
  return api().GetEventInfo(event_of(mark), CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status,
                            nullptr) == CL_SUCCESS &&
         status == CL_COMPLETE;  // the next wait reports errors
}

void OpenClDriver::await(Mark mark) {
  const cl_event event = event_of(mark);
  check(api().WaitForEvents(1, &event), "go on: its work failed");
}

void OpenClDriver::finish(Stream stream) { check(api().Finish(queue_of(stream)), "go on: its work failed"); }

void OpenClDriver::release(Mark mark) noexcept { api().ReleaseEvent(event_of(mark)); }

gpu::Interval OpenClDriver::interval(const Span& span) {
  const auto time = [&](Mark mark, cl_profiling_info what) {
    cl_ulong nanoseconds = 0;
    check(api().GetEventProfilingInfo(event_of(mark), what, sizeof nanoseconds, &nanoseconds, nullptr),
          "tell when a command ran");
    return static_cast<double>(nanoseconds) * 1e-9;
  };
  return {time(span.begin, CL_PROFILING_COMMAND_START), time(span.end, CL_PROFILING_COMMAND_END)};
}

}  // namespace athanor::opencl
