#include "athanor/examine/examine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <functional>
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

// The caller's thread has pending tensors, which an evaluation would include, and options and cached plans of
// its own.
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

// The default examiner, in this process. Each part is marked before it begins. A mark that is still there
// means that the program ended while the device computed this part.
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
      if (!options.whole && !verdict.right()) break;  // the device is refused already
    }
  });
  verdict.seconds = seconds_since(start);
  return verdict;
}

std::vector<std::vector<std::string>> examination_groups(size_t most, bool whole) {
  struct Group {
    std::vector<std::string> parts;
    double work = 0;
  };
  std::vector<Group> together;  // parts that share kernels
  for (const ExaminationPart& part : examination_parts(whole)) {
    const auto with = std::ranges::find_if(together, [&](const Group& group) {
      return std::ranges::find(group.parts, part.shares_kernels_with) != group.parts.end();
    });
    Group& group = with == together.end() ? together.emplace_back() : *with;
    group.parts.push_back(part.name);
    group.work += part.work > 0 ? part.work : 1;
  }
  std::ranges::stable_sort(together, std::greater<>(), &Group::work);
  std::vector<Group> groups(std::min(std::max<size_t>(most, 1), together.size()));
  for (const Group& one : together) {
    Group& least = *std::ranges::min_element(groups, {}, &Group::work);
    least.parts.insert(least.parts.end(), one.parts.begin(), one.parts.end());
    least.work += one.work;
  }
  std::vector<std::vector<std::string>> names;
  for (Group& group : groups) names.push_back(std::move(group.parts));
  return names;
}

}  // namespace athanor
