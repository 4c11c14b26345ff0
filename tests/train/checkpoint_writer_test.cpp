#include "athanor/train/checkpoint_writer.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <thread>

#include "athanor/base/error.h"
#include "athanor/formats/safetensors.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace athanor {
namespace {

using testing::expect_error;
using testing::TempFolder;

Checkpoint checkpoint_of(int64_t step) {
  Checkpoint checkpoint;
  checkpoint.data.input = {1, 2, 2};
  checkpoint.data.classes = 2;
  checkpoint.data.normalization = {{0}, {1}};
  checkpoint.state.step = step;
  return checkpoint;
}

// A pipe that nobody reads acts like the slowest disk.
TEST(CheckpointWriter, TheRunDoesNotWaitForTheDisk) {
  const TempFolder folder;
  ASSERT_EQ(mkfifo((folder / "slow").c_str(), 0600), 0);
  CheckpointWriter writer;
  writer.write(folder / "slow", checkpoint_of(1));  // returns at once
  std::ifstream slow(folder / "slow", std::ios::binary);
  const std::string written{std::istreambuf_iterator<char>(slow), {}};
  writer.wait();
  EXPECT_FALSE(written.empty());
  // The run does not wait for two checkpoints either, as after an epoch that is the best so far.
  Checkpoint large = checkpoint_of(1);  // larger than a pipe's buffer
  large.model.emplace("weight", HostArray(DType::f32, {1 << 18}));
  writer.write(folder / "slow", std::move(large));
  writer.write(folder / "best", checkpoint_of(1));
  {
    std::ifstream half(folder / "slow", std::ios::binary);
    half.get();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_FALSE(std::filesystem::exists(folder / "best")) << "they are written one after the other";
    half.ignore(std::numeric_limits<std::streamsize>::max());
  }
  writer.wait();
  EXPECT_EQ(read_checkpoint(folder / "best").state.step, 1);
  writer.write(folder / "a", checkpoint_of(2));
  writer.write(folder / "a", checkpoint_of(3));  // written after the other one
  writer.wait();
  EXPECT_EQ(read_checkpoint(folder / "a").state.step, 3);
}

TEST(CheckpointWriter, WhoIsToldOfAnErrorFindsWhatWasSavedBefore) {
  const TempFolder folder;
  ASSERT_EQ(mkfifo((folder / "slow").c_str(), 0600), 0);
  CheckpointWriter writer;
  std::atomic<bool> read = false;  // nothing can be written before this
  std::jthread reader;
  try {
    const CheckpointWriter::Scope run(writer);
    writer.write(folder / "slow", checkpoint_of(1));
    reader = std::jthread([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the error comes much earlier
      read = true;
      std::ifstream slow(folder / "slow", std::ios::binary);
      slow.ignore(std::numeric_limits<std::streamsize>::max());
    });
    throw Error(ErrorCode::device, "lost");
  } catch (const Error&) {
    EXPECT_TRUE(read);
  }
}

TEST(CheckpointWriter, AFailureIsThrownByALaterCall) {
  const TempFolder folder;
  CheckpointWriter writer;
  writer.write(folder / "none" / "a", checkpoint_of(1));
  expect_error(ErrorCode::io, {"none"}, [&] { writer.wait(); });
  writer.wait();
  writer.write(folder / "none" / "a", checkpoint_of(1));
  expect_error(ErrorCode::io, {"none"}, [&] {
    for (int step = 2; step < 5; ++step) writer.write(folder / "a", checkpoint_of(step));
  });
  writer.wait();
}

}  // namespace
}  // namespace athanor
