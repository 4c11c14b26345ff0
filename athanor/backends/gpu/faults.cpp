#include "athanor/backends/gpu/faults.h"

#include <fmt/format.h>

#include <algorithm>

#include "athanor/backends/gpu/device.h"
#include "athanor/base/error.h"

namespace athanor::gpu {
namespace {

using Words = std::array<int32_t, 4>;  // code, index (two words), unused

// The device writes the word whenever a copy is made.
int32_t read_now(const int32_t* word) { return *static_cast<const volatile int32_t*>(word); }

}  // namespace

Faults::Report Faults::expect(const FaultSite& site, const CommandSite* command) {
  const std::scoped_lock lock(mutex_);
  if (memory_ == nullptr) {
    std::string why;
    const Memory memory = device_.driver().allocate(sizeof(Words), why);
    if (memory == nullptr)
      throw Error(ErrorCode::out_of_memory,
                  fmt::format("cannot allocate {} bytes on {} for what kernels report: {}", sizeof(Words),
                              device_.name(), why));
    device_.driver().fill(device_.kernels().stream(), {memory, 0}, 0, sizeof(Words));
    auto* const fetched = static_cast<int32_t*>(device_.driver().pin(sizeof(Words)));
    std::fill_n(fetched, Words().size(), 0);
    fetched_ = fetched;
    memory_ = memory;
  }
  last_ = last_ == INT32_MAX ? 1 : last_ + 1;
  expected_[static_cast<size_t>(last_) % remembered] = {
      site, command == nullptr ? std::string() : command->step() + ": ",
      command == nullptr ? std::string() : command->where()};
  return {{memory_, 0}, last_};
}

void Faults::keep(int code) {
  const std::scoped_lock lock(mutex_);
  kept_[code] = expected_[static_cast<size_t>(code) % remembered];
}

void Faults::forget(int code) {
  const std::scoped_lock lock(mutex_);
  kept_.erase(code);
}

void Faults::fetch() {
  const std::scoped_lock lock(fetching_);  // if another thread makes a copy, it is in the stream by now
  if (!possible_.exchange(false)) return;
  try {
    device_.driver().download(device_.kernels().stream(), fetched_.load(), {memory_, 0}, sizeof(Words),
                              nullptr);
  } catch (...) {
    possible_ = true;
    throw;
  }
}

void Faults::check() {
  const auto reported = [&] {
    int32_t* const fetched = fetched_;
    return fetched != nullptr && read_now(fetched) != 0;
  };
  if (!reported()) return;
  const std::scoped_lock lock(mutex_);
  if (!reported()) return;
  // Another copy may be under way.
  GpuQueue& kernels = device_.kernels();
  Driver& driver = device_.driver();
  kernels.await_all();
  Words fault{};
  driver.download(kernels.stream(), fault.data(), {memory_, 0}, sizeof fault, nullptr);
  kernels.await_all();
  if (fault[0] != 0) driver.fill(kernels.stream(), {memory_, 0}, 0, sizeof fault);
  driver.download(kernels.stream(), fetched_.load(), {memory_, 0}, sizeof fault, nullptr);
  kernels.await_all();
  if (fault[0] == 0) return;  // a copy of another thread came late, and the fault has been reported
  const auto kept = kept_.find(fault[0]);
  const Expected& expected =
      kept != kept_.end() ? kept->second : expected_[static_cast<size_t>(fault[0]) % remembered];
  const int64_t index = static_cast<int64_t>(static_cast<uint32_t>(fault[1])) | static_cast<int64_t>(fault[2])
                                                                                    << 32;
  throw Error(ErrorCode::value,
              fmt::format("{}{}: index {} is outside an axis of extent {}", expected.step, expected.site.op,
                          index, expected.site.extent),
              expected.where, "Indices must be at least 0 and below the extent.");
}

}  // namespace athanor::gpu
