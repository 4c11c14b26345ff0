#include "athanor/doctor/facts/certificates.h"

#include <chrono>
#include <optional>

namespace athanor::doctor {
namespace {

std::string from_base64(std::string_view text) {
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    uint32_t value = 64;
    if (c >= 'A' && c <= 'Z')
      value = static_cast<uint32_t>(c - 'A');
    else if (c >= 'a' && c <= 'z')
      value = static_cast<uint32_t>(c - 'a') + 26;
    else if (c >= '0' && c <= '9')
      value = static_cast<uint32_t>(c - '0') + 52;
    else if (c == '+')
      value = 62;
    else if (c == '/')
      value = 63;
    if (value == 64) continue;
    bits = (bits << 6) | value;
    if ((count += 6) >= 8) bytes += static_cast<char>((bits >> (count -= 8)) & 0xFF);
  }
  return bytes;
}

// One element of DER (ITU-T X.690): its tag and content. `der` then starts after it.
struct Element {
  uint8_t tag = 0;
  std::string_view content;
};

std::optional<Element> take(std::string_view& der) {
  if (der.size() < 2) return std::nullopt;
  Element element{static_cast<uint8_t>(der[0]), {}};
  size_t length = static_cast<uint8_t>(der[1]);
  der.remove_prefix(2);
  if (length >= 0x80) {
    const size_t bytes = length & 0x7F;
    if (bytes == 0 || bytes > 4 || bytes > der.size()) return std::nullopt;
    length = 0;
    for (size_t i = 0; i < bytes; ++i) length = (length << 8) | static_cast<uint8_t>(der[i]);
    der.remove_prefix(bytes);
  }
  if (length > der.size()) return std::nullopt;
  element.content = der.substr(0, length);
  der.remove_prefix(length);
  return element;
}

// The time in a UTCTime "YYMMDDhhmmssZ" or GeneralizedTime "YYYYMMDDhhmmssZ".
std::optional<int64_t> time_of(const Element& element) {
  std::string text(element.content);
  if (element.tag == 0x17 && text.size() >= 2) text = (text < "50" ? "20" : "19") + text;
  if (text.size() < 14) return std::nullopt;
  for (size_t i = 0; i < 14; ++i)
    if (text[i] < '0' || text[i] > '9') return std::nullopt;
  const auto number = [&](size_t from, size_t count) {
    int value = 0;
    for (size_t i = from; i < from + count; ++i) value = value * 10 + (text[i] - '0');
    return value;
  };
  const std::chrono::year_month_day day{std::chrono::year(number(0, 4)),
                                        std::chrono::month(static_cast<unsigned>(number(4, 2))),
                                        std::chrono::day(static_cast<unsigned>(number(6, 2)))};
  if (!day.ok()) return std::nullopt;
  const auto days = std::chrono::sys_days(day).time_since_epoch().count();
  return int64_t{days} * 86400 + number(8, 2) * 3600 + number(10, 2) * 60 + number(12, 2);
}

// The end of a certificate's validity. RFC 5280: Certificate { tbsCertificate { [0] version, serial,
// signature, issuer, validity { notBefore, notAfter }, ... } ... }
std::optional<int64_t> end_of(std::string_view der) {
  const auto certificate = take(der);
  if (!certificate || certificate->tag != 0x30) return std::nullopt;
  std::string_view rest = certificate->content;
  const auto signed_part = take(rest);
  if (!signed_part || signed_part->tag != 0x30) return std::nullopt;
  rest = signed_part->content;
  auto element = take(rest);
  if (element && element->tag == 0xA0) element = take(rest);    // the serial number
  for (int i = 0; i < 3 && element; ++i) element = take(rest);  // signature, issuer, validity
  if (!element || element->tag != 0x30) return std::nullopt;
  rest = element->content;
  if (!take(rest)) return std::nullopt;
  const auto not_after = take(rest);
  return not_after ? time_of(*not_after) : std::nullopt;
}

}  // namespace

std::vector<int64_t> certificate_ends(std::string_view pem) {
  constexpr std::string_view begin = "-----BEGIN CERTIFICATE-----", end = "-----END CERTIFICATE-----";
  std::vector<int64_t> ends;
  for (size_t at = pem.find(begin); at != std::string_view::npos; at = pem.find(begin, at)) {
    at += begin.size();
    const size_t stop = pem.find(end, at);
    if (stop == std::string_view::npos) break;
    if (const auto time = end_of(from_base64(pem.substr(at, stop - at)))) ends.push_back(*time);
    at = stop;
  }
  return ends;
}

}  // namespace athanor::doctor
