#include "athanor/runtime/background_compiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <set>
#include <stop_token>
#include <thread>
#include <utility>

#include "athanor/base/clock.h"
#include "athanor/base/os/interrupt.h"
#include "athanor/base/os/threads.h"
#include "athanor/kernels/cache.h"
#include "athanor/kernels/compile_apart.h"
#include "athanor/kernels/marked.h"
#include "athanor/kernels/watchdog.h"

namespace athanor {
namespace {

struct Job {
  std::string problem;
  Candidate candidate;
  std::string name() const { return problem + '\n' + candidate.name; }
};

void compile(const Job& job) {
  KernelCache& cache = KernelCache::instance();
  const std::string key = "background|" + job.problem;
  if (cache.is_marked(key, job.candidate.name)) return cache.unmark(key, job.candidate.name);
  const Marked marked(key, job.candidate.name);
  try {
    job.candidate.kernel->prepare();
  } catch (const std::exception&) {
    // Trying the kernel tells what is wrong with it. Or this compiler was told to end.
  }
}

// Threads whose compiler is gone.
class LeftBehind {
 public:
  // Never destroyed: threads may still run when the program ends.
  static LeftBehind& instance() {
    static LeftBehind& all = *new LeftBehind;
    return all;
  }

  void add(std::thread thread, const std::string& what) {
    // Otherwise the end of the program would destroy what they use.
    static const int waits = std::atexit([] { instance().wait(); });
    static_cast<void>(waits);
    const std::scoped_lock lock(mutex_);
    names_[thread.get_id()] = what;
    thread.detach();
  }
  void come_back() {
    const std::scoped_lock lock(mutex_);
    names_.erase(std::this_thread::get_id());
    gone_.notify_all();
  }
  size_t count() {
    const std::scoped_lock lock(mutex_);
    return names_.size();
  }

 private:
  void wait() {
    std::unique_lock lock(mutex_);
    if (names_.empty()) return;
    const Watchdog watchdog(names_.begin()->second);
    gone_.wait(lock, [this] { return names_.empty(); });
  }

  std::mutex mutex_;
  std::condition_variable gone_;
  std::map<std::thread::id, std::string> names_;
};

constexpr std::chrono::seconds grace{2};

}  // namespace

struct BackgroundCompiler::Shared {
  const std::chrono::milliseconds patience;
  std::stop_source stop = {};
  std::mutex mutex = {};
  std::condition_variable more = {}, fewer = {};
  std::deque<Job> jobs = {};
  std::set<std::string> done = {};
  std::map<std::thread::id, std::string> under_way = {};  // what each thread compiles, for messages
  double seconds = 0;
  std::atomic<size_t> allowed = 1;
  std::map<std::thread::id, std::thread> threads = {};
  std::thread ended = {};  // the last thread that ended; it has joined the one before
};

BackgroundCompiler::BackgroundCompiler(std::chrono::milliseconds patience)
    : shared_(new Shared{.patience = patience}) {}

BackgroundCompiler::~BackgroundCompiler() {
  Shared& all = *shared_;
  all.stop.request_stop();
  std::unique_lock lock(all.mutex);
  all.jobs.clear();
  all.more.notify_all();
  all.fewer.wait_for(lock, grace, [&all] { return all.under_way.empty(); });
  for (const auto& [id, name] : all.under_way)
    LeftBehind::instance().add(std::move(all.threads.extract(id).mapped()), "compiling " + name);
  auto threads = std::exchange(all.threads, {});
  std::thread ended = std::move(all.ended);
  lock.unlock();
  for (auto& [id, thread] : threads) thread.join();
  if (ended.joinable()) ended.join();
}

void BackgroundCompiler::allow(size_t threads) { shared_->allowed = threads; }

void BackgroundCompiler::add(const std::string& problem, const Candidate& candidate) {
  Shared& all = *shared_;
  {
    const std::scoped_lock lock(all.mutex);
    all.jobs.push_back({problem, candidate});
    if (all.threads.size() < std::min<size_t>(all.allowed, all.jobs.size() + all.under_way.size())) {
      std::thread fresh([shared = shared_] {  // waits for the lock
        if (work(*shared)) LeftBehind::instance().come_back();
      });
      all.threads.emplace(fresh.get_id(), std::move(fresh));
    }
  }
  all.more.notify_all();
}

bool BackgroundCompiler::is_done(const std::string& problem, const Candidate& candidate) {
  const std::scoped_lock lock(shared_->mutex);
  return shared_->done.contains(Job{problem, candidate}.name());
}

size_t BackgroundCompiler::waiting() {
  const std::scoped_lock lock(shared_->mutex);
  return shared_->jobs.size() + shared_->under_way.size();
}

void BackgroundCompiler::drop(const std::string& problem) {
  const std::scoped_lock lock(shared_->mutex);
  std::erase_if(shared_->jobs, [&](const Job& job) { return job.problem == problem; });
}

double BackgroundCompiler::seconds() {
  const std::scoped_lock lock(shared_->mutex);
  return shared_->seconds;
}

size_t BackgroundCompiler::threads() {
  const std::scoped_lock lock(shared_->mutex);
  return shared_->threads.size() + (shared_->ended.joinable() ? 1 : 0);
}

bool BackgroundCompiler::work(Shared& all) {
  const auto me = std::this_thread::get_id();
  os::yield_to_others();
  const FinishScope finishing;  // requests to stop are for the run, which ends this thread
  const std::stop_token stop = all.stop.get_token();
  const CompileApartScope apart(stop);
  std::unique_lock lock(all.mutex);
  for (;;) {
    const bool in_time =
        all.more.wait_for(lock, all.patience, [&] { return stop.stop_requested() || !all.jobs.empty(); });
    if (stop.stop_requested()) return false;  // the destructor joins this thread
    if (!in_time) {
      std::thread before = std::exchange(all.ended, std::move(all.threads.extract(me).mapped()));
      lock.unlock();
      if (before.joinable()) before.join();
      return false;
    }
    const Job job = std::move(all.jobs.front());
    all.jobs.pop_front();
    all.under_way[me] = fmt::format("the kernel '{}'", job.candidate.name);
    lock.unlock();
    const auto start = Clock::now();
    compile(job);
    const double passed = seconds_since(start);
    lock.lock();
    all.under_way.erase(me);
    if (!all.threads.contains(me)) return true;
    all.seconds += passed;
    all.done.insert(job.name());
    all.fewer.notify_all();
  }
}

size_t compilers_left_behind() { return LeftBehind::instance().count(); }

}  // namespace athanor
