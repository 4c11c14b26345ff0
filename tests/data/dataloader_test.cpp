#include "athanor/data/dataloader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <set>
#include <stdexcept>
#include <thread>

#include "athanor/base/error.h"
#include "tests/support/expect_error.h"

namespace athanor {
namespace {

using testing::expect_error;

/// Example i is the picture (i, -i) with label i % 10. Reading example `faulty` throws; every reading takes
/// the time `pause`.
class Numbers : public Dataset {
 public:
  explicit Numbers(int64_t size) : size_(size) {
    spec_.input = {1, 1, 2};
    spec_.classes = 10;
  }
  int64_t size() const override { return size_; }
  const ExampleSpec& spec() const override { return spec_; }
  void read(int64_t index, float* image_out, int64_t& label_out) const override {
    ++reads;
    if (index == faulty) throw std::runtime_error("a bad sector");
    if (pause.count() > 0) std::this_thread::sleep_for(pause);
    image_out[0] = static_cast<float>(index);
    image_out[1] = -static_cast<float>(index);
    label_out = index == mislabelled ? 10 : index % 10;
  }

  std::atomic<int64_t> faulty = -1, mislabelled = -1;
  mutable std::atomic<int64_t> reads = 0;
  std::chrono::microseconds pause{0};

 private:
  int64_t size_;
  ExampleSpec spec_;
};

/// The examples' indices in the next `batches` batches; -1 is the end of an epoch.
std::vector<std::vector<int>> take(DataLoader& loader, int batches) {
  std::vector<std::vector<int>> result;
  for (int i = 0; i < batches; ++i) {
    std::vector<int> indices;
    if (const auto batch = loader.next()) {
      const auto inputs = batch->inputs.as<float>();
      const auto labels = batch->labels.as<int64_t>();
      EXPECT_EQ(batch->inputs.shape, (Shape{batch->labels.shape[0], 1, 1, 2}));
      for (size_t j = 0; j < labels.size(); ++j) {
        indices.push_back(static_cast<int>(inputs[2 * j]));
        EXPECT_EQ(inputs[2 * j + 1], -inputs[2 * j]);
        EXPECT_EQ(labels[j], indices.back() % 10);
      }
    } else {
      indices.push_back(-1);
    }
    result.push_back(indices);
  }
  return result;
}

TEST(DataLoader, GoesThroughTheDataset) {
  DataLoader loader(std::make_shared<Numbers>(5), {.batch_size = 2});
  EXPECT_EQ(loader.batches(), 3);
  EXPECT_EQ(take(loader, 5), (std::vector<std::vector<int>>{{0, 1}, {2, 3}, {4}, {-1}, {0, 1}}));
  EXPECT_EQ(loader.state(), (LoaderState{1, 1}));
}

TEST(DataLoader, DropsTheLastBatch) {
  DataLoader loader(std::make_shared<Numbers>(5), {.batch_size = 2, .drop_last = true});
  EXPECT_EQ(take(loader, 4), (std::vector<std::vector<int>>{{0, 1}, {2, 3}, {-1}, {0, 1}}));
}

TEST(DataLoader, ShufflesEachEpochAnew) {
  DataLoader loader(std::make_shared<Numbers>(100), {.batch_size = 100, .shuffle = true, .seed = 3});
  const auto epochs = take(loader, 3);
  EXPECT_NE(epochs[0], epochs[2]);
  for (const auto& epoch : {epochs[0], epochs[2]})
    EXPECT_EQ(std::set<int>(epoch.begin(), epoch.end()).size(), 100);
}

TEST(DataLoader, WorkersDoNotChangeTheNumbers) {
  const auto dataset = std::make_shared<Numbers>(103);
  LoaderOptions options{.batch_size = 7, .shuffle = true, .seed = 5};
  DataLoader alone(dataset, options);
  const auto expected = take(alone, 50);
  for (const int workers : {1, 2, 3, 8, 32})
    for (const int prefetch : {1, 2, 5, 40}) {
      options.workers = workers;
      options.prefetch = prefetch;
      DataLoader loader(dataset, options);
      EXPECT_EQ(take(loader, 50), expected) << workers << " workers, prefetch " << prefetch;
    }
}

TEST(DataLoader, ResumesAtTheVeryBatch) {
  const auto dataset = std::make_shared<Numbers>(20);
  for (const int workers : {0, 3}) {
    const LoaderOptions options{.batch_size = 3, .shuffle = true, .seed = 1, .workers = workers};
    DataLoader whole(dataset, options);
    const auto expected = take(whole, 30);
    for (int cut = 0; cut < 20; ++cut) {
      DataLoader killed(dataset, options), resumed(dataset, options);
      take(killed, cut);
      resumed.restore(killed.state());
      EXPECT_EQ(take(resumed, 10), (std::vector(expected.begin() + cut, expected.begin() + cut + 10))) << cut;
    }
    whole.restore({});  // back to the start, while workers are running
    EXPECT_EQ(take(whole, 30), expected);
  }
}

TEST(DataLoader, PrefetchIsBounded) {
  const auto dataset = std::make_shared<Numbers>(1000);
  DataLoader loader(dataset, {.batch_size = 10, .workers = 4, .prefetch = 3});
  take(loader, 2);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_LE(dataset->reads, (2 + 3) * 10);
}

TEST(DataLoader, ExceptionsReachTheCallerInOrder) {
  for (const int workers : {0, 1, 4}) {
    const auto dataset = std::make_shared<Numbers>(20);
    dataset->faulty = 9;
    DataLoader loader(dataset, {.batch_size = 2, .workers = workers});
    EXPECT_EQ(take(loader, 4).back(), (std::vector<int>{6, 7}));
    EXPECT_THROW(loader.next(), std::runtime_error);
    EXPECT_THROW(loader.next(), std::runtime_error);
    EXPECT_EQ(loader.state(), (LoaderState{0, 4}));
    dataset->faulty = -1;
    EXPECT_EQ(take(loader, 1).back(), (std::vector<int>{8, 9})) << "tried again";
  }
}

TEST(DataLoader, LabelsOutOfRangeAreErrors) {
  for (const int workers : {0, 2}) {
    const auto dataset = std::make_shared<Numbers>(20);
    dataset->mislabelled = 1;
    DataLoader loader(dataset, {.batch_size = 2, .workers = workers});
    expect_error(ErrorCode::value, {"label 10 of example 1", "10 classes"}, [&] { loader.next(); });
  }
}

TEST(DataLoader, CanBeDestroyedAtAnyTime) {
  const auto dataset = std::make_shared<Numbers>(1000);
  dataset->pause = std::chrono::microseconds(100);
  for (int batches = 0; batches < 8; ++batches) {
    DataLoader loader(dataset, {.batch_size = 4, .shuffle = true, .workers = 4, .prefetch = 8});
    take(loader, batches);
  }
}

TEST(DataLoader, RefusesImpossibleOptions) {
  const auto dataset = std::make_shared<Numbers>(5);
  const auto make = [](std::shared_ptr<const Dataset> from, const LoaderOptions& options) {
    return [=] { DataLoader(from, options); };
  };
  expect_error(ErrorCode::value, {"batch_size is 0"}, make(dataset, {.batch_size = 0}));
  expect_error(ErrorCode::value, {"workers is -1"}, make(dataset, {.workers = -1}));
  expect_error(ErrorCode::value, {"prefetch is 0"}, make(dataset, {.prefetch = 0}));
  expect_error(ErrorCode::value, {"is empty"}, make(std::make_shared<Numbers>(0), {}));
  expect_error(ErrorCode::value, {"no batch of 6", "5 examples", "drop_last"},
               make(dataset, {.batch_size = 6, .drop_last = true}));
  DataLoader loader(dataset, {.batch_size = 2});
  for (const LoaderState& state :
       {LoaderState{-1, 0}, LoaderState{0, -1}, LoaderState{0, 4}, LoaderState{INT64_MAX, 0}})
    expect_error(ErrorCode::value, {"does not exist"}, [&] { loader.restore(state); });
}

}  // namespace
}  // namespace athanor
