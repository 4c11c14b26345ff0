// The changes of characters by BERT's tokenizers, as in the library `tokenizers`: BertNormalizer,
// BertPreTokenizer.
#pragma once
#include <string>

namespace athanor {

/// Control characters and the like, which clean_text removes. Tabs and line ends stay.
bool bert_removes(char32_t c);
/// Punctuation, each of which is a word.
bool bert_splits_at(char32_t c);
/// Appends the character without its accents (NFD without nonspacing marks), or nothing for an accent.
void append_without_accents(char32_t c, std::u32string& out);
void append_lower_case(char32_t c, std::u32string& out);

}  // namespace athanor
