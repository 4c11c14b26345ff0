// OpenMP in libraries.
#pragma once

namespace athanor::cpu {

/// Makes OpenMP regions of libraries (oneDNN) use `threads` threads when the calling thread enters them.
void use_openmp_threads(int threads);

}  // namespace athanor::cpu
