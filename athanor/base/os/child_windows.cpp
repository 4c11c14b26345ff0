#ifdef _WIN32
#include <exception>
#include <utility>

#include "athanor/base/os/child.h"

namespace athanor::os {

struct Child::State {
  std::function<std::string()> ask;
};

Child::Child(std::function<std::string()> ask) : state_(new State{std::move(ask)}) {}
Child::Child(Child&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
Child::~Child() { delete state_; }

ChildAnswer Child::wait(double) {
  try {
    return {state_->ask(), {}};
  } catch (const std::exception& error) {
    return {{}, std::string("failed: ") + error.what()};
  }
}

}  // namespace athanor::os
#endif
