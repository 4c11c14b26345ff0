#include "athanor/formats/word_split.h"

#include "athanor/base/utf8.h"

namespace athanor {
namespace {

struct Character {
  CharacterClass kind = CharacterClass::other;
  size_t bytes = 1;
};

Character character_at(std::string_view text, size_t at) {
  const Utf8Character found = utf8_at(text, at);
  return {found.valid ? character_class(found.value) : CharacterClass::other, found.bytes};
}

/// The end of a run of characters of one class that begins at `at`.
size_t run_end(std::string_view text, size_t at, CharacterClass kind) {
  while (at < text.size()) {
    const Character next = character_at(text, at);
    if (next.kind != kind) break;
    at += next.bytes;
  }
  return at;
}

size_t contraction_at(std::string_view text, size_t at) {
  for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
    if (text.substr(at, ending.size()) == ending) return ending.size();
  return 0;
}

size_t word_end(std::string_view text, size_t at) {
  if (const size_t length = contraction_at(text, at); length > 0) return at + length;
  const Character first = character_at(text, at);
  if (first.kind != CharacterClass::space) return run_end(text, at, first.kind);
  // One blank goes with the word after it.
  if (text[at] == ' ' && at + 1 < text.size())
    if (const Character next = character_at(text, at + 1); next.kind != CharacterClass::space)
      return run_end(text, at + 1, next.kind);
  const size_t end = run_end(text, at, CharacterClass::space);
  if (end == text.size()) return end;
  // \s+(?!\S): all but the last, which belongs to the next word; a single one is a word.
  size_t last = end - 1;
  while (!utf8_at(text, last).valid) --last;
  return last > at ? last : end;
}

}  // namespace

std::vector<std::string_view> split_words(std::string_view text) {
  std::vector<std::string_view> words;
  for (size_t at = 0; at < text.size();) {
    const size_t end = word_end(text, at);
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

}  // namespace athanor
