#include "athanor/backends/cpu/queue.h"

#include <array>
#include <cstring>
#include <vector>

#include "athanor/backends/cpu/function_kernel.h"
#include "athanor/base/clock.h"
#include "athanor/kernels/host_trace.h"

namespace athanor::cpu {
namespace {

void* address_of(const Binding& binding) {
  return binding.storage == nullptr ? nullptr
                                    : static_cast<std::byte*>(binding.storage->address()) + binding.offset;
}

}  // namespace

void CpuKernel::enqueue(Queue&, std::span<const Binding> buffers, const CommandSite* site) const {
  // Few kernels take more buffers than this, and none of those is short.
  constexpr size_t few = 32;
  std::array<void*, few> some;
  std::vector<void*> many;
  void** addresses = some.data();
  if (buffers.size() > few) {
    many.resize(buffers.size());
    addresses = many.data();
  }
  for (size_t i = 0; i < buffers.size(); ++i) addresses[i] = address_of(buffers[i]);
  const HostTrace traced(site);
  run({addresses, buffers.size()});
}

void CpuQueue::copy(Binding to, Binding from, size_t bytes) {
  if (bytes == 0) return;
  check_copy(to, from);
  if (from.storage->device() != device())
    from.storage->read(address_of(to), static_cast<size_t>(from.offset), bytes);
  else if (to.storage->device() != device())
    write_across(to, address_of(from), bytes);
  else
    std::memmove(address_of(to), address_of(from), bytes);
}

void CpuQueue::fill(Binding to, uint8_t value, size_t bytes) {
  if (bytes > 0) std::memset(address_of(to), value, bytes);
}

void CpuQueue::wait(const std::shared_ptr<Event>& event) {
  if (event != nullptr) event->wait();
}

double CpuQueue::timed(const std::function<void()>& launches) {
  const auto start = Clock::now();
  launches();
  return seconds_since(start);
}

}  // namespace athanor::cpu
