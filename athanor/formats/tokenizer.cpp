#include "athanor/formats/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/base/file.h"
#include "athanor/base/utf8.h"
#include "athanor/formats/bpe.h"
#include "athanor/formats/word_split.h"
#include "athanor/formats/wordpiece.h"

namespace athanor {
namespace {

using nlohmann::json;

constexpr int64_t most_tokens = 1 << 24;

[[noreturn]] void refuse_token(int64_t token, int64_t vocabulary) {
  throw Error(ErrorCode::value, fmt::format("token {} is not in [0, {})", token, vocabulary));
}

class ByteTokenizer final : public Tokenizer {
 public:
  int64_t vocabulary() const override { return 256; }
  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int32_t> tokens;
    tokens.reserve(text.size());
    for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
    return tokens;
  }
  std::string decode(std::span<const int32_t> tokens) const override {
    std::string text;
    for (const int32_t token : tokens) {
      if (token < 0 || token > 255) refuse_token(token, 256);
      text += static_cast<char>(token);
    }
    return text;
  }
  std::string describe() const override { return "bytes"; }
  std::string source() const override { return {}; }
};

/// The characters that GPT-2's vocabulary uses for bytes: printable bytes are themselves, the others are
/// characters from U+0100 on.
const std::array<std::string, 256>& byte_characters() {
  static const auto table = [] {
    std::array<std::string, 256> characters;
    char32_t next = 0x100;
    for (char32_t byte = 0; byte < 256; ++byte) {
      const bool itself = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
      append_utf8(itself ? byte : next++, characters[byte]);
    }
    return characters;
  }();
  return table;
}

/// The bytes that a token of the vocabulary means; none if it holds other characters.
std::optional<std::string> bytes_of_token(const std::string& token) {
  static const auto bytes = [] {
    std::unordered_map<std::string, char> map;
    for (size_t byte = 0; byte < 256; ++byte) map[byte_characters()[byte]] = static_cast<char>(byte);
    return map;
  }();
  std::string result;
  for (size_t at = 0; at < token.size();) {
    const size_t length = (static_cast<unsigned char>(token[at]) & 0x80U) != 0 ? 2 : 1;
    const auto found = bytes.find(token.substr(at, length));
    if (found == bytes.end()) return std::nullopt;
    result += found->second;
    at += length;
  }
  return result;
}

struct AddedToken {
  std::string content;
  int32_t id;
};

class BpeTokenizer final : public Tokenizer {
 public:
  BpeTokenizer(std::string source, const json& file);

  int64_t vocabulary() const override { return static_cast<int64_t>(texts_.size()); }
  std::vector<int32_t> encode(std::string_view text) const override;
  std::string decode(std::span<const int32_t> tokens) const override {
    std::string text;
    for (const int32_t token : tokens) {
      if (token < 0 || token >= vocabulary()) refuse_token(token, vocabulary());
      text += texts_[static_cast<size_t>(token)];
    }
    return text;
  }
  std::string describe() const override { return fmt::format("BPE of {} tokens", vocabulary()); }
  std::string source() const override { return source_; }

 private:
  void set_text(int64_t id, std::string text) {
    if (id < 0 || id >= most_tokens) refuse_token(id, most_tokens);
    if (static_cast<size_t>(id) >= texts_.size()) texts_.resize(static_cast<size_t>(id) + 1);
    texts_[static_cast<size_t>(id)] = std::move(text);
  }
  void encode_plain(std::string_view text, std::vector<int32_t>& tokens) const;

