// Runs work in several threads and waits for it.
#pragma once
#include <cstddef>
#include <functional>

namespace athanor {

/// Calls work(0), ..., work(count - 1), each once, started in this order, in `threads` threads including the
/// caller's (never more threads than calls). If a call fails, the others are still made; then the exception
/// of the first failed call is thrown.
void in_threads(size_t count, size_t threads, const std::function<void(size_t)>& work);
/// The same. `around` is called once in each thread, with a function that makes the thread's calls. It gives
/// the thread what it needs while it works.
void in_threads(size_t count, size_t threads, const std::function<void(size_t)>& work,
                const std::function<void(const std::function<void()>& calls)>& around);

}  // namespace athanor
