#include "athanor/backends/gpu/pending.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace athanor::gpu {

bool waits_for_each_launch() {
  static const bool value = [] {
    const char* text = std::getenv("ATHANOR_SYNC");
    return text != nullptr && *text != 0 && std::string_view(text) != "0";
  }();
  return value;
}

void Pending::launched(const CommandSite* site) {
  const std::scoped_lock lock(mutex_);
  ++launches_;
  if (!next_is_first_ || site == nullptr) return;
  next_is_first_ = false;
  firsts_.push_back({launches_, site->step(), site->where()});
}

void Pending::Group::add(const CommandSite* site) {
  if (++count > 1 || site == nullptr) return;
  step = site->step();
  where = site->where();
}

void Pending::launched(const Group& group) {
  const std::scoped_lock lock(mutex_);
  if (next_is_first_ && !group.step.empty()) {
    next_is_first_ = false;
    firsts_.push_back({launches_ + 1, group.step, group.where});
  }
  launches_ += group.count;
}

uint64_t Pending::point() {
  constexpr size_t most = 1000;  // some points are never waited for
  const std::scoped_lock lock(mutex_);
  next_is_first_ = true;
  if (firsts_.size() > most) firsts_.pop_front();
  return launches_;
}

void Pending::passed(uint64_t number) {
  const std::scoped_lock lock(mutex_);
  done_ = std::max(done_, number);
  while (!firsts_.empty() && firsts_.front().number <= done_) firsts_.pop_front();
}

bool Pending::any() {
  const std::scoped_lock lock(mutex_);
  return launches_ > done_;
}

bool Pending::knows(uint64_t number) {
  const std::scoped_lock lock(mutex_);
  return !firsts_.empty() && firsts_.front().number <= number;
}

Error Pending::located(const Error& error) {
  uint64_t all = 0;
  {
    const std::scoped_lock lock(mutex_);
    all = launches_;
  }
  return located(error, all);
}

Error Pending::located(const Error& error, uint64_t number) {
  const std::scoped_lock lock(mutex_);
  if (firsts_.empty() || firsts_.front().number > number || error.code() != ErrorCode::device ||
      !error.where().empty())
    return error;
  const First& first = firsts_.front();
  const uint64_t others = number - first.number;
  const std::string among = others == 0   ? std::string()
                            : others == 1 ? " or the launch after it"
                                          : fmt::format(" or one of the {} launches after it", others);
  return Error(error.code(), fmt::format("{}, in {}{}", error.problem(), first.step, among), first.where,
               others == 0 ? error.hint()
                           : "With ATHANOR_SYNC=1 each launch is waited for, and the error names its step.");
}

}  // namespace athanor::gpu
