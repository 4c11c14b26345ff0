// What an optimizer saves, loads and takes back.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "athanor/base/error.h"
#include "athanor/optim/optimizer.h"

namespace athanor::optim {
namespace {

constexpr const char* step_name = "step";
constexpr const char* rate_name = "lr";
constexpr const char* skipped_steps_name = "skipped";

// In a state, the steps of a parameter that has not had a gradient in all of them.
std::string own_step_name(const nn::Parameter& parameter) { return parameter.name() + "." + step_name; }

}  // namespace

std::vector<std::pair<std::string, Tensor>> Optimizer::named_state() const {
  std::vector<std::pair<std::string, Tensor>> found;
  for (const auto& group : groups_)
    for (const auto& entry : group.entries) {
      const std::string& name = entry.parameter.name();
      if (name.empty() && !entry.state.empty())
        throw Error(ErrorCode::name, "the state of an optimizer was requested, but a parameter has no name",
                    {}, "Register the parameter with a module: add_parameter(name, ...)");
      for (size_t i = 0; i < entry.state.size(); ++i)
        found.emplace_back(name + "." + state_names_[i], entry.state[i]);
    }
  return found;
}

Optimizer::Mark Optimizer::mark() const {
  Mark mark{.lr = lr_};
  for (const Count& count : counts_) {
    mark.counts.push_back({count.steps, {}});
    if (count.skipped.defined()) mark.counts.back().skipped.emplace(count.skipped);
  }
  for (const auto& group : groups_)
    for (const auto& entry : group.entries) {
      mark.count_of.push_back(entry.count);
      for (const auto& tensor : entry.state) mark.state.emplace_back(tensor);
    }
  return mark;
}

bool Optimizer::go_back(const Mark& mark) {
  std::vector<Tensor> values;
  for (const nn::ValueMark& value : mark.state) values.push_back(value.value());
  std::vector<Count> counts;
  bool all = std::ranges::all_of(values, &Tensor::defined);
  for (const Mark::Count& count : mark.counts) {
    counts.push_back({count.steps, count.skipped ? count.skipped->value() : Tensor()});
    all = all && count.skipped.has_value() == counts.back().skipped.defined();
  }
  if (!all) return false;
  counts_ = std::move(counts);
  lr_ = mark.lr;
  size_t next = 0, parameter = 0;
  for (auto& group : groups_)
    for (auto& entry : group.entries) {
      entry.count = mark.count_of[parameter++];
      for (auto& tensor : entry.state) tensor = std::move(values[next++]);
    }
  return true;
}

nn::StateDict Optimizer::state_dict() const {
  nn::StateDict state = nn::to_state_dict(named_state());
  const auto add_steps = [&state](const std::string& name, int64_t steps) {
    state.emplace(name, HostArray::of<int64_t>({}, std::span(&steps, 1)));
  };
  add_steps(step_name, steps());
  state.emplace(rate_name, HostArray::of<double>({}, std::span(&lr_, 1)));
  const Tensor& skipped = counts_.front().skipped;
  if (skipped.defined()) state.emplace(skipped_steps_name, skipped.to_host());
  std::vector<int64_t> made;
  for (const Count& count : counts_)
    made.push_back(count.steps -
                   (count.skipped.defined() ? static_cast<int64_t>(count.skipped.item()) : int64_t{0}));
  for (const auto& group : groups_)
    for (const auto& entry : group.entries)
      if (entry.count != 0 && !entry.parameter.name().empty())
        add_steps(own_step_name(entry.parameter), made[entry.count]);
  return state;
}

void Optimizer::load_state_dict(const nn::StateDict& state) {
  std::vector<std::pair<std::string, TensorType>> wanted{{step_name, {DType::i64, {}, {}}},
                                                         {rate_name, {DType::f64, {}, {}}}};
  for (const auto& [name, tensor] : named_state()) wanted.emplace_back(name, tensor.type());
  const size_t first_count = wanted.size();
  for (const auto& group : groups_)
    for (const auto& entry : group.entries)
      if (const std::string name = own_step_name(entry.parameter); state.contains(name))
        wanted.emplace_back(name, TensorType{DType::i64, {}, {}});
  const Device device = parameters().front().value().device();
  const bool guarded = state.contains(skipped_steps_name);
  if (guarded) wanted.emplace_back(skipped_steps_name, TensorType{DType::i64, {}, device});
  auto values = nn::from_state_dict(state, wanted, "the optimizer");
  const double lr = values[1].item();
  const auto steps = static_cast<int64_t>(values[0].item());
  check_learning_rate(lr);
  const auto skipped = guarded ? static_cast<int64_t>(values.back().item()) : int64_t{0};
  if (!(steps >= skipped && skipped >= 0))
    throw Error(ErrorCode::value,
                fmt::format("an optimizer's state after {} steps, {} of them skipped", steps, skipped));
  std::vector<Count> counts{{steps, guarded ? values.back() : Tensor()}};
  std::map<std::string, size_t> own;   // the counts of parameters that have their own
  std::map<int64_t, size_t> of_steps;  // those counts
  for (size_t i = first_count; i < values.size() - (guarded ? 1 : 0); ++i) {
    const auto made = static_cast<int64_t>(values[i].item());
    if (!(made >= 0 && made <= steps - skipped))
      throw Error(ErrorCode::value,
                  fmt::format("an optimizer's state with {} = {} after {} steps, {} of them skipped",
                              wanted[i].first, made, steps, skipped));
    const auto [place, is_new] = of_steps.try_emplace(made, counts.size());
    if (is_new) counts.push_back({made, guarded ? Tensor::scalar(int64_t{0}, DType::i64, device) : Tensor()});
    own.emplace(wanted[i].first, place->second);
  }
  counts_ = std::move(counts);
  lr_ = lr;
  size_t next = 2;  // in the order of named_state()
  for (auto& group : groups_)
    for (auto& entry : group.entries) {
      const auto count = own.find(own_step_name(entry.parameter));
      entry.count = count == own.end() ? 0 : count->second;
      for (auto& tensor : entry.state) tensor = std::move(values[next++]);
    }
}

}  // namespace athanor::optim
