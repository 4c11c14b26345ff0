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
      last_, site, command == nullptr ? std::string() : command->step() + ": ",
      command == nullptr ? std::string() : command->where()};
  return {{memory_, 0}, last_};
}

const Faults::Expected* Faults::expected(int code) const {
  if (const auto kept = kept_.find(code); kept != kept_.end()) return &kept->second;
  const Expected& newest = expected_[static_cast<size_t>(code) % remembered];
  return newest.code == code ? &newest : nullptr;
}

void Faults::keep(int code) {
  const std::scoped_lock lock(mutex_);
  if (const Expected* const launch = expected(code)) kept_[code] = *launch;
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
  const int64_t index = static_cast<int64_t>(static_cast<uint32_t>(fault[1])) | static_cast<int64_t>(fault[2])
                                                                                    << 32;
  const Expected* const launch = expected(fault[0]);
  if (launch == nullptr)
    throw Error(ErrorCode::value,
                fmt::format("index {} is outside an axis, in a step before the last {} that take indices",
                            index, remembered),
                {}, "With ATHANOR_SYNC=1 each launch is waited for, and the error names its step.");
  if (launch->site.group_ends)
    throw Error(ErrorCode::value,
                fmt::format("{}{}: a group ends at row {}, before the group before it or behind the {} rows",
                            launch->step, launch->site.op, index, launch->site.extent),
                launch->where, "Ends must not fall, and must lie between 0 and the number of rows.");
  throw Error(ErrorCode::value,
              fmt::format("{}{}: index {} is outside an axis of extent {}", launch->step, launch->site.op,
                          index, launch->site.extent),
              launch->where, "Indices must be at least 0 and below the extent.");
}

}  // namespace athanor::gpu
