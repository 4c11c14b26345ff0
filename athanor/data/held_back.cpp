#include "athanor/data/held_back.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "athanor/base/error.h"
#include "athanor/data/shuffle.h"

namespace athanor {
namespace {

class ChosenExamples final : public Dataset {
 public:
  ChosenExamples(std::shared_ptr<const Dataset> whole, std::vector<int64_t> chosen)
      : whole_(std::move(whole)), chosen_(std::move(chosen)) {}
  int64_t size() const override { return static_cast<int64_t>(chosen_.size()); }
  const ExampleSpec& spec() const override { return whole_->spec(); }
  void read(int64_t index, float* image_out, int64_t& label_out) const override {
    whole_->read(at(index), image_out, label_out);
  }
  HostArray picture(int64_t index, int64_t& label_out) const override {
    return whole_->picture(at(index), label_out);
  }
  PictureAndMask picture_and_mask(int64_t index) const override {
    return whole_->picture_and_mask(at(index));
  }
  void numbers(int64_t index, float* out) const override { whole_->numbers(at(index), out); }
  int64_t label(int64_t index) const override { return whole_->label(at(index)); }
  std::vector<std::string> broken() const override { return whole_->broken(); }

 private:
  int64_t at(int64_t index) const { return chosen_[static_cast<size_t>(index)]; }
  std::shared_ptr<const Dataset> whole_;
  std::vector<int64_t> chosen_;
};

}  // namespace

std::pair<std::shared_ptr<const Dataset>, std::shared_ptr<const Dataset>> held_back(
    const std::shared_ptr<const Dataset>& whole, double share, uint64_t seed) {
  constexpr uint64_t no_epoch = UINT64_MAX;  // an order that no epoch has
  std::vector<int64_t> order = shuffled_order(whole->size(), seed, no_epoch);
  const auto count = std::max<int64_t>(1, std::llround(share * static_cast<double>(whole->size())));
  if (count >= whole->size())
    throw Error(ErrorCode::value,
                fmt::format("of {} examples, holding {} back leaves none to train on", whole->size(), count),
                "--validation", "Hold back less");
  const auto middle = order.end() - count;
  std::vector<int64_t> left(order.begin(), middle), back(middle, order.end());
  std::ranges::sort(left);
  std::ranges::sort(back);
  return {std::make_shared<ChosenExamples>(whole, std::move(left)),
          std::make_shared<ChosenExamples>(whole, std::move(back))};
}

}  // namespace athanor
