// Copies to the host's memory, which whoever needs them moves to their place.
#include <numeric>

#include "athanor/backends/gpu/backend.h"
#include "athanor/backends/gpu/storage.h"
#include "athanor/ops/ops.h"
#include "tests/support/gpu_devices.h"

namespace athanor::testing {
namespace {

constexpr size_t piece = gpu::Landings::piece_bytes;

std::vector<uint8_t> noise(size_t count, uint32_t seed) {
  std::vector<uint8_t> all(count);
  for (uint8_t& byte : all) byte = static_cast<uint8_t>((seed = seed * 1664525 + 1013904223) >> 24);
  return all;
}

std::vector<uint8_t> bytes_of(const Storage& storage) {
  std::vector<uint8_t> all(storage.bytes());
  storage.read(all.data(), 0, all.size());
  return all;
}

TEST(GpuLandings, ArriveWholeWhereTheyAreNeeded) {
  ATHANOR_NEEDS_GPU();
  for (const DeviceInfo& info : gpu_devices()) {
    gpu::GpuDevice& device = gpu::gpu_device(info.device);
    gpu::Landings few(device, 2);  // so that older pieces have to be moved
    std::vector<std::shared_ptr<Storage>> places;
    std::vector<std::vector<uint8_t>> want;
    for (const size_t count : {size_t{1}, piece - 1, piece, 3 * piece + 17, size_t{100}}) {
      want.push_back(noise(count, static_cast<uint32_t>(count)));
      const auto source = allocate(info.device, count);
      source->write(want.back().data(), 0, count);
      places.push_back(allocate(Device{}, count));
      few.receive(device.downloads(), *places.back(), device.downloads().place_of({source.get(), 0}));
      EXPECT_NE(places.back()->ready(), nullptr);
      // One that nobody waits for.
      few.receive(device.downloads(), *allocate(Device{}, count),
                  device.downloads().place_of({source.get(), 0}));
      device.kernels().wait(device.downloads().record());  // before the source is used again
    }
    for (size_t i = 0; i < places.size(); ++i)
      EXPECT_TRUE(bytes_of(*places[i]) == want[i]) << info.name << ", " << want[i].size() << " bytes";
    EXPECT_TRUE(places.front()->ready()->passed());
  }
}

TEST(GpuLandings, ACopyToTheHostIsNotWaitedFor) {
  ATHANOR_NEEDS_GPU();
  for (const DeviceInfo& info : gpu_devices()) {
    gpu::GpuDevice& device = gpu::gpu_device(info.device);
    if (device.facts().shares_host_memory) continue;
    const std::vector<uint8_t> want = noise(100, 3);
    const auto source = allocate(info.device, 100), place = allocate(Device{}, 100);
    source->write(want.data(), 0, 100);
    device.downloads().copy({place.get(), 0}, {source.get(), 0}, 100);
    EXPECT_NE(place->ready(), nullptr);
    EXPECT_TRUE(bytes_of(*place) == want);
    // Kernels of the host wait for it, too: in a plan of its own, and in the same.
    const Tensor x = Tensor::from<float>(std::vector<float>(1000, 2), {1000}, info.device);
    const Tensor there = (x * 3).to(Device{});
    there.eval();
    EXPECT_EQ((there + 1).to_vector<float>(), std::vector<float>(1000, 7));
    EXPECT_EQ(((x * 5).to(Device{}) + 1).to_vector<float>(), std::vector<float>(1000, 11));
  }
}

}  // namespace
}  // namespace athanor::testing
