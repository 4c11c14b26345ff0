#include "athanor/runtime/background_compiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "athanor/base/clock.h"
#include "athanor/base/error.h"
#include "athanor/base/os/interrupt.h"
#include "athanor/base/os/threads.h"
#include "athanor/kernels/cache.h"
#include "athanor/kernels/compile_apart.h"
#include "athanor/kernels/watchdog.h"

namespace athanor {
namespace {

// After so long without work a thread ends, and the process with it that compiles for it.
constexpr std::chrono::seconds patience{5};

std::string name_of(const std::string& problem, const Candidate& candidate) {
  return problem + '\n' + candidate.name;
}

}  // namespace

BackgroundCompiler::~BackgroundCompiler() {
  std::optional<Watchdog> watchdog;
  {
    const std::scoped_lock lock(mutex_);
    ends_ = true;
    jobs_.clear();
    if (!under_way_.empty()) watchdog.emplace("compiling " + *under_way_.begin());
  }
  more_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void BackgroundCompiler::add(const std::string& problem, const Candidate& candidate) {
  {
    const std::scoped_lock lock(mutex_);
    jobs_.push_back({problem, candidate});
    if (working_ < std::min<size_t>(allowed_, jobs_.size() + under_way_.size())) {
      threads_.emplace_back([this] { work(); });
      ++working_;  // before it can say that it has ended: it waits for the lock
    }
  }
  more_.notify_all();
}

bool BackgroundCompiler::is_done(const std::string& problem, const Candidate& candidate) {
  const std::scoped_lock lock(mutex_);
  return done_.contains(name_of(problem, candidate));
}

size_t BackgroundCompiler::waiting() {
  const std::scoped_lock lock(mutex_);
  return jobs_.size() + under_way_.size();
}

void BackgroundCompiler::drop(const std::string& problem) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(jobs_, [&](const Job& job) { return job.problem == problem; });
}

double BackgroundCompiler::seconds() {
  const std::scoped_lock lock(mutex_);
  return seconds_;
}

void BackgroundCompiler::work() {
  os::yield_to_others();
  const FinishScope finishing;  // a request to stop is the run's, and ends it with all it has
  const CompileApartScope apart;
  std::unique_lock lock(mutex_);
  for (;;) {
    if (!more_.wait_for(lock, patience, [this] { return ends_ || !jobs_.empty(); }) || ends_) {
      --working_;
      return;
    }
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    const auto mine = under_way_.insert(fmt::format("the kernel '{}'", job.candidate.name));
    lock.unlock();
    const auto start = Clock::now();
    compile(job);
    const double passed = seconds_since(start);
    lock.lock();
    seconds_ += passed;
    under_way_.erase(mine);
    done_.insert(name_of(job.problem, job.candidate));
  }
}

void BackgroundCompiler::compile(const Job& job) {
  KernelCache& cache = KernelCache::instance();
  const std::string key = "background|" + job.problem;
  if (cache.is_marked(key, job.candidate.name)) return cache.unmark(key, job.candidate.name);
  cache.mark(key, job.candidate.name);
  try {
    job.candidate.kernel->prepare();
  } catch (const Error&) {
    // It is dropped, with this reason, when it is tried.
  }
  cache.unmark(key, job.candidate.name);
}

}  // namespace athanor
