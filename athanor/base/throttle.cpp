#include "athanor/base/throttle.h"

#include <chrono>
#include <utility>

namespace athanor {

Throttle::Throttle(double seconds, std::function<void(const std::string& line)> print)
    : apart_(std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))),
      print_(std::move(print)),
      due_(Clock::now() + apart_) {}

Throttle::~Throttle() {
  {
    const std::scoped_lock lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Throttle::say(std::string line) {
  const std::scoped_lock lock(mutex_);
  next_ = std::move(line);
  waits_ = true;
  if (!thread_.joinable()) thread_ = std::thread([this] { print_when_due(); });
  changed_.notify_all();
}

void Throttle::say_at_once(const std::string& line) {
  const std::scoped_lock lock(mutex_);
  waits_ = false;
  due_ = Clock::now() + apart_;
  print_(line);
}

void Throttle::print_when_due() {
  std::unique_lock lock(mutex_);
  while (!ends_) {
    if (!waits_) {
      changed_.wait(lock);
    } else if (Clock::now() < due_) {
      changed_.wait_until(lock, due_);
    } else {
      waits_ = false;
      due_ = Clock::now() + apart_;
      print_(next_);
    }
  }
}

}  // namespace athanor
