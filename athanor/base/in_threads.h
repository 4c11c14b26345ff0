// Work that is done in several threads and waited for.
#pragma once
#include <cstddef>
#include <functional>

namespace athanor {

/// Calls work(0), ..., work(count - 1), each once and in this order, in `threads` threads, of which the
/// caller's is one (never more threads than calls). All calls are made, also after one has failed; then it
/// throws what the first that failed threw.
void in_threads(size_t count, size_t threads, const std::function<void(size_t)>& work);

}  // namespace athanor
