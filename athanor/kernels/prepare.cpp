// Compiling the kernels of a plan, several at once.
#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "athanor/base/error.h"
#include "athanor/base/in_threads.h"
#include "athanor/base/os/interrupt.h"
#include "athanor/kernels/cache.h"
#include "athanor/kernels/compile_apart.h"
#include "athanor/kernels/trust.h"
#include "athanor/kernels/tuner.h"
#include "athanor/kernels/waiting.h"

namespace athanor {
namespace {

// If a compiler ends the program while several guesses are compiled, it is not known which one was at fault.
// The next time, they are compiled one by one, each with a mark of its own.
class GuessesMark {
 public:
  GuessesMark() : set_(!KernelCache::instance().is_marked(key, what)) {
    if (set_) KernelCache::instance().mark(key, what);
  }
  ~GuessesMark() { KernelCache::instance().unmark(key, what); }
  GuessesMark(const GuessesMark&) = delete;
  GuessesMark& operator=(const GuessesMark&) = delete;
  bool set() const { return set_; }

 private:
  static constexpr const char *key = "compiling", *what = "several guesses at once";
  bool set_;
};

struct Entry {
  Uncompiled of;
  std::optional<size_t> number;  // among those that must be right; none for a guess
};

// Compiles several kernels in one program, where the device's compiler is quicker with that.
void prepare_together(const std::vector<Entry>& all) {
  std::map<Device, std::vector<const Kernel*>> by_device;
  for (const Entry& entry : all) by_device[entry.of.device].push_back(entry.of.kernel);
  for (const auto& [device, kernels] : by_device) backend_of(device).compile_together(device.index, kernels);
}

// A guess may be refused.
void prepare_one(const Entry& entry, const NamedError& named) try {
  entry.of.kernel->prepare();
} catch (const Error& error) {
  if (!entry.number) return;
  if (named) throw named(*entry.number, error);
  throw;
}

void prepare_all(const std::vector<Entry>& kernels, const NamedError& named) {
  const auto prepare = [&](size_t i) {
    throw_if_interrupted();
    tell_wait("compiling kernels",
              fmt::format("{} of {}", i + 1, kernels.size()));  // only the caller's thread has a listener
    prepare_one(kernels[i], named);
  };
  in_threads(kernels.size(), std::max(1U, std::thread::hardware_concurrency()), prepare,
             [examines = examining()](const auto& calls) {
               const ExaminationScope scope(examines);
               const CompileApartScope apart;
               calls();
             });
}

}  // namespace

void prepare(const std::vector<Uncompiled>& kernels, const std::vector<Uncompiled>& guesses,
             const NamedError& named) {
  std::vector<Entry> all;
  for (const Uncompiled& guess : guesses) all.push_back({guess, {}});  // first, because they are the largest
  for (size_t i = 0; i < kernels.size(); ++i) all.push_back({kernels[i], i});
  std::optional<GuessesMark> mark;
  if (!guesses.empty() && !mark.emplace().set())
    all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(guesses.size()));
  prepare_together(all);
  prepare_all(all, named);
}

}  // namespace athanor
