// How GPT-2 cuts text into words before BPE.
#pragma once
#include <string_view>
#include <vector>

namespace athanor {

/// The matches of GPT-2's regular expression in a UTF-8 text; together they are the whole text:
/// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
/// A byte that is not UTF-8 counts as a sign that is neither letter, digit nor space.
std::vector<std::string_view> split_words(std::string_view text);

/// Unicode's general categories L and N, and the property White_Space.
enum class CharacterClass { letter, number, space, other };
CharacterClass character_class(char32_t character);

}  // namespace athanor
