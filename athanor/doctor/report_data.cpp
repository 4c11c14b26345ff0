// The report on doctor's data.
#include <nlohmann/json.hpp>

#include "athanor/doctor/compatibility.h"
#include "athanor/doctor/report.h"

namespace athanor::doctor {
namespace {

// By then, there are newer drivers and frameworks.
constexpr int64_t old_after_days = 180;

std::vector<std::pair<const char*, Version>> newest_of(const Compatibility& known) {
  return {{"PyTorch", known.pytorch.back().version},
          {"TensorFlow", known.tensorflow.back().version},
          {"JAX", known.newest_jax},
          {"CUDA", known.cuda.back().version},
          {"ROCm", known.rocm.back().version}};
}

}  // namespace

std::string data_text(int64_t now, Language language) {
  const Compatibility& known = Compatibility::known();
  std::string reach;
  for (const auto& [name, version] : newest_of(known))
    reach += (reach.empty() ? "" : ", ") + std::string(name) + " " + version.text();
  const auto age = known.age_in_days(now);
  const Values values = {{"date", known.date},
                         {"file", printable(known.file)},
                         {"days", age ? std::to_string(*age) : ""},
                         {"reach", reach}};
  std::string text = words(known.file.empty() ? "data" : "data_file", language, values);
  if (age) text += words(*age == 1 ? "data_day" : "data_days", language, values);
  text += words("data_reach", language, values);
  if (age && *age > old_after_days) text += words("data_old", language, values);
  return text;
}

nlohmann::ordered_json data_json(int64_t now) {
  const Compatibility& known = Compatibility::known();
  nlohmann::ordered_json newest, tables;
  for (const auto& [name, version] : newest_of(known)) newest[name] = version.text();
  for (const auto& [name, origin] : known.origins)
    tables[name] = {{"date", origin.date}, {"source", printable(origin.source)}};
  const auto age = known.age_in_days(now);
  return {{"date", known.date},
          {"age_days", age ? nlohmann::ordered_json(*age) : nlohmann::ordered_json()},
          {"file", printable(known.file)},
          {"newest", newest},
          {"tables", tables}};
}

}  // namespace athanor::doctor
