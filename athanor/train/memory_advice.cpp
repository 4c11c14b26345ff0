#include "athanor/train/memory_advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <string>

#include "athanor/base/memory_hint.h"
#include "athanor/base/text.h"
#include "athanor/kernels/kernel.h"
#include "athanor/memory/storage.h"

namespace athanor {
namespace {
// What compiling a plan may take. Libraries that get no memory for their kernels crash.
constexpr uint64_t compiling = uint64_t{64} << 20;
}  // namespace

Error with_memory_advice(const Error& error, Device device, int64_t batch_size,
                         const std::function<int64_t(int64_t batch_size)>& planned) {
  const uint64_t all = info_of(device).memory_bytes, used = memory_use(device).current;
  const auto said = backend_of(device).free_memory(device.index);
  const uint64_t free = said ? *said : all > used ? all - used : 0, reachable = used + free;
  std::string problem = error.problem(), hint = error.hint();
  if (const auto host = backend_of(Device{}).free_memory(0); host && *host < compiling) return error;
  try {
    const auto needed = static_cast<double>(planned(batch_size));
    // The memory of a plan is affine in the batch size, except for kernels' scratch memory.
    const int64_t fewer = batch_size / 2;
    const double slope =
        fewer == 0 ? needed
                   : (needed - static_cast<double>(planned(fewer))) / static_cast<double>(batch_size - fewer);
    const double fixed = needed - slope * static_cast<double>(batch_size);
    // If a device refuses memory although it reports enough, only what is now in use can be counted on.
    const auto room = static_cast<double>(needed < static_cast<double>(reachable) ? used : reachable);
    problem +=
        fmt::format(". A step of batch {} is planned to need {}; {} of {} are free", batch_size,
                    format_bytes(static_cast<uint64_t>(needed)), format_bytes(free), format_bytes(all));
    const auto batch =  // the pool rounds up
        std::min<int64_t>(slope > 0 ? static_cast<int64_t>((0.9 * room - fixed) / slope) : 0, batch_size - 1);
    hint = batch > 0 ? fmt::format("use --batch-size {}, about the largest that fits", batch)
                     : "not even one example fits: use a smaller model";
    hint = memory_hint(hint, device == Device{});
  } catch (const Error&) {
    // If no plan can be made, there is nothing to add.
  } catch (const std::bad_alloc&) {
  }
  return {error.code(), problem, error.where(), hint};
}

Error with_test_advice(const Error& error, const TrainConfig& config) {
  const int64_t part = config.part_size();
  return {error.code(), fmt::format("{}. The test computes batches of {}", error.problem(), part),
          error.where(),
          fmt::format("{}; what was trained is saved, and 'athanor eval' tests it in smaller batches",
                      part > 1 ? fmt::format("Use --accumulate {} in another run", 2 * config.accumulate)
                               : "Use a smaller model")};
}

bool is_low_limit(const Error& error) {
  return error.code() == ErrorCode::usage && error.where() == "--memory-limit";
}

Error with_limit_advice(const Error& error, const TrainConfig& config, bool in_test) {
  if (in_test)
    return {error.code(),
            fmt::format("the test does not fit, in batches of {}: {}", config.part_size(), error.problem()),
            error.where(), error.hint() + " and go on with --resume; the training is saved"};
  std::string hint = error.hint();
  const int64_t more = 2 * config.accumulate;
  if (config.accumulate == 1)
    hint += ", or compute the batch in parts: --accumulate";
  else if (config.batch_size % more == 0)
    hint += fmt::format(", or compute the batch in more parts: --accumulate {}", more);
  return {error.code(), error.problem(), error.where(), hint};
}

}  // namespace athanor
