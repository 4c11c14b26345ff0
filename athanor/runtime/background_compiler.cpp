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

std::string name_of(const std::string& problem, const Candidate& candidate) {
  return problem + '\n' + candidate.name;
}

}  // namespace

BackgroundCompiler::~BackgroundCompiler() {
  std::optional<Watchdog> watchdog;
  stop_.request_stop();
  {
    const std::scoped_lock lock(mutex_);
    jobs_.clear();
    if (!under_way_.empty()) watchdog.emplace("compiling " + *under_way_.begin());
  }
  more_.notify_all();
  for (auto& [id, thread] : threads_) thread.join();
  if (ended_.joinable()) ended_.join();
}

void BackgroundCompiler::add(const std::string& problem, const Candidate& candidate) {
  {
    const std::scoped_lock lock(mutex_);
    jobs_.push_back({problem, candidate});
    if (threads_.size() < std::min<size_t>(allowed_, jobs_.size() + under_way_.size())) {
      std::thread fresh([this] { work(); });  // waits for the lock
      threads_.emplace(fresh.get_id(), std::move(fresh));
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

size_t BackgroundCompiler::threads() {
  const std::scoped_lock lock(mutex_);
  return threads_.size() + (ended_.joinable() ? 1 : 0);
}

void BackgroundCompiler::work() {
  os::yield_to_others();
  const FinishScope finishing;  // a request to stop is the run's, and ends it with all it has
  const std::stop_token stop = stop_.get_token();
  const CompileApartScope apart(stop);
  std::unique_lock lock(mutex_);
  for (;;) {
    const bool in_time =
        more_.wait_for(lock, patience_, [&] { return stop.stop_requested() || !jobs_.empty(); });
    if (stop.stop_requested()) return;  // the destructor joins this thread
    if (!in_time) {
      std::thread before =
          std::exchange(ended_, std::move(threads_.extract(std::this_thread::get_id()).mapped()));
      lock.unlock();
      if (before.joinable()) before.join();
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
  } catch (const Interrupted&) {
    // This compiler is to end.
  }
  cache.unmark(key, job.candidate.name);
}

}  // namespace athanor
