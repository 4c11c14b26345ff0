#include "athanor/cli/trained_model.h"

#include <utility>

#include "athanor/backends/cpu/threads.h"
#include "athanor/base/error.h"
#include "athanor/compile/options.h"
#include "athanor/kernels/choose_device.h"
#include "athanor/kernels/tuner.h"
#include "athanor/train/run_folder.h"

namespace athanor::cli {

TrainedModel load_trained_model(const std::string& path, const std::string& device, int64_t threads) {
  check_threads(threads);
  const Device chosen = device_option(device);
  const auto file = find_checkpoint(path);
  Checkpoint checkpoint = read_checkpoint(file);
  set_cpu_threads(static_cast<int>(threads > 0 ? threads : checkpoint.threads));
  TuningCache::instance().restore(checkpoint.kernels);
  compile_options().deterministic |= checkpoint.config.deterministic;
  auto model = restore_model(checkpoint, file);
  model->to(chosen).eval();
  return {.path = file,
          .config = std::move(checkpoint.config),
          .data = std::move(checkpoint.data),
          .steps = checkpoint.state.step,
          .device = chosen,
          .model = std::move(model)};
}

void check_threads(int64_t threads) {
  TrainConfig config;
  config.threads = threads;
  config.validate();
}

Device device_option(const std::string& name) {
  try {
    return choose_device(name).device;
  } catch (const Error& error) {
    throw Error(ErrorCode::usage, error.problem(), "--device", error.hint());
  }
}

}  // namespace athanor::cli
