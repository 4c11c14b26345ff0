#include "athanor/formats/wordpiece.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "athanor/base/error.h"
#include "athanor/base/utf8.h"
#include "athanor/formats/bert_characters.h"
#include "athanor/formats/word_split.h"

namespace athanor {
namespace {

using nlohmann::json;

constexpr int64_t most_pieces = 1 << 24;

void require_piece(bool holds, const std::string& what) {
  if (!holds) throw Error(ErrorCode::format, "the tokenizer has " + what);
}

/// The characters of a text; replacement characters for bytes that are not UTF-8.
std::u32string characters_of(std::string_view text) {
  std::u32string characters;
  for (size_t at = 0; at < text.size();) {
    const Utf8Character next = utf8_at(text, at);
    characters += next.value;
    at += next.bytes;
  }
  return characters;
}

bool is_blank(char32_t c) { return character_class(c) == CharacterClass::space; }

/// Chinese characters as in BertNormalizer, which leaves one block out.
bool is_chinese(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

struct BertSteps {
  bool clean = false, chinese = false, strip = false, lower = false;

  std::u32string normalize(std::u32string text) const {
    const auto each = [&](bool wanted, const std::function<void(char32_t, std::u32string&)>& append) {
      if (!wanted) return;
      std::u32string made;
      made.reserve(text.size());
      for (const char32_t c : text) append(c, made);
      text = std::move(made);
    };
    each(clean, [](char32_t c, std::u32string& out) {
      if (!bert_removes(c)) out += is_blank(c) ? U' ' : c;
    });
    each(chinese, [](char32_t c, std::u32string& out) {
      if (is_chinese(c))
        (out += U' ', out += c) += U' ';
      else
        out += c;
    });
    each(strip, append_without_accents);
    each(lower, append_lower_case);
    return text;
  }
};

BertSteps steps_in(const json& file) {
  if (!file.contains("normalizer") || file["normalizer"].is_null()) return {};
  const json& normalizer = file["normalizer"];
  require_piece(normalizer.value("type", "") == "BertNormalizer", "another normalizer than BertNormalizer");
  const bool lower = normalizer.value("lowercase", true);
  const bool strip = normalizer.contains("strip_accents") && normalizer["strip_accents"].is_boolean()
                         ? normalizer["strip_accents"].get<bool>()
                         : lower;
  return {.clean = normalizer.value("clean_text", true),
          .chinese = normalizer.value("handle_chinese_chars", true),
          .strip = strip,
          .lower = lower};
}

class WordPieceTokenizer final : public Tokenizer {
 public:
  WordPieceTokenizer(std::string source, const json& file);
  int64_t vocabulary() const override { return std::ssize(pieces_); }
  std::vector<int32_t> encode(std::string_view text) const override;
  std::string decode(std::span<const int32_t> tokens) const override;
  std::string describe() const override { return fmt::format("WordPiece of {} tokens", vocabulary()); }
  std::string source() const override { return source_; }

 private:
  void add(const std::string& piece, int64_t id);
  void encode_plain(std::string_view text, std::vector<int32_t>& tokens) const;
  std::vector<int32_t> pieces_of(const std::u32string& word) const;

  std::string source_, prefix_;
  BertSteps steps_;
  std::vector<std::string> pieces_;
  std::unordered_map<std::string, int32_t> ids_;
  std::vector<std::pair<std::string, int32_t>> added_;  // longest first
  int32_t unknown_ = 0;
  size_t longest_word_ = 100;  // characters; longer ones are unknown
};

void WordPieceTokenizer::add(const std::string& piece, int64_t id) {
  require_piece(id >= 0 && id < most_pieces, fmt::format("the token '{}' with the number {}", piece, id));
  if (id >= vocabulary()) pieces_.resize(static_cast<size_t>(id) + 1);
  pieces_[static_cast<size_t>(id)] = piece;
}

WordPieceTokenizer::WordPieceTokenizer(std::string source, const json& file)
    : source_(std::move(source)), steps_(steps_in(file)) {
  const json& model = file.at("model");
  require_piece(file.contains("pre_tokenizer") && file["pre_tokenizer"].is_object() &&
                    file["pre_tokenizer"].value("type", "") == "BertPreTokenizer",
                "another pre-tokenizer than BertPreTokenizer");
  prefix_ = model.value("continuing_subword_prefix", "##");
  longest_word_ = model.value("max_input_chars_per_word", size_t{100});
  for (const auto& [piece, id] : model.at("vocab").items()) {
    add(piece, id.get<int64_t>());
    ids_[piece] = id.get<int32_t>();
  }
  const std::string unknown = model.value("unk_token", "[UNK]");
  const auto found = ids_.find(unknown);
  require_piece(found != ids_.end(), fmt::format("no token '{}' for unknown words", unknown));
  unknown_ = found->second;
  for (const json& token : file.value("added_tokens", json::array())) {
    require_piece(!token.value("lstrip", false) && !token.value("rstrip", false) &&
                      !token.value("single_word", false) && !token.value("normalized", false),
                  "added tokens that take blanks along, are whole words or are normalised");
    added_.emplace_back(token.at("content").get<std::string>(), token.at("id").get<int32_t>());
    add(added_.back().first, added_.back().second);
  }
  std::ranges::stable_sort(added_, std::ranges::greater(),
                           [](const auto& token) { return token.first.size(); });
}

/// The longest piece at each position; an unknown word if there is no piece at some position.
std::vector<int32_t> WordPieceTokenizer::pieces_of(const std::u32string& word) const {
  if (word.size() > longest_word_) return {unknown_};
  std::vector<int32_t> pieces;
  for (size_t begin = 0; begin < word.size();) {
    std::string longest = begin > 0 ? prefix_ : "";
    std::vector<size_t> ends;  // bytes of `longest` after each character
    for (size_t i = begin; i < word.size(); ++i) {
      append_utf8(word[i], longest);
      ends.push_back(longest.size());
    }
    size_t count = ends.size();
    auto found = ids_.end();
    for (; count > 0 && found == ids_.end(); --count) found = ids_.find(longest.substr(0, ends[count - 1]));
    if (found == ids_.end()) return {unknown_};
    pieces.push_back(found->second);
    begin += count + 1;
  }
  return pieces;
}

void WordPieceTokenizer::encode_plain(std::string_view text, std::vector<int32_t>& tokens) const {
  const std::u32string characters = steps_.normalize(characters_of(text));
  std::unordered_map<std::u32string, std::vector<int32_t>> known;  // texts repeat their words
  std::u32string word;
  const auto end_word = [&] {
    if (word.empty()) return;
    auto [entry, is_new] = known.try_emplace(word);
    if (is_new) entry->second = pieces_of(word);
    tokens.insert(tokens.end(), entry->second.begin(), entry->second.end());
    word.clear();
  };
  for (const char32_t c : characters) {
    const bool sign = bert_splits_at(c);
    if (sign || is_blank(c)) end_word();
    if (is_blank(c)) continue;
    word += c;
    if (sign) end_word();
  }
  end_word();
}

std::vector<int32_t> WordPieceTokenizer::encode(std::string_view text) const {
  std::vector<int32_t> tokens;
  while (!text.empty()) {
    // The first added token in the text; if several begin there, the longest.
    size_t place = text.size();
    const std::pair<std::string, int32_t>* found = nullptr;
    for (const auto& token : added_)
      if (const size_t at = token.first.empty() ? std::string_view::npos : text.find(token.first); at < place)
        place = at, found = &token;
    encode_plain(text.substr(0, place), tokens);
    if (found == nullptr) break;
    tokens.push_back(found->second);
    text.remove_prefix(place + found->first.size());
  }
  return tokens;
}

std::string WordPieceTokenizer::decode(std::span<const int32_t> tokens) const {
  std::string text;
  for (const int32_t token : tokens) {
    if (token < 0 || token >= vocabulary())
      throw Error(ErrorCode::value, fmt::format("token {} is not in [0, {})", token, vocabulary()));
    const std::string& piece = pieces_[static_cast<size_t>(token)];
    if (!text.empty() && piece.starts_with(prefix_))
      text += piece.substr(prefix_.size());
    else
      text += (text.empty() ? "" : " ") + piece;
  }
  return text;
}

}  // namespace

std::shared_ptr<const Tokenizer> wordpiece_tokenizer(std::string source, const json& file) {
  return std::make_shared<const WordPieceTokenizer>(std::move(source), file);
}

std::string json_of_vocabulary(const std::string& lines) {
  json vocabulary = json::object(), added = json::array();
  bool capitals = false;
  int64_t id = 0;
  std::string_view rest = lines;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::string token(rest.substr(0, end));
    if (token.ends_with('\r')) token.pop_back();
    rest.remove_prefix(std::min(rest.size(), end + 1));
    if (vocabulary.contains(token))
      throw Error(ErrorCode::format, fmt::format("line {}: the token '{}' is there twice", id + 1, token));
    if (token.starts_with('[') && token.ends_with(']') && token.size() > 2 && !token.starts_with("[unused"))
      added.push_back({{"id", id}, {"content", token}});
    else
      capitals = capitals || std::ranges::any_of(token, [](char c) { return c >= 'A' && c <= 'Z'; });
    vocabulary[token] = id++;
  }
  require_piece(vocabulary.contains("[UNK]"), "no token '[UNK]' for unknown words");
  return json{{"added_tokens", added},
              {"normalizer",
               {{"type", "BertNormalizer"},
                {"clean_text", true},
                {"handle_chinese_chars", true},
                {"strip_accents", nullptr},
                {"lowercase", !capitals}}},
              {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
              {"model",
               {{"type", "WordPiece"},
                {"unk_token", "[UNK]"},
                {"continuing_subword_prefix", "##"},
                {"max_input_chars_per_word", 100},
                {"vocab", vocabulary}}}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace athanor
