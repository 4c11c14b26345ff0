// Problems that are alike: the fastest kernel of one is a good choice for the other.
#pragma once
#include <cstddef>
#include <string>

#include "athanor/kernels/kernel.h"

namespace athanor {

/// The least that a request needs: arithmetic, and memory traffic if each operand is moved once.
struct Work {
  double flops = 0, bytes = 0;
  /// For comparing the problems of a bucket.
  double amount() const { return flops > 0 ? flops : bytes; }
};
Work work_of(const KernelRequest& request);

/// The name that alike requests have in common. Op, attributes, dtypes, layouts and the order of the axes in
/// memory are equal. Extents lie in the same range: 9 to 16, 17 to 32, and so on; up to 8 they are equal.
std::string bucket_of(const KernelRequest& request);

/// A problem that has not been timed yet.
struct Prospect {
  double seconds = 0;        // of a run, estimated from an alike problem
  double least_seconds = 0;  // of a run, by the roofline; 0: not known
  size_t candidates = 0;
  size_t alike = 0;       // problems of its bucket that were timed
  bool compiles = false;  // candidates must be compiled first
};
/// Whether timing the candidates saves more time than it costs. The kernel of an alike problem is nearly as
/// fast, so timing saves a few percent of each run, for as many runs as a short training has. It must save
/// more if many problems of the bucket were timed already: then the shape keeps changing. If nothing alike
/// was timed, all problems except the smallest are timed.
bool worth_timing(const Prospect& problem);

}  // namespace athanor
