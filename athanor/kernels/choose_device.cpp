#include "athanor/kernels/choose_device.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "athanor/base/error.h"
#include "athanor/device/groups.h"
#include "athanor/device/machine.h"
#include "athanor/device/unused.h"
#include "athanor/graph/find_primitive.h"
#include "athanor/kernels/cache.h"
#include "athanor/kernels/kernel.h"
#include "athanor/kernels/timing.h"
#include "athanor/kernels/trust.h"
#include "athanor/kernels/waiting.h"

namespace athanor {
namespace {

constexpr int64_t extent = 512;

// A new comparison is repeated this often if times are this close, or if it was disturbed.
constexpr double close_times = 1.25;
constexpr int repetitions = 2;

Measured time_product(const DeviceInfo& info) {
  const Shape shape{1, extent, extent};
  const OperandDesc operand{DType::f32, shape, {}, contiguous_strides(shape)};
  return measure(info.device, {.op = &find_primitive(Prim::batch_matmul),
                               .attrs = {},
                               .inputs = {operand, operand},
                               .outputs = {operand},
                               .epilogue = {}});
}

// The host's processor, listed a second time. Its products may be as fast there, but a whole training step
// takes 1.4 times as long (docs/performance.md).
bool is_cpu_again(const DeviceInfo& info) { return info.kind == "cpu" && info.device != Device{}; }

std::string speed_key(const DeviceInfo& info) { return environment_key(info) + "|speed"; }

// The time of an earlier comparison that was not disturbed; 0 if there is none.
double remembered_seconds(const DeviceInfo& info) {
  const auto known = KernelCache::instance().find_winner(speed_key(info));
  return known && known->disturbed == 0 ? known->seconds : 0;
}

// A device and its time, remembered or measured now.
class Side {
 public:
  Side(const DeviceInfo& info, const TimeProduct& time) : info_(info), time_(&time), key_(speed_key(info)) {
    try {
      require_examined(info.device);
    } catch (const Error& error) {
      failure_ = error.problem();
      return;
    }
    if (const auto known = KernelCache::instance().find_winner(key_); known && known->seconds > 0)
      result_ = *known;
    if (result_.seconds <= 0 || (result_.disturbed > 0 && result_.disturbed < most_disturbed)) run();
  }

  const DeviceInfo& info() const { return info_; }
  bool failed() const { return !failure_.empty(); }
  const std::string& failure() const { return failure_; }
  bool timed() const { return runs_ > 0; }
  bool disturbed() const { return runs_ > 0 && undisturbed_ == 0; }
  double seconds() const { return result_.seconds; }

  void run() {
    tell_wait("comparing devices", to_string(info_.device));
    try {
      const Measured now = (*time_)(info_);
      ++runs_;
      undisturbed_ += !now.disturbed;
      // Other work can only make a time longer.
      if (result_.seconds > 0 && result_.seconds < now.seconds) return;
      result_.name = now.winner;
      result_.seconds = now.seconds;
      result_.spread = now.spread;
    } catch (const Error& error) {
      failure_ = error.problem();
    }
  }

  void store() {
    if (failed() || runs_ == 0) return;
    result_.disturbed = undisturbed_ > 0 ? 0 : result_.disturbed + 1;
    KernelCache::instance().store_winner(key_, result_);
  }

  std::string speed() const {
    return fmt::format("{} {:.0f} GFLOP/s", to_string(info_.device),
                       2.0 * extent * extent * extent / result_.seconds * 1e-9);
  }

