#include "athanor/graph/precision.h"

#include <algorithm>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/base/text.h"

namespace athanor {

static thread_local Precision precision_now = Precision::f32;

const std::vector<std::string>& precision_names() {
  static const std::vector<std::string> names{"f32", "tf32", "bf16", "f16"};
  return names;
}

std::string_view to_string(Precision precision) { return precision_names()[static_cast<size_t>(precision)]; }

DType stored_in(Precision precision) {
  if (precision == Precision::bf16) return DType::bf16;
  return precision == Precision::f16 ? DType::f16 : DType::f32;
}

Precision parse_precision(std::string_view name) {
  const auto& names = precision_names();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    throw Error(ErrorCode::name, "unknown precision '" + std::string(name) + "'", {},
                nearest_hint(name, {names.begin(), names.end()}));
  return static_cast<Precision>(found - names.begin());
}

Autocast::Autocast(Precision precision) : before_(std::exchange(precision_now, precision)) {}
Autocast::~Autocast() { precision_now = before_; }
Precision Autocast::current() { return precision_now; }

}  // namespace athanor
