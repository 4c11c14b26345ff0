#include "athanor/doctor/pep440.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "athanor/base/text.h"

namespace athanor::doctor {
namespace {

bool is_decimal(char c) { return c >= '0' && c <= '9'; }
bool is_small_letter(char c) { return c >= 'a' && c <= 'z'; }

// Reads a version from its start to its end; each part that is found is removed from the front.
class VersionReader {
 public:
  explicit VersionReader(std::string_view text) : text_(text) {}

  bool done() const { return text_.empty(); }
  bool take(char c) {
    if (text_.empty() || text_[0] != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  std::optional<uint64_t> number() {
    uint64_t value = 0;
    if (text_.empty() || !is_decimal(text_[0])) return std::nullopt;
    const auto [end, problem] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
    if (problem != std::errc{}) {
      too_large_ = true;
      return std::nullopt;
    }
    text_.remove_prefix(static_cast<size_t>(end - text_.data()));
    return value;
  }
  bool too_large() const { return too_large_; }
  // Reads ".rc1", "-rc.1" or "rc": one of the words, with an optional separator before it and before its
  // number, which is 0 if it is missing. Returns the index of the word and the number.
  template <size_t Count>
  std::optional<std::pair<size_t, uint64_t>> part(const std::array<std::string_view, Count>& words) {
    std::string_view rest = text_;
    if (!rest.empty() && is_separator(rest[0])) rest.remove_prefix(1);
    for (size_t i = 0; i < words.size(); ++i) {
      if (!rest.starts_with(words[i])) continue;
      text_ = rest.substr(words[i].size());
      const std::string_view before = text_;
      if (!text_.empty() && is_separator(text_[0])) text_.remove_prefix(1);
      if (const auto value = number()) return std::pair(i, *value);
      text_ = before;
      return std::pair(i, uint64_t{0});
    }
    return std::nullopt;
  }
  // "-1" after a release: a post release.
  std::optional<uint64_t> implicit_post() {
    if (text_.size() < 2 || text_[0] != '-' || !is_decimal(text_[1])) return std::nullopt;
    text_.remove_prefix(1);
    return number();
  }
  std::string local_part() {
    size_t size = 0;
    while (size < text_.size() && (is_decimal(text_[size]) || is_small_letter(text_[size]))) ++size;
    std::string part(text_.substr(0, size));
    text_.remove_prefix(size);
    if (std::all_of(part.begin(), part.end(), is_decimal))
      part.erase(0, std::min(part.find_first_not_of('0'), part.empty() ? 0 : part.size() - 1));
    return part;
  }
  bool separator() {
    if (text_.empty() || !is_separator(text_[0])) return false;
    text_.remove_prefix(1);
    return true;
  }
  std::string_view rest() const { return text_; }

 private:
  static bool is_separator(char c) { return c == '.' || c == '-' || c == '_'; }
  std::string_view text_;
  bool too_large_ = false;
};

constexpr std::array<std::string_view, 8> pre_words = {"alpha", "beta", "preview", "pre",
                                                       "rc",    "a",    "b",       "c"};
constexpr std::array<int, 8> pre_kinds = {0, 1, 2, 2, 2, 0, 1, 2};
constexpr std::array<std::string_view, 3> post_words = {"post", "rev", "r"};
constexpr std::array<std::string_view, 1> dev_words = {"dev"};

std::string lower(std::string_view text) {
  std::string plain = trim(text);
  for (char& c : plain)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return plain;
}

bool all_digits(const std::string& text) { return std::all_of(text.begin(), text.end(), is_decimal); }

// Compares parts of local versions: numbers are above words.
std::strong_ordering compare_local(const std::string& a, const std::string& b) {
  const bool number_a = all_digits(a), number_b = all_digits(b);
  if (number_a != number_b) return number_a <=> number_b;
  if (number_a && a.size() != b.size()) return a.size() <=> b.size();
  return a <=> b;
}

Truth truth(bool value) { return value ? Truth::yes : Truth::no; }

Truth satisfies_one(const PackageVersion& version, std::string_view text, std::string_view specifier) {
  constexpr std::array<std::string_view, 8> operators = {"===", "~=", "==", "!=", "<=", ">=", "<", ">"};
  const auto op = std::find_if(operators.begin(), operators.end(),
                               [&](std::string_view one) { return specifier.starts_with(one); });
  if (op == operators.end()) return Truth::unknown;
  const std::string operand = lower(specifier.substr(op->size()));
  if (*op == "===") return truth(lower(text) == operand);
  const bool prefix = operand.ends_with(".*");
  const auto other = PackageVersion::parse(prefix ? operand.substr(0, operand.size() - 2) : operand);
  if (!other) return Truth::unknown;
  const PackageVersion plain = version.without_local();
  if (prefix) {
    if ((*op != "==" && *op != "!=") || other->is_prerelease() || other->is_postrelease() ||
        other->has_local())
      return Truth::unknown;
    return truth(plain.begins_with(*other) == (*op == "=="));
  }
  if (*op == "==") return truth((other->has_local() ? version : plain) == *other);
  if (*op == "!=") return truth((other->has_local() ? version : plain) != *other);
  if (other->has_local()) return Truth::unknown;  // other operators do not allow it
  if (*op == "~=") {
    const auto shorter = other->shorter();
    return shorter ? truth(plain >= *other && plain.begins_with(*shorter)) : Truth::unknown;
  }
  if (*op == "<=") return truth(plain <= *other);
  if (*op == ">=") return truth(plain >= *other);
  // By PEP 440, 2.0rc1 does not satisfy <2.0, and 2.0.post1 and 2.0+local do not satisfy >2.0.
  if (*op == "<") return truth(version < *other && !version.is_prerelease_of(*other));
  const bool post_of_it = version.is_postrelease() && version.stem() == *other;
  return truth(version > *other && !post_of_it && !(version.has_local() && plain == *other));
}

}  // namespace

Truth both(Truth a, Truth b) {
  if (a == Truth::no || b == Truth::no) return Truth::no;
  return a == Truth::yes && b == Truth::yes ? Truth::yes : Truth::unknown;
}

Truth either(Truth a, Truth b) {
  if (a == Truth::yes || b == Truth::yes) return Truth::yes;
  return a == Truth::no && b == Truth::no ? Truth::no : Truth::unknown;
}

std::optional<PackageVersion> PackageVersion::parse(std::string_view text) {
  const std::string plain = lower(text);
  VersionReader reader(plain);
  PackageVersion version;
  reader.take('v');
  auto number = reader.number();
  if (number && reader.take('!')) {
    version.epoch_ = *number;
    number = reader.number();
  }
  if (!number) return std::nullopt;
  version.release_.push_back(*number);
  while (reader.rest().size() > 1 && reader.rest()[0] == '.' && is_decimal(reader.rest()[1])) {
    reader.take('.');
    number = reader.number();
    if (!number || version.release_.size() >= 32) return std::nullopt;
    version.release_.push_back(*number);
  }
  if (const auto pre = reader.part(pre_words)) version.pre_ = {pre_kinds[pre->first], pre->second};
  if (const auto post = reader.implicit_post())
    version.post_ = post;
  else if (const auto named = reader.part(post_words))
    version.post_ = named->second;
  if (const auto dev = reader.part(dev_words)) version.dev_ = dev->second;
  if (reader.take('+')) do {
      version.local_.push_back(reader.local_part());
      if (version.local_.back().empty()) return std::nullopt;
    } while (reader.separator());
  if (!reader.done() || reader.too_large()) return std::nullopt;
  return version;
}

std::strong_ordering PackageVersion::operator<=>(const PackageVersion& other) const {
  if (const auto order = epoch_ <=> other.epoch_; std::is_neq(order)) return order;
  for (size_t i = 0; i < std::max(release_.size(), other.release_.size()); ++i) {
    const auto at = [&](const PackageVersion& one) { return i < one.release_.size() ? one.release_[i] : 0; };
    if (const auto order = at(*this) <=> at(other); std::is_neq(order)) return order;
  }
  // 1.0.dev1 < 1.0a1.dev1 < 1.0a1 < 1.0rc1 < 1.0 < 1.0.post1.dev1 < 1.0.post1
  const auto pre = [](const PackageVersion& one) {
    if (one.pre_) return *one.pre_;
    return std::pair(!one.post_ && one.dev_ ? -1 : 3, uint64_t{0});
  };
  if (const auto order = pre(*this) <=> pre(other); std::is_neq(order)) return order;
  if (post_.has_value() != other.post_.has_value()) return post_.has_value() <=> other.post_.has_value();
  if (const auto order = post_.value_or(0) <=> other.post_.value_or(0); std::is_neq(order)) return order;
  constexpr uint64_t last = std::numeric_limits<uint64_t>::max();
  if (const auto order = dev_.value_or(last) <=> other.dev_.value_or(last); std::is_neq(order)) return order;
  for (size_t i = 0; i < std::min(local_.size(), other.local_.size()); ++i)
    if (const auto order = compare_local(local_[i], other.local_[i]); std::is_neq(order)) return order;
  return local_.size() <=> other.local_.size();
}

PackageVersion PackageVersion::without_local() const {
  PackageVersion version = *this;
  version.local_.clear();
  return version;
}

PackageVersion PackageVersion::base() const {
  PackageVersion version;
  version.epoch_ = epoch_;
  version.release_ = release_;
  return version;
}

bool PackageVersion::is_prerelease_of(const PackageVersion& other) const {
  if (other.is_prerelease() || !is_prerelease() || base() != other.base()) return false;
  return !other.post_ || (!pre_ && post_ == other.post_);
}

PackageVersion PackageVersion::stem() const {
  PackageVersion version = base();
  version.pre_ = pre_;
  return version;
}

bool PackageVersion::begins_with(const PackageVersion& prefix) const {
  if (epoch_ != prefix.epoch_) return false;
  for (size_t i = 0; i < prefix.release_.size(); ++i)
    if ((i < release_.size() ? release_[i] : 0) != prefix.release_[i]) return false;
  return true;
}

std::optional<PackageVersion> PackageVersion::shorter() const {
  if (release_.size() < 2) return std::nullopt;
  PackageVersion version = base();
  version.release_.pop_back();
  return version;
}

Truth satisfies(std::string_view version, std::string_view specifiers) {
  const auto parsed = PackageVersion::parse(version);
  Truth all = Truth::yes;
  for (const std::string& specifier : split(specifiers, ',')) {
    const std::string one = trim(specifier);
    if (one.empty()) continue;
    all = both(all, parsed ? satisfies_one(*parsed, version, one) : Truth::unknown);
  }
  return all;
}

}  // namespace athanor::doctor
