#include "athanor/kernels/queue.h"

#include <fmt/format.h>

#include "athanor/base/error.h"
#include "athanor/kernels/kernel.h"

namespace athanor {

void Queue::check_copy(const Binding& to, const Binding& from) const {
  if (to.storage->device() != device_ && from.storage->device() != device_)
    throw Error(ErrorCode::internal,
                fmt::format("{} was told to copy from {} to {}", to_string(device_),
                            to_string(from.storage->device()), to_string(to.storage->device())));
}

void Queue::write_across(const Binding& to, const void* from, size_t bytes) {
  to.storage->write(from, static_cast<size_t>(to.offset), bytes);
  queue_of(to.storage->device()).wait(to.storage->ready());
}

}  // namespace athanor
