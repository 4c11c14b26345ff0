// The number of the host's threads that compute.
#pragma once

namespace athanor {

/// Sets the number of threads for CPU kernels that are made from now on; 0: one for each core that this
/// process may use. Throws Error(value) if it is negative.
void set_cpu_threads(int threads);
/// The current number, at least 1; always 1 if Athanor is built without OpenMP.
int cpu_threads();

}  // namespace athanor
