// Copies between devices: from every device to every other, by either device's queue, in order with the work
// before and after on both.
#include "athanor/kernels/kernel.h"
#include "athanor/kernels/trace.h"
#include "tests/kernels/fake_device.h"
#include "tests/support/expect_error.h"

namespace athanor::testing {
namespace {

std::vector<Device> all_devices() {
  std::vector<Device> devices;
  for (const DeviceInfo& info : list_devices())
    if (info.name.find("fake") == std::string::npos) devices.push_back(info.device);
  devices.push_back(FakeDevice::fresh().device());
  return devices;
}

std::vector<uint8_t> pattern(size_t bytes, uint32_t state) {
  std::vector<uint8_t> data(bytes);
  for (uint8_t& byte : data) byte = static_cast<uint8_t>((state = state * 1664525 + 1013904223) >> 24);
  return data;
}

void expect_bytes(const Storage& storage, const std::vector<uint8_t>& want) {
  std::vector<uint8_t> got(want.size());
  storage.read(got.data(), 0, got.size());
  EXPECT_TRUE(got == want);
}

constexpr QueueKind kinds[] = {QueueKind::kernels, QueueKind::copies_in, QueueKind::copies_out};

/// Copies the middle of `from` to the middle of `to`, or (whole) all of it, by a queue of `by`.
void expect_copied(Device by, QueueKind kind, Device to, Device from, size_t bytes, bool whole) {
  const size_t before = whole ? 0 : 64, behind = whole ? 0 : 100;
  const size_t all = before + bytes + behind;
  Queue& queue = queue_of(by, kind);
  Queue& other = queue_of(by == to ? from : to);
  const auto source = allocate(from, all), target = allocate(to, all), kept = allocate(from, all);
  const std::vector<uint8_t> sent = pattern(all, 1);
  kept->write(sent.data(), 0, all);
  // The source gets its content on its own queue, so a copy that does not wait finds other bytes.
  queue_of(from).fill({source.get(), 0}, 9, all);
  queue_of(from).copy({source.get(), 0}, {kept.get(), 0}, all);
  queue_of(to).fill({target.get(), 0}, 77, all);
  queue.wait(other.record());
  queue.wait(queue_of(by).record());
  const auto at = static_cast<int64_t>(before);
  queue.copy({target.get(), at}, {source.get(), at}, bytes);
  other.wait(queue.record());
  queue_of(by).wait(queue.record());
  queue_of(from).fill({source.get(), 0}, 5, all);  // after the copy
  std::vector<uint8_t> want(all, 77);
  std::copy(sent.begin() + at, sent.end() - static_cast<int64_t>(behind), want.begin() + at);
  target->set_ready(queue_of(to).record());
  expect_bytes(*target, want);
}

TEST(QueueCopy, FromEveryDeviceToEveryOther) {
  constexpr size_t piece = size_t{4} << 20;  // the size of the pieces that go through pinned memory
  for (const Device to : all_devices())
    for (const Device from : all_devices())
      for (const Device by : {to, from})
        for (const QueueKind kind : kinds)
          for (const size_t bytes : {size_t{1}, size_t{4000}, 2 * piece + 12}) {
            SCOPED_TRACE(to_string(from) + " to " + to_string(to) + " by queue " +
                         std::to_string(static_cast<int>(kind)) + " of " + to_string(by) + ", " +
                         std::to_string(bytes) + " bytes");
            expect_copied(by, kind, to, from, bytes, false);
            if (to == from) break;
            expect_copied(by, kind, to, from, bytes, true);
          }
}

TEST(QueueCopy, WaitsForWhatTheHostWrote) {
  constexpr size_t bytes = 100000;
  for (const Device to : all_devices())
    for (const Device from : all_devices())
      for (const Device by : {to, from})
        for (const QueueKind kind : kinds) {
          SCOPED_TRACE(to_string(from) + " to " + to_string(to) + " by queue " +
                       std::to_string(static_cast<int>(kind)) + " of " + to_string(by));
          const auto source = allocate(from, bytes), target = allocate(to, bytes);
          const std::vector<uint8_t> old = pattern(bytes, 2), sent = pattern(bytes, 3);
          target->write(old.data(), 0, bytes);
          source->write(sent.data(), 0, bytes);
          Queue& queue = queue_of(by, kind);
          queue.copy({target.get(), 0}, {source.get(), 0}, bytes);
          queue_of(to).wait(queue.record());
          target->set_ready(queue_of(to).record());
          expect_bytes(*target, sent);
        }
}

// Freed memory is used again at once, although a queue may run later.
TEST(QueueCopy, MemoryMayBeReleasedAtOnce) {
  constexpr size_t bytes = 100000;
  for (const Device to : all_devices())
    for (const Device from : all_devices())
      for (const Device by : {to, from}) {
        SCOPED_TRACE(to_string(from) + " to " + to_string(to) + " by " + to_string(by));
        const auto target = allocate(to, bytes);
        const std::vector<uint8_t> sent = pattern(bytes, 4), others(bytes, 7);
        {
          const auto source = allocate(from, bytes);
          source->write(sent.data(), 0, bytes);
          queue_of(by).copy({target.get(), 0}, {source.get(), 0}, bytes);
        }
        const auto next = allocate(from, bytes);
        next->write(others.data(), 0, bytes);
        queue_of(from).fill({next.get(), 0}, 8, bytes);
        queue_of(from).finish();
        queue_of(to).wait(queue_of(by).record());
        target->set_ready(queue_of(to).record());
        expect_bytes(*target, sent);
      }
}

TEST(QueueCopy, IsRefusedBetweenTwoOtherDevices) {
  const Device fake = FakeDevice::fresh().device();
  const auto here = allocate(fake, 8);
  for (const Device device : all_devices())
    if (device != fake)
      expect_error(ErrorCode::internal, {to_string(device), "copy from " + to_string(fake)}, [&] {
        queue_of(device).copy({here.get(), 0}, {here.get(), 0}, 8);
      });
}

TEST(QueueCopy, IsShownInTraces) {
  for (const Device to : all_devices())
    for (const Device from : all_devices()) {
      const Device fake = FakeDevice::fresh().device();
      if (to == Device{} || to == fake) continue;
      const auto source = allocate(from, 4096), target = allocate(to, 4096);
      queue_of(to).fill({target.get(), 0}, 1, 4096);
      Trace trace;
      queue_of(to).copy({target.get(), 0}, {source.get(), 0}, 4096);
      queue_of(to).finish();
      EXPECT_NE(trace.json().find("4.00 KiB"), std::string::npos)
          << to_string(from) << " to " << to_string(to) << ":\n"
          << trace.json();
    }
}

}  // namespace
}  // namespace athanor::testing
