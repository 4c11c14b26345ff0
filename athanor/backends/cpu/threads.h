// How many threads the CPU's kernels use.
#pragma once

namespace athanor {

/// The number of threads that CPU kernels made from now on use; 0: one for each core that this process may
/// run on. Throws Error(value) when it is negative.
void set_cpu_threads(int threads);
/// The number now in force, at least 1; always 1 where Athanor is built without OpenMP.
int cpu_threads();
/// Makes the OpenMP regions of libraries that the calling thread enters (oneDNN's) use `threads` threads.
void use_openmp_threads(int threads);

}  // namespace athanor
