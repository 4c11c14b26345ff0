#include "athanor/backends/gpu/stream_driver.h"

#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/text.h"

namespace athanor::gpu {
namespace {

constexpr unsigned stream_non_blocking = 1, event_disable_timing = 2;

void* address_of(const Place& place) { return static_cast<std::byte*>(place.memory) + place.offset; }

}  // namespace

std::string StreamDriver::error_name(int code) const {
  const char* name = nullptr;
  if (api_.error_name != nullptr && api_.error_name(code, &name) == 0 && name != nullptr)
    return fmt::format("{} ({})", name, code);
  return fmt::format("error {}", code);
}

bool StreamDriver::is_of_earlier_work(int code) {
  constexpr int memory_error = 214, link_error = 220;  // that cannot be corrected
  return code == memory_error || code == link_error || code == 700 || code == 702 || code == 710 ||
         (code >= 714 && code <= 719);
}

void StreamDriver::check(int code, std::string_view doing) const {
  if (is_of_earlier_work(code)) fail_late(doing, error_name(code));
  if (code != 0) fail(code == api_.out_of_memory, doing, error_name(code));
}

void StreamDriver::check_wait(int code) const {
  if (code != 0) fail(code == api_.out_of_memory, "go on: its work failed", error_name(code));
}

int StreamDriver::make_current() const {
  return context_ != nullptr ? api_.set_context(context_) : api_.set_device(handle_);
}

void StreamDriver::enter() const { check(make_current(), "use the device"); }

void StreamDriver::open() {
  const std::string doing = fmt::format("use {}", facts_.info.name);
  if (api_.retain != nullptr) check(api_.retain(&context_, handle_), doing);
  enter();
  check(api_.event_create(&start_, 0), doing);
  check(api_.event_record(start_, nullptr), doing);
  check(api_.event_synchronize(start_), doing);
}

Memory StreamDriver::allocate(size_t bytes, std::string& why) {
  enter();
  Memory memory = nullptr;
  const int code = api_.memory_allocate(&memory, bytes);
  if (code == 0) return memory;
  if (code != api_.out_of_memory) check(code, fmt::format("allocate {}", format_bytes(bytes)));
  why = error_name(code);
  return nullptr;
}

std::optional<uint64_t> StreamDriver::free_bytes() {
  if (api_.memory_info == nullptr) return {};
  enter();
  size_t free = 0, total = 0;
  return api_.memory_info(&free, &total) == 0 ? std::optional<uint64_t>(free) : std::nullopt;
}

void StreamDriver::free(Memory memory) noexcept {
  quietly([&] { api_.memory_free(memory); });
}

void* StreamDriver::pin(size_t bytes) {
  enter();
  void* memory = nullptr;
  check(api_.host_allocate(&memory, bytes, 0), "pin memory of the host");
  return memory;
}

Stream StreamDriver::make_stream() {
  enter();
  Stream stream = nullptr;
  check(api_.stream_create(&stream, stream_non_blocking), "make a stream");
  return stream;
}

template <class Commands>
void StreamDriver::spanned(Stream stream, Span* span, Commands commands) {
  enter();
  const Mark begin = span != nullptr ? mark(stream, true) : nullptr;
  try {
    commands();
    if (span != nullptr) *span = {begin, mark(stream, true)};
  } catch (...) {
    if (begin != nullptr) release(begin);
    throw;
  }
}

void StreamDriver::begin_capture(Stream stream) {
  constexpr int relaxed = 2;  // calls of other threads and allocations do not end the capture
  enter();
  check(api_.capture_begin(stream, relaxed), "capture a plan");
}

Captured StreamDriver::end_capture(Stream stream, std::string& why) {
  enter();
  void *graph = nullptr, *executable = nullptr;
  int code = api_.capture_end(stream, &graph);
  if (code == 0 && graph != nullptr) {
    code = api_.graph_instantiate(&executable, graph, 0);
    api_.graph_destroy(graph);
  }
  if (code == 0) return executable;
  why = error_name(code);
  return nullptr;
}

void StreamDriver::replay(Stream stream, Captured captured) {
  enter();
  check(api_.graph_launch(captured, stream), "replay a plan");
}

void StreamDriver::release_captured(Captured captured) noexcept {
  quietly([&] { api_.executable_destroy(captured); });
}

Mark StreamDriver::mark(Stream stream, bool timed) {
  enter();
  Mark event = nullptr;
  check(api_.event_create(&event, timed ? 0 : event_disable_timing), "make an event");
  const int code = api_.event_record(event, stream);
  if (code != 0) api_.event_destroy(event);
  check(code, "record an event");
  return event;
}

void StreamDriver::upload(Stream stream, Place to, const void* from, size_t bytes, Span* span) {
  spanned(stream, span,
          [&] { check(api_.copy_to_device(address_of(to), from, bytes, stream), "copy to the device"); });
}

void StreamDriver::download(Stream stream, void* to, Place from, size_t bytes, Span* span) {
  spanned(stream, span,
          [&] { check(api_.copy_to_host(to, address_of(from), bytes, stream), "copy from the device"); });
}

void StreamDriver::copy(Stream stream, Place to, Place from, size_t bytes, Span* span) {
  spanned(stream, span, [&] {
    check(api_.copy_on_device(address_of(to), address_of(from), bytes, stream), "copy on the device");
  });
}

bool StreamDriver::reaches(const Driver& other) const {
  const auto* const driver = dynamic_cast<const StreamDriver*>(&other);
  return driver != nullptr && &driver->api_ == &api_;
}

void* StreamDriver::as_peer() const {
  return context_ != nullptr ? context_ : reinterpret_cast<void*>(static_cast<intptr_t>(handle_));
}

void StreamDriver::connect(const StreamDriver& other) {
  const std::scoped_lock lock(connecting_);
  if (other.handle_ == handle_ || !connected_.insert(other.handle_).second) return;
  // If this fails, the interface copies through the host's memory by itself.
  int possible = 0;
  if (api_.peer_possible(&possible, handle_, other.handle_) == 0 && possible != 0)
    api_.peer_enable(other.as_peer(), 0);
}

void StreamDriver::copy_between(Stream stream, const Side& to, const Side& from, size_t bytes, Span* span) {
  enter();
  const auto& target = static_cast<const StreamDriver&>(to.driver);
  const auto& source = static_cast<const StreamDriver&>(from.driver);
  connect(&target == this ? source : target);
  spanned(stream, span, [&] {
    check(api_.copy_peer(address_of(to.place), target.as_peer(), address_of(from.place), source.as_peer(),
                         bytes, stream),
          fmt::format("copy from {} to {}", to_string(source.facts_.info.device),
                      to_string(target.facts_.info.device)));
  });
}

void StreamDriver::fill(Stream stream, Place to, uint8_t value, size_t bytes) {
  enter();
  check(api_.fill(address_of(to), value, bytes, stream), "fill memory");
}

// Names of cuda.h: CU_TENSOR_MAP_DATA_TYPE_UINT8 to UINT32, whose zeros are those of every type;
// CU_TENSOR_MAP_SWIZZLE_128B; CU_TENSOR_MAP_L2_PROMOTION_L2_128B, as long as a box's rows.
StreamDriver::TensorMap StreamDriver::encoded(const BoxedTensor& tensor, void* address) const {
  constexpr int no_interleave = 0, swizzle_128_bytes = 3, promote_128_bytes = 2, fill_with_zeros = 0;
  const int type = tensor.element_bytes == 1 ? 0 : tensor.element_bytes == 2 ? 1 : 2;
  std::array<uint64_t, 4> extents{};
  std::array<uint64_t, 3> strides{};
  std::array<uint32_t, 4> box{1, 1, 1, 1};
  constexpr std::array<uint32_t, 4> next = {1, 1, 1, 1};
  std::ranges::copy(tensor.extents, extents.begin());
  std::ranges::copy(tensor.strides, strides.begin());
  std::ranges::transform(tensor.box, box.begin(), [](int64_t n) { return static_cast<uint32_t>(n); });
  TensorMap map{};
  check(api_.encode_tensor(&map, type, 4, address, extents.data(), strides.data(), box.data(), next.data(),
                           no_interleave, swizzle_128_bytes, promote_128_bytes, fill_with_zeros),
        "describe a tensor to a kernel");
  return map;
}

void StreamDriver::launch(Stream stream, const Launch& launch, Span* span) {
  std::vector<void*> addresses;
  addresses.reserve(launch.buffers.size() + 1);
  for (const Place& place : launch.buffers)
    addresses.push_back(place.memory == nullptr ? nullptr : address_of(place));
  int code = launch.fault_code;
  if (code != 0) addresses.push_back(address_of(launch.fault));
  std::vector<void*> arguments;
  arguments.reserve(addresses.size() + 1);
  // The driver reads as many as the kernel has parameters. A kernel that takes a table of all its buffers has
  // one, which begins at the first address.
  for (void*& address : addresses) arguments.push_back(static_cast<void*>(&address));
  if (code != 0) arguments.push_back(&code);
  std::vector<TensorMap> maps;
  maps.reserve(launch.tensors.size());
  for (const BoxedTensor& tensor : launch.tensors)
    arguments[tensor.argument] = &maps.emplace_back(encoded(tensor, addresses[tensor.argument]));
  const auto extent = [](size_t value) { return static_cast<unsigned>(value); };
  spanned(stream, span, [&] {
    const int failed = api_.launch(
        launch.function, extent(launch.groups[0]), extent(launch.groups[1]), extent(launch.groups[2]),
        extent(launch.group_size[0]), extent(launch.group_size[1]), extent(launch.group_size[2]),
        extent(local_at_launch(launch.local_at_launch)), stream, arguments.data(), nullptr);
    if (failed != 0) check(failed, fmt::format("launch the kernel '{}'", launch.name));
  });
}

void StreamDriver::give(Stream stream, const std::function<void(Stream)>& commands, Span* span) {
  spanned(stream, span, [&] { commands(stream); });
}

void StreamDriver::wait(Stream stream, Mark mark) {
  enter();
  check(api_.stream_wait(stream, mark, 0), "let a stream wait");
}

bool StreamDriver::passed(Mark mark) {
  return make_current() == 0 && api_.event_query(mark) == 0;  // the next wait reports errors
}

void StreamDriver::await(Mark mark) {
  check_wait(make_current());
  check_wait(api_.event_synchronize(mark));
}

void StreamDriver::finish(Stream stream) {
  check_wait(make_current());
  check_wait(api_.stream_synchronize(stream));
}

void StreamDriver::release(Mark mark) noexcept {
  quietly([&] { api_.event_destroy(mark); });
}

Interval StreamDriver::interval(const Span& span) {
  enter();
  const auto seconds = [&](Mark from, Mark to) {
    float milliseconds = 0;
    check(api_.event_elapsed(&milliseconds, from, to), "tell when a command ran");
    return static_cast<double>(milliseconds) * 1e-3;
  };
  // A float is coarse after a long run, so the command's own time is measured separately.
  const double begin = seconds(start_, span.begin);
  return {begin, begin + (span.begin == span.end ? 0 : seconds(span.begin, span.end))};
}

}  // namespace athanor::gpu
