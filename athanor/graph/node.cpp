#include "athanor/graph/node.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "athanor/base/error.h"

namespace athanor {
namespace {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

const char* type_name(const AttrValue& value) {
  return std::visit(
      Overloaded{[](int64_t) { return "an integer"; }, [](double) { return "a number with a fraction"; },
                 [](bool) { return "a flag (true or false)"; }, [](const std::string&) { return "a text"; },
                 [](const Ints&) { return "a list of integers"; }, [](DType) { return "a dtype"; },
                 [](Device) { return "a device"; }},
      value);
}

}  // namespace

void append_words(std::vector<uint64_t>& words, std::string_view text) {
  words.push_back(text.size());
  for (size_t i = 0; i < text.size(); i += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, text.data() + i, std::min(sizeof word, text.size() - i));
    words.push_back(word);
  }
}

std::string to_string(const TensorType& type) {
  return fmt::format("{}{}", to_string(type.dtype), to_string(type.shape));
}

const AttrValue& Attrs::find(const char* name) const {
  for (const auto& [key, value] : entries_)
    if (key == name || std::strcmp(key, name) == 0) return value;
  throw Error(ErrorCode::internal, fmt::format("an op lacks its attribute '{}'", name));
}

void Attrs::refuse_type(const char* name, const AttrValue& of_wanted, const AttrValue& found) {
  throw Error(ErrorCode::internal, fmt::format("an op's attribute '{}' is {}, where {} is needed", name,
                                               type_name(found), type_name(of_wanted)));
}

bool Attrs::has(const char* name) const {
  for (const auto& entry : entries_)
    if (std::strcmp(entry.first, name) == 0) return true;
  return false;
}

void Attrs::set(const char* name, AttrValue value) {
  for (auto& [key, old] : entries_)
    if (std::strcmp(key, name) == 0) {
      old = std::move(value);
      return;
    }
  entries_.emplace_back(name, std::move(value));
}

bool Attrs::operator==(const Attrs& other) const {
  if (entries_.size() != other.entries_.size()) return false;
  for (size_t i = 0; i < entries_.size(); ++i)
    if (std::strcmp(entries_[i].first, other.entries_[i].first) != 0 ||
        entries_[i].second != other.entries_[i].second)
      return false;
  return true;
}

void Attrs::append_to(std::vector<uint64_t>& words) const {
  words.push_back(entries_.size());
  for (const auto& [key, value] : entries_) {
    append_words(words, std::string_view(key));
    words.push_back(value.index());
    std::visit(Overloaded{[&](const std::string& s) { append_words(words, std::string_view(s)); },
                          [&](const Ints& v) {
                            words.push_back(v.size());
                            for (int64_t i : v) words.push_back(static_cast<uint64_t>(i));
                          },
                          [&](Device d) { words.push_back(uint64_t{d.provider} << 8 | d.index); },
                          [&](double d) { words.push_back(std::bit_cast<uint64_t>(d)); },
                          [&](auto v) { words.push_back(static_cast<uint64_t>(v)); }},
               value);
  }
}

uint64_t Attrs::hash() const {
  std::vector<uint64_t> words;
  append_to(words);
  uint64_t hash = 0;
  for (uint64_t word : words) hash = (hash ^ word) * 0x9E3779B97F4A7C15ULL, hash ^= hash >> 29;
  return hash;
}

std::string to_string(const Attrs& attrs) {
  std::string text;
  for (const auto& [key, value] : attrs.entries()) {
    if (!text.empty()) text += ", ";
    text += key;
    text += "=";
    text += std::visit(
        Overloaded{[](const std::string& s) { return s; },
                   [](const Ints& v) { return fmt::format("[{}]", fmt::join(v, ",")); },
                   [](DType t) { return std::string(to_string(t)); }, [](Device d) { return to_string(d); },
                   [](auto v) { return fmt::format("{}", v); }},
        value);
  }
  return text;
}

}  // namespace athanor
