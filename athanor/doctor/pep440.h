// Versions of Python packages and their specifiers, as PEP 440 and packaging.python.org define them.
#pragma once
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace athanor::doctor {

/// The answer to a question; unknown if the facts do not decide it.
enum class Truth { no, yes, unknown };

Truth both(Truth a, Truth b);    // and
Truth either(Truth a, Truth b);  // or

/// "1!2.0rc1.post2.dev3+cu128". Not Version (version.h), which compares the numbers at the start of any text.
class PackageVersion {
 public:
  /// None for text that PEP 440 does not allow.
  static std::optional<PackageVersion> parse(std::string_view text);

  std::strong_ordering operator<=>(const PackageVersion& other) const;
  bool operator==(const PackageVersion& other) const { return std::is_eq(*this <=> other); }

  bool is_prerelease() const { return pre_ || dev_; }
  bool is_postrelease() const { return post_.has_value(); }
  bool has_local() const { return !local_.empty(); }
  PackageVersion without_local() const;
  PackageVersion base() const;  // only epoch and release
  PackageVersion stem() const;  // also the pre-release: what 2.0rc1 and 2.0rc1.post2 share
  /// True for 2.0rc1 and 2.0.dev1 of 2.0, and for 2.0.post1.dev1 of 2.0.post1; false if `other` is a
  /// pre-release.
  bool is_prerelease_of(const PackageVersion& other) const;
  /// Whether the release begins with that of `prefix`, missing numbers being 0: 2.1.3 with 2.1.
  bool begins_with(const PackageVersion& prefix) const;
  /// 2.1 for 2.1.3rc1; none if the release is a single number.
  std::optional<PackageVersion> shorter() const;

 private:
  uint64_t epoch_ = 0;
  std::vector<uint64_t> release_;
  std::optional<std::pair<int, uint64_t>> pre_;  // 0: a, 1: b, 2: rc
  std::optional<uint64_t> post_, dev_;
  std::vector<std::string> local_;  // numbers without leading zeros
};

/// Whether a version satisfies specifiers like ">=1.21,<2,!=1.24.*"; "" allows all. Pre-releases count,
/// because they are installed. Unknown if either is malformed.
Truth satisfies(std::string_view version, std::string_view specifiers);

}  // namespace athanor::doctor
