#include "athanor/graph/host_array.h"

#include <cmath>
#include <type_traits>

#include "athanor/graph/whole_number.h"

namespace athanor {

std::vector<double> to_doubles(const HostArray& array) {
  std::vector<double> result(static_cast<size_t>(array.size()));
  visit_dtype(array.dtype, [&](auto tag) {
    using T = decltype(tag);
    const auto values = array.as<T>();
    for (size_t i = 0; i < result.size(); ++i) {
      if constexpr (is_narrow_float(dtype_of<T>)) {
        result[i] = static_cast<double>(static_cast<float>(values[i]));
      } else if constexpr (std::is_same_v<T, bool>) {
        result[i] = std::to_integer<int>(array.bytes[i]);  // a faulty device may have written any byte
      } else {
        result[i] = static_cast<double>(values[i]);
      }
    }
  });
  return result;
}

HostArray from_doubles(DType dtype, const Shape& shape, std::span<const double> values) {
  HostArray array(dtype, shape);
  visit_dtype(dtype, [&](auto tag) {
    using T = decltype(tag);
    const auto out = array.as<T>();
    for (size_t i = 0; i < out.size(); ++i) {
      if constexpr (std::is_same_v<T, bool>) {
        out[i] = values[i] != 0;
      } else if constexpr (std::is_integral_v<T>) {
        out[i] = static_cast<T>(whole_number(values[i]));
      } else if constexpr (std::is_same_v<T, double>) {
        out[i] = values[i];
      } else {
        out[i] = static_cast<T>(static_cast<float>(values[i]));
      }
    }
  });
  return array;
}

}  // namespace athanor
