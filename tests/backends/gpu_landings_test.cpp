// Copies to the host's memory, which are not waited for when they are given: whoever finds that a later event
// has passed, by whatever way, sees their content.
#include <cstring>
#include <thread>

#include "athanor/backends/gpu/backend.h"
#include "athanor/backends/gpu/storage.h"
#include "athanor/ops/ops.h"
#include "tests/support/gpu_devices.h"
#include "tests/support/host_driver.h"

namespace athanor::testing {
namespace {

constexpr size_t piece = gpu::Landings::piece_bytes;

std::vector<uint8_t> noise(size_t count, uint32_t seed) {
  std::vector<uint8_t> all(count);
  for (uint8_t& byte : all) byte = static_cast<uint8_t>((seed = seed * 1664525 + 1013904223) >> 24);
  return all;
}

/// The content now, without waiting for anything.
bool holds(const Storage& storage, const std::vector<uint8_t>& want) {
  return std::memcmp(storage.address(), want.data(), want.size()) == 0;
}

/// Memory of the device with this content.
std::shared_ptr<Storage> stored(Device device, const std::vector<uint8_t>& content) {
  auto storage = allocate(device, content.size());
  storage->write(content.data(), 0, content.size());
  return storage;
}

struct Sent {
  std::vector<uint8_t> want;
  std::shared_ptr<Storage> source, target;
};

/// Copies something to the host.
Sent send(gpu::GpuDevice& device, size_t bytes, uint32_t seed) {
  Sent sent{noise(bytes, seed), nullptr, allocate(Device{}, bytes)};
  sent.source = stored(device.id(), sent.want);
  std::memset(sent.target->address(), 0, bytes);
  device.landings.receive(sent.target, device.copies_out().place_of({sent.source.get(), 0}));
  device.kernels().wait(device.copies_out().record());  // before the source's memory is used again
  return sent;
}

TEST(GpuLandings, WhateverIsWaitedForTheContentIsThere) {
  ATHANOR_NEEDS_GPU();
  using Wait = std::function<void(gpu::GpuDevice&, const Sent&)>;
  const std::vector<std::pair<const char*, Wait>> ways{
      {"the target's event", [](auto&, const Sent& sent) { sent.target->ready()->wait(); }},
      {"a later event", [](auto& device, auto&) { device.copies_out().record()->wait(); }},
      {"the queue", [](auto& device, auto&) { device.copies_out().finish(); }},
      {"an event of a queue that waited", [](auto& device, auto&) { device.kernels().record()->wait(); }},
      {"a queue that waited", [](auto& device, auto&) { device.kernels().finish(); }},
      {"a queue that waited for a queue that waited",
       [](auto& device, auto&) {
         device.copies_in().wait(device.kernels().record());
         device.copies_in().finish();
       }},
      {"the host's queue",
       [](auto& device, auto&) { queue_of(Device{}).wait(device.copies_out().record()); }},
      {"an event that is found to have passed",
       [](auto& device, auto&) {
         const std::shared_ptr<Event> event = device.copies_out().record(),
                                      behind = device.kernels().record();
         device.reads().wait(behind);
         const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(20);
         // Virtual GPUs run nothing before it is waited for.
         if (gpu_backend() != "opencl") device.driver().finish(device.kernels().stream());
         while (!behind->passed() && std::chrono::steady_clock::now() < patience)
           std::this_thread::sleep_for(std::chrono::milliseconds(1));
         EXPECT_TRUE(behind->passed());
       }},
      {"nothing, but it is read", [](auto&, const Sent& sent) {
         std::vector<uint8_t> got(sent.want.size());
         sent.target->read(got.data(), 0, got.size());
         EXPECT_TRUE(got == sent.want);
       }}};
  for (const DeviceInfo& info : gpu_devices()) {
    gpu::GpuDevice& device = gpu::gpu_device(info.device);
    uint32_t seed = 0;
    for (const auto& [name, wait] : ways)
      for (const size_t bytes : {size_t{1}, piece - 1, piece, 2 * piece + 17}) {
        SCOPED_TRACE(info.name + ", " + name + ", " + std::to_string(bytes) + " bytes");
        const Sent sent = send(device, bytes, ++seed);
        ASSERT_NE(sent.target->ready(), nullptr);
        wait(device, sent);
        EXPECT_TRUE(holds(*sent.target, sent.want));
        EXPECT_TRUE(sent.target->ready()->passed());
      }
  }
}

TEST(GpuLandings, MoreThanPinnedMemoryHolds) {
  ATHANOR_NEEDS_GPU();
  for (const DeviceInfo& info : gpu_devices()) {
    gpu::GpuDevice& device = gpu::gpu_device(info.device);
    const Sent large = send(device, 70 * piece + 5, 1), small = send(device, 100, 2);
    send(device, 3 * piece, 3);  // nobody keeps its target
    const Sent last = send(device, piece, 4);
    // An upload from a target that the host has not waited for.
    const auto back = allocate(info.device, last.want.size());
    device.copies_in().wait(device.copies_out().record());
    device.copies_in().copy({back.get(), 0}, {last.target.get(), 0}, last.want.size());
    back->set_ready(device.copies_in().record());
    std::vector<uint8_t> got(last.want.size());
    back->read(got.data(), 0, got.size());
    EXPECT_TRUE(got == last.want);
    device.copies_out().finish();
    EXPECT_TRUE(holds(*large.target, large.want) && holds(*small.target, small.want));
    EXPECT_EQ(device.landings.landed(), device.landings.given());
  }
}

TEST(GpuLandings, OfSeveralThreads) {
  ATHANOR_NEEDS_GPU();
  gpu::GpuDevice& device = gpu::gpu_device(gpu_devices().front().device);
  std::vector<std::jthread> threads;
  std::atomic<int> wrong = 0;
  for (uint32_t thread = 0; thread < 3; ++thread)
    threads.emplace_back([&, thread] {
      for (uint32_t i = 0; i < 8; ++i) {
        const Sent sent = send(device, 3 * piece + thread, 100 * thread + i);
        if (i % 2 == 0)
          sent.target->ready()->wait();
        else
          device.kernels().record()->wait();
        if (!holds(*sent.target, sent.want)) ++wrong;
      }
    });
  threads.clear();
  EXPECT_EQ(wrong, 0);
}

/// A discrete device on which nothing passes before it is waited for. Devices live as long as the process.
struct LateDevice {
  HostDriver* host;
  gpu::GpuDevice* gpu;
};
LateDevice new_late_device(uint8_t index) {
  auto driver = std::make_unique<HostDriver>(GpuTarget::cuda, 0, "sm_90", Device{max_providers - 1, index});
  HostDriver* const host = driver.get();
  host->late = true;
  return {host, new gpu::GpuDevice(std::move(driver))};
}
LateDevice late_device() {
  static const LateDevice device = new_late_device(0);
  return device;
}

std::shared_ptr<Storage> stored(gpu::GpuDevice& device, const void* content, size_t bytes) {
  const auto storage = std::make_shared<gpu::GpuStorage>(device, device.pool.take(bytes), bytes);
  storage->write(content, 0, bytes);
  return storage;
}

TEST(GpuLandings, AreWhatCopiesToTheHostOfADiscreteDeviceAre) {
  HostDriver& host = *late_device().host;
  gpu::GpuDevice& device = *late_device().gpu;
  const std::vector<uint8_t> want = noise(3 * piece + 1, 7);
  const auto source = stored(device, want.data(), want.size());
  const auto target = allocate(Device{}, want.size());
  std::memset(target->address(), 0, want.size());
  const int finishes = host.finishes;
  device.copies_out().copy({target.get(), 0}, {source.get(), 0}, want.size());
  EXPECT_EQ(host.finishes, finishes);
  EXPECT_FALSE(holds(*target, want)) << "it was waited for";
  ASSERT_NE(target->ready(), nullptr);
  EXPECT_FALSE(target->ready()->passed());
  target->ready()->wait();
  EXPECT_TRUE(holds(*target, want));
  // A part of some memory has no event of its own, so it is there at once.
  std::memset(target->address(), 0, want.size());
  device.copies_out().copy({target.get(), 0}, {source.get(), 0}, 1000);
  EXPECT_EQ(std::memcmp(target->address(), want.data(), 1000), 0);
}

// A queue of one device may wait for copies of another.
TEST(GpuLandings, AreCountedForEachDevice) {
  gpu::GpuDevice& device = *late_device().gpu;
  static const LateDevice other = new_late_device(1);
  other.host->reaches_others = true;
  const std::vector<uint8_t> want = noise(2 * piece, 8);
  const auto source = stored(device, want.data(), want.size());
  const auto receive = [&] {
    auto target = allocate(Device{}, want.size());
    std::memset(target->address(), 0, want.size());
    device.landings.receive(target, device.copies_out().place_of({source.get(), 0}));
    return target;
  };
  receive()->ready()->wait();
  const int waits = other.host->waits;
  other.gpu->copies_in().wait(device.copies_out().record());
  EXPECT_EQ(other.host->waits, waits + 1) << "the other device waits, and not the host";
  other.gpu->copies_in().finish();  // the other device has no pieces
  const auto target = receive();
  other.gpu->copies_in().wait(device.copies_out().record());
  other.gpu->copies_in().finish();
  EXPECT_TRUE(holds(*target, want));
}

TEST(GpuLandings, SmallCopiesToADiscreteDeviceAreNotWaitedForEither) {
  HostDriver& host = *late_device().host;
  gpu::GpuDevice& device = *late_device().gpu;
  const std::vector<uint8_t> nothing(100);
  std::vector<std::shared_ptr<Storage>> sources, targets;
  for (uint32_t i = 0; i < 12; ++i) {
    sources.push_back(stored(Device{}, noise(100, i)));
    targets.push_back(stored(device, nothing.data(), 100));
  }
  device.copies_in().finish();
  const int awaits = host.awaits, finishes = host.finishes;
  for (size_t i = 0; i < 12; ++i) device.copies_in().copy({targets[i].get(), 0}, {sources[i].get(), 0}, 100);
  EXPECT_EQ(host.awaits, awaits);
  EXPECT_EQ(host.finishes, finishes);
  device.copies_in().finish();
  for (uint32_t i = 0; i < 12; ++i) {
    std::vector<uint8_t> got(100);
    targets[i]->read(got.data(), 0, 100);
    EXPECT_TRUE(got == noise(100, i));
  }
}

TEST(GpuLandings, PlansOfTheHostAloneWaitForThem) {
  gpu::GpuDevice& device = *late_device().gpu;
  for (int round = 0; round < 2; ++round) {  // in the first, kernels are chosen
    const Tensor there = Tensor::from<float>(std::vector<float>(1000, 1), {1000});
    there.eval();
    const std::vector<float> sent(1000, 7);
    const auto source = stored(device, sent.data(), 4000);
    device.landings.receive(there.node()->value, device.copies_out().place_of({source.get(), 0}));
    EXPECT_EQ((there + 1).to_vector<float>(), std::vector<float>(1000, 8));
  }
}

TEST(GpuLandings, PlansOfTheHostWaitForThem) {
  ATHANOR_NEEDS_GPU();
  const auto all = [](float value) { return std::vector<float>(1000, value); };
  for (const DeviceInfo& info : gpu_devices())
    for (int round = 0; round < 3; ++round) {
      SCOPED_TRACE(info.name + ", round " + std::to_string(round));
      const auto value = static_cast<float>(2 + round);
      const Tensor x = Tensor::from<float>(all(value), {1000}, info.device);
      const Tensor there = (x * 3).to(Device{});
      there.eval();
      EXPECT_EQ((there + 1).to_vector<float>(), all(3 * value + 1));
      EXPECT_EQ(((x * 5).to(Device{}) + 1).to_vector<float>(), all(5 * value + 1));
      const Tensor out = (x * 7).to(Device{});
      EXPECT_EQ((out.to(info.device) * 2 + x).to_vector<float>(), all(15 * value));
      EXPECT_EQ(out.to_vector<float>(), all(7 * value));
    }
}

}  // namespace
}  // namespace athanor::testing
