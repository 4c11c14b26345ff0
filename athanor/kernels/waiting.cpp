#include "athanor/kernels/waiting.h"

#include <utility>

namespace athanor {
namespace {

WaitListener& wait_listener() {
  thread_local WaitListener listener;
  return listener;
}

}  // namespace

ScopedWaitListener::ScopedWaitListener(WaitListener listener)
    : before_(std::exchange(wait_listener(), std::move(listener))) {}
ScopedWaitListener::~ScopedWaitListener() { wait_listener() = std::move(before_); }

void tell_wait(const std::string& what, const std::string& how_far) {
  if (wait_listener()) wait_listener()(what, how_far);
}

}  // namespace athanor
