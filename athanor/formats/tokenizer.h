// Tokenizers: text to the numbers that language models read, and back.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace athanor {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  /// Tokens are in [0, vocabulary).
  virtual int64_t vocabulary() const = 0;
  virtual std::vector<int32_t> encode(std::string_view text) const = 0;
  /// Bytes: a single token may hold a part of a character. Throws Error(value) for a number that is not a
  /// token.
  virtual std::string decode(std::span<const int32_t> tokens) const = 0;
  /// "bytes", "BPE of 50257 tokens" or "WordPiece of 30522 tokens"
  virtual std::string describe() const = 0;
  /// The tokenizer.json from which parse_tokenizer() makes the same tokenizer again; "" for bytes.
  virtual std::string source() const = 0;
};

/// Each byte is a token, from 0 to 255.
std::shared_ptr<const Tokenizer> byte_tokenizer();

/// Byte-level BPE as in GPT-2, from Hugging Face's tokenizer.json: the model BPE, the pre-tokenizer ByteLevel
/// with its regular expression, added tokens, no normalizer. Returns the same tokens as the library
/// `tokenizers`.
///
/// Sennrich, Haddow, Birch: Neural Machine Translation of Rare Words with Subword Units (2016); Radford and
/// others (2019).
///
/// Or WordPiece as in BERT: the normalizer BertNormalizer or none, the pre-tokenizer BertPreTokenizer. [CLS]
/// and [SEP] are not added; decode() does not restore blanks and accents.
///
/// Throws Error(format) naming `name` for anything else. "" returns byte_tokenizer().
std::shared_ptr<const Tokenizer> parse_tokenizer(const std::string& json, const std::string& name);
/// The same from a file. A file that ends in .txt is the vocab.txt of a BERT, with a token on each line; text
/// is lower-cased unless tokens have capitals. Throws Error(io).
std::shared_ptr<const Tokenizer> read_tokenizer(const std::filesystem::path& path);

}  // namespace athanor