  std::string source_;
  std::vector<std::string> texts_;  // of tokens, as bytes
  std::array<int32_t, 256> byte_tokens_{};
  BpeMerges merges_;
  bool whole_words_ = false;                      // a word that is in the vocabulary is not merged
  bool blank_first_ = false;                      // a text that does not begin with a blank gets one
  std::unordered_map<std::string, int32_t> ids_;  // by bytes, for whole_words_
  std::vector<AddedToken> added_;                 // longest first
};

/// Throws the Error(format) of a file with something that is not supported.
void require(bool holds, const std::string& what) {
  if (!holds) throw Error(ErrorCode::format, "the tokenizer has " + what);
}

/// The ByteLevel settings of the pre-tokenizer.
const json& byte_level(const json& file) {
  const json& pre = file.at("pre_tokenizer");
  require(pre.is_object() && pre.value("type", "") == "ByteLevel" && pre.value("use_regex", true),
          "another pre-tokenizer than GPT-2's ByteLevel");
  return pre;
}

BpeTokenizer::BpeTokenizer(std::string source, const json& file) : source_(std::move(source)) {
  const json& model = file.at("model");
  require(model.value("type", "BPE") == "BPE", "another model than BPE");
  const auto is_set = [&](const char* key) {
    return model.contains(key) && !model[key].is_null() && model[key] != json("") &&
           model[key] != json(false);
  };
  require(!is_set("continuing_subword_prefix") && !is_set("end_of_word_suffix") && !is_set("byte_fallback"),
          "BPE with marks inside words or with byte fallback");
  require(!file.contains("normalizer") || file["normalizer"].is_null(), "a normalizer");
  blank_first_ = byte_level(file).value("add_prefix_space", false);
  whole_words_ = model.value("ignore_merges", false);

  std::unordered_map<std::string, int32_t> by_name;
  for (const auto& [token, id] : model.at("vocab").items()) {
    by_name[token] = id.get<int32_t>();
    set_text(id.get<int64_t>(), bytes_of_token(token).value_or(token));
  }
  for (size_t byte = 0; byte < 256; ++byte) {
    const auto found = by_name.find(byte_characters()[byte]);
    require(found != by_name.end(), fmt::format("no token for the byte {:#04x}", byte));
    byte_tokens_[byte] = found->second;
  }
  const auto id_of = [&](const std::string& token) {
    const auto found = by_name.find(token);
    require(found != by_name.end(), fmt::format("merges of '{}', which is not in its vocabulary", token));
    return found->second;
  };
  for (const json& merge : model.at("merges")) {
    std::string left, right;
    if (merge.is_array()) {
      left = merge.at(0), right = merge.at(1);
    } else {
      const auto text = merge.get<std::string>();
      const size_t blank = text.find(' ');
      require(blank != std::string::npos, fmt::format("the merge '{}'", text));
      left = text.substr(0, blank), right = text.substr(blank + 1);
    }
    merges_.add(id_of(left), id_of(right), id_of(left + right));
  }
  for (const json& token : file.value("added_tokens", json::array())) {
    require(
        !token.value("lstrip", false) && !token.value("rstrip", false) && !token.value("single_word", false),
        "added tokens that take blanks along or are whole words");
    added_.push_back({token.at("content"), token.at("id")});
    set_text(added_.back().id, added_.back().content);
  }
  std::ranges::stable_sort(added_, std::ranges::greater(),
                           [](const AddedToken& token) { return token.content.size(); });
  if (whole_words_)
    for (size_t id = 0; id < texts_.size(); ++id) ids_.emplace(texts_[id], static_cast<int32_t>(id));
}

void BpeTokenizer::encode_plain(std::string_view text, std::vector<int32_t>& tokens) const {
  std::string with_blank;
  if (blank_first_ && !text.empty() && text.front() != ' ') text = with_blank = " " + std::string(text);
  std::unordered_map<std::string_view, std::vector<int32_t>> known;  // texts repeat their words
  for (const std::string_view word : split_words(text)) {
    auto [entry, is_new] = known.try_emplace(word);
    std::vector<int32_t>& parts = entry->second;
    if (is_new) {
      const auto whole = whole_words_ ? ids_.find(std::string(word)) : ids_.end();
      if (whole != ids_.end()) {
        parts = {whole->second};
      } else {
        for (const char c : word) parts.push_back(byte_tokens_[static_cast<unsigned char>(c)]);
        merges_.apply(parts);
      }
    }
    tokens.insert(tokens.end(), parts.begin(), parts.end());
  }
}

std::vector<int32_t> BpeTokenizer::encode(std::string_view text) const {
  std::vector<int32_t> tokens;
  while (!text.empty()) {
    // The first added token in the text; if several begin there, the longest.
    size_t place = text.size();
    const AddedToken* found = nullptr;
    for (const AddedToken& token : added_)
      if (const size_t at = token.content.empty() ? std::string_view::npos : text.find(token.content);
          at < place)
        place = at, found = &token;
    encode_plain(text.substr(0, place), tokens);
    if (found == nullptr) break;
    tokens.push_back(found->id);
    text.remove_prefix(place + found->content.size());
  }
  return tokens;
}

constexpr const char* how_to_get =
    "Give the tokenizer.json of a GPT-2 or a BERT, a BERT's vocab.txt, or leave it out: bytes are the tokens "
    "then";

}  // namespace

std::shared_ptr<const Tokenizer> byte_tokenizer() {
  static const auto tokenizer = std::make_shared<const ByteTokenizer>();
  return tokenizer;
}

std::shared_ptr<const Tokenizer> parse_tokenizer(const std::string& text, const std::string& name) {
  if (text.empty()) return byte_tokenizer();
  try {
    const json file = json::parse(text);
    if (!file.is_object() || !file.contains("model"))
      throw Error(ErrorCode::format, "the file is not a tokenizer.json: it has no \"model\"");
    if (file.at("model").value("type", "") == "WordPiece") return wordpiece_tokenizer(text, file);
    return std::make_shared<const BpeTokenizer>(text, file);
  } catch (const Error& error) {
    throw Error(ErrorCode::format, error.problem(), name, how_to_get);
  } catch (const json::exception& error) {
    throw Error(ErrorCode::format, fmt::format("the file is not a tokenizer.json: {}", error.what()), name,
                how_to_get);
  }
}

std::shared_ptr<const Tokenizer> read_tokenizer(const std::filesystem::path& path) {
  constexpr uint64_t longest = uint64_t{256} << 20;
  std::string text = read_text_file(path, longest);
  if (text.empty())
    throw Error(ErrorCode::format, "the file of the tokenizer is empty", path.string(), how_to_get);
  const bool lists_tokens = path.extension() == ".txt";
  try {
    if (lists_tokens) text = json_of_vocabulary(text);
  } catch (const Error& error) {
    throw Error(error.code(), error.problem(), path.string(),
                "Give the vocab.txt of a BERT: a token on each line");
  }
  return parse_tokenizer(text, path.string());
}

}  // namespace athanor
