// Text for people: nearest names, bytes, durations.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace athanor {

/// The candidate with the smallest edit distance to `name` (Levenshtein, ignoring case); "" if none is near.
std::string nearest(std::string_view name, const std::vector<std::string_view>& candidates);

/// "Did you mean 'relu'?" if a candidate is near, else "Known: a, b, c".
std::string nearest_hint(std::string_view name, const std::vector<std::string_view>& candidates);

/// "1.50 GiB", "12.0 MiB", "640 B".
std::string format_bytes(uint64_t bytes);
/// The inverse: "2GiB", "512 MiB", "1.5g", "800M" (MiB), "4096" (bytes). MB, GB and the like are powers of
/// 1000, other units powers of 1024. None if the text is no size, or it is negative or too large.
std::optional<int64_t> parse_bytes(std::string_view text);

/// "1h 02m", "3m 20s", "12.3 s", "4.5 ms", "12 us".
std::string format_duration(double seconds);

/// "a, b, c"
std::string join(const std::vector<std::string>& parts, std::string_view separator = ", ");

/// The parts of a text between separators. An empty text has one empty part.
std::vector<std::string> split(std::string_view text, char separator);

/// "/home/ada/.config" for "/home/ada" and ".config"; "/.config" for "/". The folder may end in '/'.
std::string path_in(std::string_view folder, std::string_view name);

/// The text without white space at its ends.
std::string trim(std::string_view text);

/// Whether `text` matches a pattern: * matches any number of characters, ? matches one.
bool matches_pattern(std::string_view text, std::string_view pattern);

/// Whether `text` contains `part`, ignoring case (ASCII).
bool contains_ignoring_case(std::string_view text, std::string_view part);

}  // namespace athanor
