// The CPU's queue: commands run immediately, on the calling thread.
#pragma once
#include "athanor/kernels/queue.h"

namespace athanor::cpu {

class CpuQueue : public Queue {
 public:
  explicit CpuQueue(Device device) : Queue(device) {}
  void copy(Binding to, Binding from, size_t bytes) override;
  void fill(Binding to, uint8_t value, size_t bytes) override;
  std::shared_ptr<Event> record() override { return nullptr; }
  void wait(const std::shared_ptr<Event>& event) override;
  void require(Storage& storage) override { wait(storage.ready()); }
  void finish() override {}
  double timed(const std::function<void()>& launches) override;
};

}  // namespace athanor::cpu
