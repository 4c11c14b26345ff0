#include "athanor/kernels/repeated_numbers.h"

#include <algorithm>
#include <cstring>

#include "athanor/kernels/kernel.h"

namespace athanor {

void fill_repeating(Storage& storage, const HostArray& numbers, size_t bytes) {
  size_t done = std::min(bytes, numbers.bytes.size());
  storage.write(numbers.bytes.data(), 0, done);
  if (done == bytes) return;
  Queue& queue = queue_of(storage.device());
  while (done < bytes) {  // what is filled so far is always a whole number of repetitions
    const size_t more = std::min(done, bytes - done);
    queue.copy({&storage, static_cast<int64_t>(done)}, {&storage, 0}, more);
    done += more;
  }
  queue.finish();
}

void fill_repeating(void* memory, const HostArray& numbers, int64_t first, int64_t last) {
  const auto size = static_cast<int64_t>(size_of(numbers.dtype));
  const int64_t period = numbers.size();
  for (int64_t at = first; at <= last;) {
    const int64_t from = at % period, count = std::min(period - from, last + 1 - at);
    std::memcpy(static_cast<std::byte*>(memory) + at * size, numbers.bytes.data() + from * size,
                static_cast<size_t>(count * size));
    at += count;
  }
}

}  // namespace athanor
