#include "athanor/data/batches.h"

#include <fmt/format.h>

#include "athanor/base/error.h"

namespace athanor {

void check_position(const LoaderState& state, int64_t batches_in_epoch) {
  if (state.epoch >= 0 && state.epoch <= INT64_MAX / batches_in_epoch - 1 && state.next_batch >= 0 &&
      state.next_batch <= batches_in_epoch)
    return;
  throw Error(ErrorCode::value,
              fmt::format("batch {} of epoch {} does not exist: an epoch has {} batches", state.next_batch,
                          state.epoch, batches_in_epoch),
              {}, "The checkpoint is from another dataset or batch size");
}

}  // namespace athanor