 private:
  DeviceInfo info_;
  const TimeProduct* time_;
  std::string key_, failure_;
  KernelCache::Winner result_;
  int runs_ = 0, undisturbed_ = 0;  // of this process
};

void repeat_where_doubtful(std::vector<Side>& sides) {
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    double best = std::numeric_limits<double>::infinity();
    for (const Side& side : sides)
      if (!side.failed()) best = std::min(best, side.seconds());
    const auto near = [&](const Side& side) {
      return !side.failed() && side.seconds() <= close_times * best;
    };
    const bool new_and_close =
        std::ranges::count_if(sides, near) > 1 &&
        std::ranges::any_of(sides, [&](const Side& s) { return near(s) && s.timed(); });
    for (Side& side : sides)
      if (!side.failed() && (side.disturbed() || (new_and_close && near(side)))) side.run();
  }
}

// A card as several backends list it, the preferred one first: CUDA and HIP are the vendor's own interface to
// a card that OpenCL reaches too.
using Card = std::vector<DeviceInfo>;

std::vector<Card> cards_among(const std::vector<DeviceInfo>& devices) {
  const std::vector<size_t> numbers = cards_of(devices);
  std::vector<Card> cards;
  std::map<size_t, size_t> places;
  for (size_t i = 0; i < devices.size(); ++i) {
    const auto [place, fresh] = places.emplace(numbers[i], cards.size());
    if (fresh) cards.emplace_back();
    cards[place->second].push_back(devices[i]);
  }
  for (Card& card : cards)
    std::ranges::stable_sort(card, {},
                             [](const DeviceInfo& info) { return !provider_of(info.device).is_native(); });
  return cards;
}

// The device that is used of a card that several backends reach: the first that works, unless another is
// known to be faster. The others are not timed, because each takes as long again.
Side side_of(const Card& card, const TimeProduct& time, std::vector<std::string>& others) {
  std::optional<Side> best;
  std::vector<const DeviceInfo*> untried;
  for (const DeviceInfo& info : card) {
    if (best && !best->failed()) {
      const double known = remembered_seconds(info);
      if (known <= 0 || best->seconds() <= 0 || known * close_times >= best->seconds()) {
        untried.push_back(&info);
        continue;
      }
      others.push_back(fmt::format("{} is slower on the same card", to_string(best->info().device)));
    } else if (best) {
      others.push_back(fmt::format("{} is left out: {}", to_string(best->info().device), best->failure()));
    }
    best.emplace(info, time);
  }
  for (const DeviceInfo* info : untried)
    others.push_back(
        fmt::format("{} is the same card as {}", to_string(info->device), to_string(best->info().device)));
  return std::move(*best);
}

}  // namespace

DeviceChoice choose_among(const std::vector<DeviceInfo>& devices, const TimeProduct& time) {
  std::vector<DeviceInfo> compared;
  std::ranges::copy_if(devices, std::back_inserter(compared),
                       [](const auto& info) { return !is_cpu_again(info); });
  if (compared.empty()) compared = devices;
  std::vector<std::string> others;
  const auto and_others = [&] { return others.empty() ? "" : fmt::format("; {}", fmt::join(others, "; ")); };
  for (const DeviceInfo& info : devices)
    if (is_cpu_again(info) && compared.size() < devices.size())
      others.push_back(to_string(info.device) + " is the same processor");
  if (compared.size() == 1) return {compared.front().device, "the only device here" + and_others()};

  std::vector<Side> sides;
  for (const Card& card : cards_among(compared)) sides.push_back(side_of(card, time, others));
  if (sides.size() == 1 && !sides.front().failed()) {
    sides.front().store();
    return {sides.front().info().device, "the only device here" + and_others()};
  }
  repeat_where_doubtful(sides);
  const Side* best = nullptr;
  for (Side& side : sides) {
    side.store();
    if (!side.failed() && (best == nullptr || side.seconds() < best->seconds())) best = &side;
  }
  for (const Side& side : sides)
    if (side.failed())
      others.push_back(fmt::format("{} is left out: {}", to_string(side.info().device), side.failure()));
    else if (&side != best)
      others.insert(others.begin(), side.speed() + (side.disturbed() ? " (the machine was busy)" : ""));
  if (best == nullptr)
    throw Error(ErrorCode::device, fmt::format("no device here can be used: {}", fmt::join(others, "; ")));
  return {best->info().device,
          "the fastest here, by a product of matrices: " + best->speed() +
              (best->disturbed() ? " (the machine was busy: compared again the next time)" : "") +
              and_others()};
}

DeviceChoice choose_device(const std::string& name) {
  if (name != "auto" && name != "gpu") return {parse_device(name), "asked for"};
  return choose_device(name, Machine(), list_devices(), time_product);
}

DeviceChoice choose_device(const std::string& name, const Machine& machine, std::vector<DeviceInfo> devices,
                           const TimeProduct& time) {
  const std::string unused = unused_gpus(machine, devices);
  if (name == "gpu") {
    std::erase_if(devices, [](const DeviceInfo& info) { return info.kind != "gpu"; });
    if (devices.empty())
      throw Error(ErrorCode::device, "no device here is a GPU" + (unused.empty() ? "" : ": " + unused), {},
                  "'athanor detect' lists the devices, and why a GPU cannot be used");
  }
  DeviceChoice choice = choose_among(devices, time);
  if (!unused.empty()) choice.why += "; " + unused;
  return choice;
}

}  // namespace athanor
