#include "athanor/kernels/trial_results.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <thread>
#include <type_traits>

#include "athanor/base/in_threads.h"
#include "athanor/kernels/row_pitch.h"

namespace athanor {
namespace {

struct Distance {
  double largest = 0, difference = 0;
  bool unlike = false;  // one is not finite, and the other differs
};

template <class T>
double number_of(T value) {
  if constexpr (is_narrow_float(dtype_of<T>))
    return static_cast<double>(static_cast<float>(value));
  else
    return static_cast<double>(value);
}

template <class T>
Distance distance_of(std::span<const T> a, std::span<const T> b) {
  Distance distance;
  for (size_t i = 0; i < a.size(); ++i) {
    const double x = number_of(a[i]), y = number_of(b[i]);
    if (!std::isfinite(x) && (std::isnan(x) ? std::isnan(y) : x == y)) continue;
    distance.unlike |= !std::isfinite(x) || !std::isfinite(y);
    distance.largest = std::max(distance.largest, std::abs(x));
    distance.difference = std::max(distance.difference, std::abs(x - y));
  }
  return distance;
}

float float_of(float value) { return value; }
float float_of(bf16 value) { return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16); }

// The same for finite numbers, many at once: without their sign, the bits of floats are in the order of the
// floats, and infinity and NaN come last. {} if there are such.
template <class T>
std::optional<Distance> distance_of_finite(std::span<const T> a, std::span<const T> b) {
  constexpr uint32_t magnitude = 0x7fff'ffff, infinity = 0x7f80'0000;
  uint32_t largest = 0, largest_b = 0, difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const float x = float_of(a[i]), y = float_of(b[i]);
    largest = std::max(largest, std::bit_cast<uint32_t>(x) & magnitude);
    largest_b = std::max(largest_b, std::bit_cast<uint32_t>(y) & magnitude);
    difference = std::max(difference, std::bit_cast<uint32_t>(x - y) & magnitude);
  }
  if (std::max({largest, largest_b, difference}) >= infinity) return {};
  return Distance{std::bit_cast<float>(largest), std::bit_cast<float>(difference)};
}

template <class T>
Distance distance_of_part(std::span<const T> a, std::span<const T> b) {
  if constexpr (dtype_of<T> == DType::f32 || dtype_of<T> == DType::bf16)
    if (const auto quick = distance_of_finite(a, b)) return *quick;
  return distance_of(a, b);
}

Distance distance_of(const HostArray& a, const HostArray& b) {
  constexpr size_t of_a_thread = size_t{1} << 20, most_threads = 8;  // more threads would wait for memory
  return visit_dtype(a.dtype, [&](auto tag) {
    using T = decltype(tag);
    using Stored = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;  // a wrong bool may be any byte
    const auto x = a.as<Stored>(), y = b.as<Stored>();
    const size_t count =
        std::clamp<size_t>(x.size() / of_a_thread, 1,
                           std::min<size_t>(most_threads, std::max(1U, std::thread::hardware_concurrency())));
    std::vector<Distance> parts(count);
    in_threads(count, count, [&](size_t i) {
      const size_t from = x.size() * i / count, to = x.size() * (i + 1) / count;
      parts[i] = distance_of_part(x.subspan(from, to - from), y.subspan(from, to - from));
    });
    Distance all;
    for (const Distance& part : parts) {
      all.largest = std::max(all.largest, part.largest);
      all.difference = std::max(all.difference, part.difference);
      all.unlike |= part.unlike;
    }
    return all;
  });
}

// An output's memory without the elements between its rows, which mean nothing, from element `first` on.
void clear_gaps(const OperandDesc& output, int64_t first, std::span<std::byte> memory) {
  const auto [row, pitch] = rows_of(output);
  const int64_t size = static_cast<int64_t>(size_of(output.dtype)), end = std::ssize(memory) / size;
  for (int64_t gap = first / pitch * pitch + row - first; gap < end; gap += pitch) {
    const int64_t from = std::max<int64_t>(gap, 0), to = std::min(gap + pitch - row, end);
    if (to > from) std::memset(memory.data() + from * size, 0, static_cast<size_t>((to - from) * size));
  }
}

}  // namespace

HostArray compared(const OperandDesc& output, const std::function<void(size_t, std::span<std::byte>)>& read) {
  constexpr int64_t parts = 3, of_a_part = int64_t{1} << 20;  // elements: a few milliseconds
  const bool gaps = has_gaps(output);
  const int64_t all = gaps ? output.reach() : output.shape.size(),
                size = static_cast<int64_t>(size_of(output.dtype));
  const auto read_part = [&](int64_t first, std::span<std::byte> to) {
    read(static_cast<size_t>(first * size), to);
    if (gaps) clear_gaps(output, first, to);
  };
  if (all <= parts * of_a_part) {
    HostArray whole(output.dtype, gaps ? Shape{all} : output.shape);
    read_part(0, whole.bytes);
    return whole;
  }
  HostArray some(output.dtype, {parts * of_a_part});
  for (int64_t i = 0; i < parts; ++i)
    read_part(i * (all - of_a_part) / (parts - 1),
              std::span(some.bytes)
                  .subspan(static_cast<size_t>(i * of_a_part * size), static_cast<size_t>(of_a_part * size)));
  return some;
}

bool agree(const TrialResults& a, const TrialResults& b, const KernelRequest& request) {
  // Terms of a sum may cancel: then the sum is small beside the errors of its terms.
  constexpr double of_sums = 16;
  for (size_t i = 0; i < request.outputs.size(); ++i) {
    const OperandDesc& output = request.outputs[i];
    double allowed = request.rounding() * (output.shape.size() < request.output().shape.size() ? of_sums : 1);
    // What an epilogue computes of sums in another type, exact ones of integers among them.
    if (output.dtype != request.output().dtype && is_float(output.dtype))
      allowed += of_sums * of_sums * epsilon(DType::f32) + 2 * epsilon(output.dtype);
    const Distance distance = distance_of(a[i], b[i]);
    if (distance.unlike || distance.difference > allowed * distance.largest + 1e-12) return false;
  }
  return true;
}

}  // namespace athanor
