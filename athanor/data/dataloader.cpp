#include "athanor/data/dataloader.h"

#include <fmt/format.h>

#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "athanor/base/memory_hint.h"
#include "athanor/data/batch_plan.h"

namespace athanor {
namespace {

/// Threads that make the batches of a plan, starting from a given one, at most `ahead` of the batch that was
/// taken last.
///
/// Batches are numbered across epochs. A worker takes the next number, makes its batch and puts it into slot
/// number % ahead. take() waits for the slot of the next batch. So the order is fixed and memory is limited.
class Prefetcher {
 public:
  Prefetcher(const BatchPlan& plan, int64_t first, int workers, int ahead)
      : plan_(plan), slots_(static_cast<size_t>(ahead)), taken_(first), started_(first) {
    try {
      for (int i = 0; i < workers; ++i) threads_.emplace_back([this] { work(); });
    } catch (const std::system_error&) {
      stop();
      throw no_thread_error(fmt::format("worker thread {} of {}", threads_.size() + 1, workers));
    }
  }
  ~Prefetcher() { stop(); }
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  Batch take() {
    std::unique_lock lock(mutex_);
    Slot& slot = slot_of(taken_);
    made_.wait(lock, [&] { return slot.batch || slot.error; });
    if (slot.error) std::rethrow_exception(slot.error);
    Batch batch = std::move(*slot.batch);
    slot.batch.reset();
    ++taken_;
    room_.notify_one();
    return batch;
  }

 private:
  struct Slot {
    std::optional<Batch> batch;
    std::exception_ptr error;
  };

  Slot& slot_of(int64_t number) { return slots_[static_cast<size_t>(number) % slots_.size()]; }

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      room_.wait(lock, [&] { return stopping_ || started_ < taken_ + static_cast<int64_t>(slots_.size()); });
      if (stopping_) return;
      const int64_t number = started_++;
      lock.unlock();
      Slot result = make(number);
      lock.lock();
      slot_of(number) = std::move(result);
      made_.notify_one();
    }
  }

  Slot make(int64_t number) const {
    try {
      return {plan_.make(number / plan_.batches(), number % plan_.batches()), nullptr};
    } catch (...) {
      return {std::nullopt, std::current_exception()};
    }
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    room_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  const BatchPlan& plan_;
  std::mutex mutex_;
  std::condition_variable made_, room_;
  std::vector<Slot> slots_;
  int64_t taken_, started_;  // the next batch to take, the next one to start
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

class DataLoader::Impl {
 public:
  Impl(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options)
      : plan_(std::move(dataset), options), workers_(options.workers), prefetch_(options.prefetch) {}

  const BatchPlan& plan() const { return plan_; }
  const LoaderState& state() const { return state_; }

  std::optional<Batch> next() {
    if (state_.next_batch == plan_.batches()) {
      state_ = {state_.epoch + 1, 0};
      return std::nullopt;
    }
    Batch batch = workers_ == 0 ? plan_.make(state_.epoch, state_.next_batch) : take();
    ++state_.next_batch;
    return batch;
  }

  void restore(const LoaderState& state) {
    check_position(state, plan_.batches());
    prefetcher_.reset();
    state_ = state;
  }

 private:
  Batch take() {
    if (!prefetcher_)
      prefetcher_ = std::make_unique<Prefetcher>(plan_, state_.epoch * plan_.batches() + state_.next_batch,
                                                 workers_, prefetch_);
    try {
      return prefetcher_->take();
    } catch (...) {
      prefetcher_.reset();  // the next call starts again at this batch
      throw;
    }
  }

  BatchPlan plan_;
  int workers_, prefetch_;
  LoaderState state_;
  std::unique_ptr<Prefetcher> prefetcher_;  // last, so that it stops before the plan is destroyed
};

DataLoader::DataLoader(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options)
    : impl_(std::make_unique<Impl>(std::move(dataset), options)) {}
DataLoader::~DataLoader() = default;
DataLoader::DataLoader(DataLoader&&) noexcept = default;
DataLoader& DataLoader::operator=(DataLoader&&) noexcept = default;

std::optional<Batch> DataLoader::next() { return impl_->next(); }
int64_t DataLoader::batches() const { return impl_->plan().batches(); }
const Dataset& DataLoader::dataset() const { return impl_->plan().dataset(); }
LoaderState DataLoader::state() const { return impl_->state(); }
void DataLoader::restore(const LoaderState& state) { impl_->restore(state); }

}  // namespace athanor
