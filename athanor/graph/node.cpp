#include "athanor/graph/node.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

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

void mix(uint64_t& hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15ULL, hash ^= hash >> 29;
}

}  // namespace

std::string to_string(const TensorType& type) {
  return fmt::format("{}{}", to_string(type.dtype), to_string(type.shape));
}

const AttrValue& Attrs::find(const char* name) const {
  for (const auto& [key, value] : entries_)
    if (key == name || std::strcmp(key, name) == 0) return value;
  throw Error(ErrorCode::internal, fmt::format("an op lacks its attribute '{}'", name));
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

uint64_t Attrs::hash() const {
  uint64_t hash = entries_.size();
  for (const auto& [key, value] : entries_) {
    mix(hash, static_cast<uint64_t>(key[0]));
    mix(hash, value.index());
    std::visit(Overloaded{[&](const std::string& s) { mix(hash, std::hash<std::string>{}(s)); },
                          [&](const Ints& v) {
                            for (int64_t i : v) mix(hash, static_cast<uint64_t>(i));
                          },
                          [&](double d) { mix(hash, std::bit_cast<uint64_t>(d)); },
                          [&](auto v) { mix(hash, static_cast<uint64_t>(v)); }},
               value);
  }
  return hash;
}

std::string to_string(const Attrs& attrs) {
  std::string text;
  for (const auto& [key, value] : attrs.entries()) {
    if (!text.empty()) text += ", ";
    text += key;
    text += "=";
    text += std::visit(Overloaded{[](const std::string& s) { return s; },
                                  [](const Ints& v) { return fmt::format("[{}]", fmt::join(v, ",")); },
                                  [](DType t) { return std::string(to_string(t)); },
                                  [](auto v) { return fmt::format("{}", v); }},
                       value);
  }
  return text;
}

// A long chain of nodes must not be released by recursion: it would overrun the stack.
Node::~Node() {
  std::vector<NodePtr> dying = std::move(inputs);
  while (!dying.empty()) {
    NodePtr node = std::move(dying.back());
    dying.pop_back();
    if (node && node.use_count() == 1) {
      for (auto& input : node->inputs) dying.push_back(std::move(input));
      node->inputs.clear();
    }
  }
}

}  // namespace athanor
