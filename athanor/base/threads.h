// The number of the host's threads that compute.
#pragma once

namespace athanor {

/// Sets the number of threads for CPU kernels that are made from now on; 0: one for each core that this
/// process may use. `part_time` further threads help with loops on cores that other programs use
/// (backends/cpu/part_time.h). Throws Error(value) if a number is negative.
void set_cpu_threads(int threads, int part_time = 0);
/// The current number, at least 1; always 1 if Athanor is built without OpenMP.
int cpu_threads();
int part_time_threads();
/// Both together: loops are divided among at most so many threads.
int cpu_workers();

}  // namespace athanor
