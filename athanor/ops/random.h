// Random numbers, counter-based (Philox4x32-10): one seed gives the same stream on every device.
#pragma once
#include <cstdint>
#include <mutex>
#include <source_location>

#include "athanor/graph/tensor.h"

namespace athanor {

/// Gives each draw its own key, made from a seed and the number of earlier draws. Its state is these two
/// numbers. Keys are inputs of plans, so another draw needs no new plan. Safe to use from several threads.
class Generator {
 public:
  struct State {
    uint64_t seed = 0, draws = 0;
    bool operator==(const State&) const = default;
  };

  explicit Generator(uint64_t seed = 0) : state_{seed, 0} {}
  /// Starts the stream of a seed from its beginning.
  void seed(uint64_t value);
  State state() const;
  void restore(const State& state);
  /// The key of the next draw.
  int64_t next_key();

 private:
  mutable std::mutex mutex_;
  State state_;
};

/// The generator that functions use by default.
Generator& default_generator();
/// default_generator().seed(seed)
void manual_seed(uint64_t seed);

// All functions throw Error(value) for an impossible range, deviation or probability, and Error(dtype) for an
// integer dtype if floats are drawn.

/// f32 (or `dtype`) uniform in [low, high). Rounding to the dtype may result in high itself.
Tensor uniform(const Shape& shape, double low = 0, double high = 1, DType dtype = DType::f32,
               Generator& generator = default_generator(), Device device = {},
               std::source_location where = std::source_location::current());
/// Normally distributed (Box, Muller 1958).
Tensor normal(const Shape& shape, double mean = 0, double stddev = 1, DType dtype = DType::f32,
              Generator& generator = default_generator(), Device device = {},
              std::source_location where = std::source_location::current());
/// bool, true with the given probability.
Tensor bernoulli(const Shape& shape, double probability, Generator& generator = default_generator(),
                 Device device = {}, std::source_location where = std::source_location::current());
/// i64 uniform in [low, high), for ranges up to 2^24.
Tensor random_integers(const Shape& shape, int64_t low, int64_t high,
                       Generator& generator = default_generator(), Device device = {},
                       std::source_location where = std::source_location::current());
/// i64[n]: 0 ... n-1 in random order.
Tensor permutation(int64_t n, Generator& generator = default_generator(), Device device = {},
                   std::source_location where = std::source_location::current());
/// In training: each element is zero with `probability`, and the others are divided by (1 - probability)
/// (Srivastava et al. 2014). Otherwise x.
Tensor dropout(Operand x, double probability = 0.5, bool training = true,
               Generator& generator = default_generator());

}  // namespace athanor
