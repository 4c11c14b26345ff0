#include "athanor/ops/random.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "athanor/base/philox.h"
#include "athanor/ops/creation.h"
#include "athanor/ops/define.h"
#include "athanor/ops/elementwise.h"
#include "athanor/ops/indexing.h"
#include "athanor/ops/movement.h"
#include "athanor/ops/reduction.h"

namespace athanor {
namespace {

TensorType infer_uniform(std::span<const TensorType> in, const Attrs& attrs) {
  if (in[0].dtype != DType::i64) throw Error(ErrorCode::dtype, "takes a key and counters of i64");
  return {DType::f32, same_type(Accept::integers)(in, attrs).shape, {}};
}

double uniform_of(int64_t key, int64_t counter) {
  const auto [low, high] = words_of(static_cast<uint64_t>(counter) / 4);
  const auto block = philox4x32({low, high, 0, 0}, words_of(static_cast<uint64_t>(key)));
  return std::ldexp(static_cast<double>(block[static_cast<size_t>(counter % 4)] >> 8), -24);
}

// f32 numbers in [0, 1), of the given shape, from counter `first` on.
Tensor draw(const Tensor& key, int64_t count, int64_t first = 0) {
  static const Op& op = find_op("random_uniform");
  Tensor counter = iota({count}, 0, key.device());
  if (first != 0) counter = counter + first;
  return apply(op, {broadcast_to(key, counter.shape()), counter});
}

Tensor draw(const Tensor& key, const Shape& shape, int64_t first = 0) {
  return reshape(draw(key, shape.size(), first), shape.to_ints());
}

// Compared before it is reshaped, so that the loop that draws the numbers stores bools.
Tensor draw_below(double limit, const Tensor& key, const Shape& shape) {
  return reshape(draw(key, shape.size()) < limit, shape.to_ints());
}

Tensor next_key(Generator& generator, Device device) {
  return Tensor::scalar(generator.next_key(), DType::i64, device);
}

void check(bool fine, const char* name, const std::string& problem, const char* hint,
           std::source_location where) {
  if (!fine) throw Error(ErrorCode::value, fmt::format("{}: {}", name, problem), to_string(where), hint);
}

void check_float(const char* name, DType dtype, std::source_location where) {
  if (!is_float(dtype))
    throw Error(ErrorCode::dtype, fmt::format("{} of {}", name, to_string(dtype)), to_string(where),
                "Ask for floats, or for random_integers()");
}

}  // namespace

ATHANOR_OPS(random) {
  const auto uniform_case = [](const Shape& shape, double key_low, double key_high) {
    return OpCase{{{shape, key_low, key_high, DType::i64}, {shape, 0, 1e6, DType::i64}}};
  };
  define_op(
      {.name = "random_uniform",
       .doc = "f32 in [0, 1) for a key and a counter, both i64: Philox4x32-10, 24 bits of one word",
       .prim = Prim::random_uniform,
       .arity = 2,
       .infer = infer_uniform,
       .reference =
           [](std::span<const RefArray> in, const Attrs&) {
             return map(in[0], in[1], [](double key, double counter) {
               return uniform_of(static_cast<int64_t>(key), static_cast<int64_t>(counter));
             });
           },
       .cases = {uniform_case({17}, -1e15, 1e15), uniform_case({3, 101}, 0, 10), uniform_case({3, 0}, 0, 10)},
       .differentiable = false,
       .flops = [](auto, const TensorType& out, const auto&) { return 100 * out.shape.size(); }});
}

void Generator::seed(uint64_t value) { restore({value, 0}); }

Generator::State Generator::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

void Generator::restore(const State& state) {
  const std::lock_guard lock(mutex_);
  state_ = state;
}

int64_t Generator::next_key() {
  const std::lock_guard lock(mutex_);
  // Philox of (draws, seed), with a counter word that no draw uses. Neighbouring seeds and draws get
  // unrelated keys.
  const auto [draws_low, draws_high] = words_of(state_.draws++);
  const auto block = philox4x32({draws_low, draws_high, 0x4b657973, 0}, words_of(state_.seed));
  return static_cast<int64_t>((static_cast<uint64_t>(block[1]) << 32) | block[0]);
}

Generator& default_generator() {
  static Generator instance;
  return instance;
}

void manual_seed(uint64_t seed) { default_generator().seed(seed); }

Tensor uniform(const Shape& shape, double low, double high, DType dtype, Generator& generator, Device device,
               std::source_location where) {
  const SourceScope scope(where);
  check_float("uniform", dtype, where);
  check(low <= high, "uniform", fmt::format("the range [{}, {}) is empty", low, high), "low comes first",
        where);
  Tensor result = draw(next_key(generator, device), shape);
  if (high - low != 1) result = result * (high - low);
  if (low != 0) result = result + low;
  return cast(result, dtype);
}

Tensor normal(const Shape& shape, double mean, double stddev, DType dtype, Generator& generator,
              Device device, std::source_location where) {
  const SourceScope scope(where);
  check_float("normal", dtype, where);
  check(stddev >= 0, "normal", fmt::format("a standard deviation of {}", stddev), "It is at least 0", where);
  const Tensor key = next_key(generator, device);
  // 1 - u lies in (0, 1], so its logarithm is finite.
  const Tensor radius = sqrt(-2 * log(1 - draw(key, shape)));
  const Tensor angle = 2 * std::numbers::pi * draw(key, shape, shape.size());
  Tensor result = radius * cos(angle);
  if (stddev != 1) result = result * stddev;
  if (mean != 0) result = result + mean;
  return cast(result, dtype);
}

Tensor bernoulli(const Shape& shape, double probability, Generator& generator, Device device,
                 std::source_location where) {
  const SourceScope scope(where);
  check(probability >= 0 && probability <= 1, "bernoulli", fmt::format("a probability of {}", probability),
        "It lies in [0, 1]", where);
  return draw_below(probability, next_key(generator, device), shape);
}

Tensor random_integers(const Shape& shape, int64_t low, int64_t high, Generator& generator, Device device,
                       std::source_location where) {
  const SourceScope scope(where);
  check(low < high && high - low <= (int64_t{1} << 24), "random_integers",
        fmt::format("the range [{}, {})", low, high), "It has 1 to 2^24 integers", where);
  const Tensor scaled = draw(next_key(generator, device), shape) * static_cast<double>(high - low);
  // Rounding in f32 may result in high itself.
  return minimum(cast(scaled, DType::i64) + low, high - 1);
}

Tensor permutation(int64_t n, Generator& generator, Device device, std::source_location where) {
  const SourceScope scope(where);
  check(n >= 0, "permutation", fmt::format("of {}", n), "n is at least 0", where);
  // 48 random bits for each element, so that ties are rare even among millions.
  const Tensor key = next_key(generator, device);
  const auto bits = [&](int64_t first) {
    return cast(draw(key, n, first) * std::ldexp(1.0, 24), DType::i64);
  };
  return argsort(bits(0) * (int64_t{1} << 24) + bits(n), 0);
}

Tensor dropout(Operand x, double probability, bool training, Generator& generator) {
  return in_call(
      "dropout",
      [&] {
        Tensor value = as_tensor(x);
        if (!(probability >= 0 && probability < 1))
          throw Error(ErrorCode::value, fmt::format("a probability of {}", probability), {},
                      "It lies in [0, 1)");
        if (!training || probability == 0) return value;
        check_dtype(value.type(), Accept::floats);
        const Tensor dropped = draw_below(probability, next_key(generator, value.device()), value.shape());
        return where(dropped, constant(0, value.dtype(), value.device()), value * (1 / (1 - probability)));
      },
      x);
}

}  // namespace athanor
