// WordPiece, the tokenizer of BERT; used by tokenizer.cpp.
#pragma once
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "athanor/formats/tokenizer.h"

namespace athanor {

/// A tokenizer from the content of a tokenizer.json, which is `source`: the model WordPiece, the normalizer
/// BertNormalizer or none, the pre-tokenizer BertPreTokenizer, added tokens. [CLS] and [SEP] are not added.
/// Throws Error(format) without a place, and nlohmann's exceptions.
std::shared_ptr<const Tokenizer> wordpiece_tokenizer(std::string source, const nlohmann::json& file);

/// The tokenizer.json of a vocab.txt, which has a token on each line. Text is lower-cased unless tokens of
/// the vocabulary have capitals. Throws Error(format).
std::string json_of_vocabulary(const std::string& lines);

}  // namespace athanor
