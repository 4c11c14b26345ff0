// A diagnosis, for people and for programs.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "athanor/doctor/diagnosis.h"
#include "athanor/doctor/facts.h"

namespace athanor::doctor {

struct Style {
  Language language = Language::en;
  bool color = false, unicode = true;
  int columns = 80;
};

/// Root causes first, in the order to fix them; then warnings; then what works, and what will work.
std::string report_text(const Diagnosis& diagnosis, const Facts& facts, const Style& style,
                        const Record& record = {});

/// The same as data, "schema" 1 (docs/doctor.md).
nlohmann::ordered_json report_json(const Diagnosis& diagnosis, const Facts& facts, Language language,
                                   const Record& record = {});

/// Every check: id, severity and title. Each placeholder in a title is replaced by a general word ("USER may
/// not open PATH").
std::string listed_title(const Check& check, Language language);
std::string list_text(const std::vector<Check>& checks, Language language, int columns);
nlohmann::ordered_json list_json(const std::vector<Check>& checks, Language language);

/// The age of the data, and the newest versions in it; `now` in seconds since 1970.
std::string data_text(int64_t now, Language language);
/// The same as data: `date`, `age_days` (null if the clock is before it), `file` ("" for the built-in data),
/// `newest` and `tables`.
nlohmann::ordered_json data_json(int64_t now);

/// A word or sentence of doctor's own texts ("why", "mend"), by its name in data/doctor_words.toml, with
/// values filled in. Throws Error(internal) for an unknown name.
std::string words(std::string_view name, Language language, const Values& values = {});

}  // namespace athanor::doctor
