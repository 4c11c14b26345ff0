#include "athanor/examine/examine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <thread>

#include "athanor/base/clock.h"
#include "athanor/base/error.h"
#include "athanor/base/os/interrupt.h"
#include "athanor/compile/options.h"
#include "athanor/examine/parts.h"
#include "athanor/kernels/cache.h"
#include "athanor/kernels/kernel.h"

namespace athanor {
namespace {

// In a thread of its own: evaluation takes along what is pending, and the caller's is not ours; options and
// cached plans are a thread's, too.
void in_its_own_thread(const std::function<void()>& work) {
  std::exception_ptr failure;
  std::thread thread([&] {
    try {
      const ExaminationScope scope;
      work();
    } catch (...) {
      failure = std::current_exception();
    }
  });
  thread.join();
  if (failure) std::rethrow_exception(failure);
}

void run_part(const ExaminationPart& part, Device device, Examination& verdict) {
  try {
    part.run(device, verdict);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::out_of_memory) throw;
    verdict.add(part.name, error);
  }
}

// For programs that know nothing better: in this process. Each part is marked before it begins. A mark that
// is still there means that the program ended while the device computed this part.
Examination examine_here(Device device) {
  KernelCache& cache = KernelCache::instance();
  const std::string key = "examination|" + examination_key(device);
  Examination verdict;
  for (const ExaminationPart& part : examination_parts(false))
    if (cache.is_marked(key, part.name)) {
      verdict.wrong.push_back(part.name + ": the program ended while the device was to compute this");
      cache.unmark(key, part.name);
    }
  if (!verdict.right()) return verdict;
  try {
    const InterruptScope held;
    std::string marked;
    const auto move_mark = [&](const std::string& to) {
      if (!marked.empty()) cache.unmark(key, marked);
      marked = to;
      if (!marked.empty()) cache.mark(key, marked);
    };
    ExamineOptions options;
    options.progress = [&](const std::string& part, size_t, size_t) { move_mark(part); };
    try {
      verdict = examine(device, options);
    } catch (...) {
      move_mark({});
      throw;
    }
    move_mark({});
  } catch (const Interrupted&) {
    deliver_interrupt();
    throw;
  }
  deliver_interrupt();
  return verdict;
}

[[maybe_unused]] const bool examiner_registered = (set_examiner(examine_here), true);

}  // namespace

Examination examine(Device device, const ExamineOptions& options) {
  Examination verdict;
  const auto start = Clock::now();
  in_its_own_thread([&] {
    compile_options() = CompileOptions{};
    const ScopedDisable untuned("tune");
    backend_of(device).queue(device.index);  // a device that cannot be opened is not wrong: this throws
    auto parts = examination_parts(options.whole);
    if (!options.only.empty()) {
      std::erase_if(parts, [&](const ExaminationPart& part) {
        return std::ranges::find(options.only, part.name) == options.only.end();
      });
      if (parts.size() != options.only.size())
        throw Error(ErrorCode::usage,
                    fmt::format("an examination has no such part: {}", fmt::join(options.only, ", ")));
    }
    for (size_t i = 0; i < parts.size(); ++i) {
      if (options.progress) options.progress(parts[i].name, i + 1, parts.size());
      run_part(parts[i], device, verdict);
      if (!options.whole && !verdict.right()) break;  // it is refused already
    }
  });
  verdict.seconds = seconds_since(start);
  return verdict;
}

std::vector<std::vector<std::string>> examination_groups() {
  std::vector<std::vector<std::string>> groups;
  for (const ExaminationPart& part : examination_parts(false)) {
    const auto with = std::ranges::find_if(groups, [&](const std::vector<std::string>& group) {
      return std::ranges::find(group, part.shares_kernels_with) != group.end();
    });
    if (with == groups.end())
      groups.push_back({part.name});
    else
      with->push_back(part.name);
  }
  return groups;
}

}  // namespace athanor
