// Uploads through pinned memory: their pieces, in order, and the memory around them.
#include <numeric>

#include "athanor/backends/gpu/backend.h"
#include "athanor/backends/gpu/storage.h"
#include "tests/support/gpu_devices.h"

namespace athanor::testing {
namespace {

TEST(GpuStaging, UploadsAnySizeAndNothingBesideIt) {
  ATHANOR_NEEDS_GPU();
  constexpr size_t half = size_t{4} << 20, before = 64, behind = 100;
  for (const DeviceInfo& info : gpu_devices()) {
    gpu::GpuDevice& device = gpu::gpu_device(info.device);
    for (const size_t count : {size_t{0}, size_t{1}, half - 1, half, half + 1, 3 * half + 17}) {
      const auto storage = allocate(info.device, before + count + behind);
      std::vector<uint8_t> want(before + count + behind, 77), got(want.size());
      storage->write(want.data(), 0, want.size());
      std::vector<uint8_t> source(count);
      uint32_t state = 1;
      for (uint8_t& byte : source) byte = static_cast<uint8_t>((state = state * 1664525 + 1013904223) >> 24);
      const gpu::Memory memory = static_cast<gpu::GpuStorage&>(*storage).memory();
      device.copies_in().wait(storage->ready());
      device.staging.upload(device.copies_in(), {memory, before}, source.data(), count);
      std::ranges::copy(source, want.begin() + before);
      std::ranges::fill(source, uint8_t{0});  // the upload has already read it
      device.copies_in().finish();
      storage->read(got.data(), 0, got.size());
      EXPECT_TRUE(got == want) << info.name << ", " << count << " bytes";
    }
  }
}

}  // namespace
}  // namespace athanor::testing
