// Version numbers, which are compared as numbers.
#pragma once
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace athanor::doctor {

/// The numbers of "535.161.08", "2.9.0+cu128" or "6.1.0-18-amd64", up to the first character that is neither
/// a digit nor a dot. A missing number counts as 0, so 12.4 equals 12.4.0. A number that is too large for a
/// uint32_t becomes the largest.
class Version {
 public:
  Version() = default;
  /// None if the text does not start with a number (after one 'v').
  static std::optional<Version> parse(std::string_view text);

  uint32_t at(size_t index) const { return index < numbers_.size() ? numbers_[index] : 0; }
  /// The first `count` numbers: 2.9 for 2.9.1.
  Version first(size_t count) const;
  std::string text() const;

  std::strong_ordering operator<=>(const Version& other) const;
  bool operator==(const Version& other) const { return std::is_eq(*this <=> other); }

 private:
  std::vector<uint32_t> numbers_;
};

/// The part after the '+' of "2.9.0+cu128": "cu128"; "" if there is none.
std::string_view local_version(std::string_view version);

}  // namespace athanor::doctor
