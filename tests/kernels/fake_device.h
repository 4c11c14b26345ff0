// A device for tests of the tuner: its kernels are the host's, and the test sets its clock.
#pragma once
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "athanor/backends/cpu/memory.h"
#include "athanor/backends/cpu/queue.h"
#include "athanor/base/error.h"
#include "athanor/kernels/epilogue.h"
#include "athanor/kernels/finish_by_loop.h"
#include "athanor/kernels/kernel.h"

namespace athanor::testing {

class FakeDevice final : public Backend {
 public:
  /// The seconds that `runs` consecutive runs of a candidate take.
  using Timer = std::function<double(const std::string& candidate, int runs)>;

  /// The device, with a new name, so that no records belong to it.
  static FakeDevice& fresh() {
    static FakeDevice* fake = nullptr;
    if (fake == nullptr) {
      auto made = std::unique_ptr<FakeDevice>(new FakeDevice);
      fake = made.get();
      fake->provider_ = register_provider(std::move(made));
    }
    std::random_device random;
    fake->serial_ = std::to_string(random()) + std::to_string(random());
    fake->kind = "cpu";
    fake->driver.clear();
    fake->names = {"a", "b", "c"};
    fake->names_with_epilogue = {};
    fake->scratch.clear();
    fake->fewer_products.clear();
    fake->wrong.clear();
    fake->wrong_by = 1000;
    fake->prepared = {};
    fake->most_bytes = SIZE_MAX;
    fake->late = false;
    return *fake;
  }

  Device device() const { return {provider_, 0}; }
  DeviceInfo info() const {
    DeviceInfo info;
    info.device = device();
    info.name = "fake device " + serial_;
    info.kind = kind;
    if (!driver.empty()) info.properties["driver"] = {driver, "test"}, info.environment = {"driver"};
    return info;
  }

  Timer timer;
  std::string kind, driver;
  std::vector<std::string> names;                              // the candidates' names
  std::vector<std::string> names_with_epilogue;                // the same for a request with an epilogue
  std::map<std::string, size_t> scratch;                       // bytes that a candidate needs in addition
  std::string fewer_products;                                  // the candidate that multiplies less
  std::string wrong;                                           // the candidate whose results are wrong
  float wrong_by = 1000;                                       // the error of its first element
  std::function<void(const std::string& candidate)> prepared;  // called for each one, when it is prepared
  size_t most_bytes = SIZE_MAX;                                // the limit of one allocation
  bool late = false;  // whether the end of work is known only after waiting for it

  std::string name() const override { return "fake"; }
  std::vector<DeviceInfo> devices() override { return {info()}; }
  std::shared_ptr<Storage> allocate(int, size_t bytes) override {
    if (bytes > most_bytes)
      throw Error(ErrorCode::out_of_memory,
                  "cannot allocate " + std::to_string(bytes) + " bytes on the fake");
    return cpu::allocate_memory(device(), bytes);
  }
  std::vector<Candidate> candidates(int, const KernelRequest& request) override {
    std::vector<Candidate> all;
    const auto of_host = backend_of(Device{}).candidates(0, without_epilogue(request));
    if (of_host.empty()) return all;
    const Candidate host = request.has_epilogue()
                               ? finish_by_loop(of_host.front(), loop_kernel(0, request.epilogue), request)
                               : of_host.front();
    for (const std::string& name : request.has_epilogue() ? names_with_epilogue : names)
      all.push_back({name, host.scratch_bytes + (scratch.contains(name) ? scratch.at(name) : 0),
                     std::make_shared<FakeKernel>(*this, name, host.kernel), name == fewer_products});
    return all;
  }
  bool has_kernel(const Op& op, std::span<const TensorType> inputs, const TensorType& output,
                  const Attrs& attrs) override {
    return backend_of(Device{}).has_kernel(op, inputs, output, attrs);
  }
  std::vector<Layout> preferred_layouts(const Op&, std::span<const TensorType>, const TensorType&,
                                        const Attrs&) override {
    return {};
  }
  Candidate loop_kernel(int, const LoopProgram& program) override {
    return backend_of(Device{}).loop_kernel(0, program);
  }
  Queue& queue(int) override {
    if (!queue_) queue_ = std::make_unique<FakeQueue>(*this);
    return *queue_;
  }

 private:
  class FakeKernel final : public Kernel {
   public:
    FakeKernel(FakeDevice& device, std::string name, std::shared_ptr<const Kernel> host)
        : device_(device), name_(std::move(name)), host_(std::move(host)) {}
    void enqueue(Queue& queue, std::span<const Binding> buffers, const CommandSite* site) const override {
      prepare();
      device_.ran_ = name_;
      if (++device_.runs_, device_.timing_) return;
      host_->enqueue(queue, buffers, site);
      const Binding& output = buffers[buffers.size() - 2];
      if (name_ == device_.wrong) *static_cast<float*>(output.storage->address()) += device_.wrong_by;
    }

    void prepare() const override {
      if (device_.prepared) device_.prepared(name_);
    }

   private:
    FakeDevice& device_;
    std::string name_;
    std::shared_ptr<const Kernel> host_;
  };

  class LateEvent final : public Event {
   public:
    bool passed() const override { return waited_; }
    void wait() const override { waited_ = true; }
    void settle() const noexcept override { waited_ = true; }

   private:
    mutable std::atomic<bool> waited_ = false;
  };

  class FakeQueue final : public cpu::CpuQueue {
   public:
    explicit FakeQueue(FakeDevice& device) : CpuQueue(device.device()), device_(device) {}
    std::shared_ptr<Event> record() override {
      if (!device_.late) return CpuQueue::record();
      return std::make_shared<LateEvent>();
    }
    double timed(const std::function<void()>& launches) override {
      device_.runs_ = 0;
      device_.timing_ = true;
      launches();
      device_.timing_ = false;
      return device_.timer(device_.ran_, device_.runs_);
    }

   private:
    FakeDevice& device_;
  };

  FakeDevice() = default;
  std::unique_ptr<FakeQueue> queue_;
  uint8_t provider_ = 0;
  std::string serial_, ran_;
  int runs_ = 0;
  bool timing_ = false;
};

}  // namespace athanor::testing
