#ifdef _WIN32
#include <exception>
#include <utility>

#include "athanor/base/os/child.h"

namespace athanor::os {

struct Child::State {
  std::function<std::string(const Say&)> ask;
};

Child::Child(const std::function<std::string()>& ask) : Child([ask](const Say&) { return ask(); }) {}
Child::Child(std::function<std::string(const Say&)> ask) : state_(new State{std::move(ask)}) {}
Child::Child(Child&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
Child::~Child() { delete state_; }

ChildAnswer Child::wait(double, const Say& heard) {
  try {
    return {state_->ask(heard ? heard : [](const std::string&) {}), {}, false};
  } catch (const std::exception& error) {
    return {{}, std::string("failed: ") + error.what(), false};
  }
}

Child Child::of_program(std::vector<std::string>) { return Child(std::function<std::string(const Say&)>()); }

std::string own_program() { return {}; }

}  // namespace athanor::os
#endif
