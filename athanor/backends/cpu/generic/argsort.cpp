// argsort: the stable order of the elements along an axis.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "athanor/backends/cpu/generic/numeric.h"
#include "athanor/backends/cpu/generic/strided.h"
#include "athanor/backends/cpu/kernels.h"
#include "athanor/backends/cpu/parallel.h"

namespace athanor::cpu {
namespace {

// An unsigned number with the value's order: 0 and -0 are equal, NaN is largest.
template <class T>
uint64_t sort_key(T value) {
  constexpr uint64_t sign = uint64_t{1} << 63;
  if constexpr (std::is_same_v<T, bool> || std::is_unsigned_v<T>) {
    return value;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<uint64_t>(static_cast<int64_t>(value)) ^ sign;
  } else {
    const double wide = static_cast<double>(load(value));
    if (std::isnan(wide)) return std::numeric_limits<uint64_t>::max();
    const auto bits = std::bit_cast<uint64_t>(wide + 0.0);  // makes -0 a 0
    return (bits & sign) != 0 ? ~bits : bits | sign;
  }
}

struct Entry {
  uint64_t key;
  int64_t index;
  bool operator<(const Entry& other) const {
    return key != other.key ? key < other.key : index < other.index;
  }
};

template <class T>
void run_argsort(const MergedInput& input, bool descending, const T* from, int64_t* to) {
  const int64_t outer = input.extent(0), n = input.extent(1), inner = input.extent(2);
  parallel_for(outer * inner, outer * inner * n * 8, [&](int64_t begin, int64_t end, int) {
    std::vector<Entry> entries(static_cast<size_t>(n));
    for (int64_t line = begin; line < end; ++line) {
      const int64_t o = line / inner, i = line % inner;
      const T* values = from + o * input.stride(0) + i * input.stride(2);
      for (int64_t p = 0; p < n; ++p) {
        const uint64_t key = sort_key(values[p * input.stride(1)]);
        entries[static_cast<size_t>(p)] = {descending ? ~key : key, p};
      }
      std::sort(entries.begin(), entries.end());
      for (int64_t p = 0; p < n; ++p) to[(o * n + p) * inner + i] = entries[static_cast<size_t>(p)].index;
    }
  });
}

}  // namespace

static Candidate argsort_kernel(const KernelRequest& request) {
  const int axis = normalize_axis(request.attrs.integer("axis"), request.output().shape.rank());
  const bool descending = request.attrs.has("descending") && request.attrs.flag("descending");
  size_t scratch = 0;
  const MergedInput input(request, 0, {axis, axis + 1}, scratch);
  return visit_dtype(request.inputs[0].dtype, [&]<class T>(T) {
    return function_candidate("generic argsort", scratch, [input, descending](Buffers buffers) {
      run_argsort(input, descending, input.resolve<T>(buffers), static_cast<int64_t*>(buffers[1]));
    });
  });
}

namespace {

[[maybe_unused]] const bool argsort_registered =
    register_kernels({.ops = {"argsort"}, .candidates = only<argsort_kernel>, .serves = serves_all});

}  // namespace

}  // namespace athanor::cpu
