// Tokens are the same as those of the library `tokenizers` (make_tokenizer_reference.py).
#include "athanor/formats/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "athanor/base/file.h"
#include "athanor/formats/word_split.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace athanor {
namespace {

using nlohmann::json;
using testing::expect_error;

const std::string tokenizer_folder = ATHANOR_SOURCE_DIR "/tests/formats/data/";

TEST(Tokenizer, GivesTheTokensOfHuggingFace) {
  const auto tokenizer = read_tokenizer(tokenizer_folder + "tokenizer.json");
  EXPECT_EQ(tokenizer->vocabulary(), 420);
  const json cases = json::parse(read_text_file(tokenizer_folder + "tokenizer_cases.json"));
  EXPECT_GT(cases.size(), 20U);
  for (const json& example : cases) {
    const auto text = example.at("text").get<std::string>();
    const auto tokens = tokenizer->encode(text);
    EXPECT_EQ(tokens, example.at("tokens").get<std::vector<int32_t>>()) << text;
    EXPECT_EQ(tokenizer->decode(tokens), text);
  }
}

// The same test for WordPiece (make_wordpiece_reference.py).
TEST(Tokenizer, GivesTheWordPiecesOfHuggingFace) {
  json file = json::parse(read_text_file(tokenizer_folder + "wordpiece.json"));
  const json reference = json::parse(read_text_file(tokenizer_folder + "wordpiece_cases.json"));
  for (const json& normalized : reference.at("encoded")) {
    file["normalizer"] = normalized.at("normalizer");
    const auto tokenizer = parse_tokenizer(file.dump(), "a");
    for (const json& example : normalized.at("cases")) {
      const auto text = example.at("text").get<std::string>();
      EXPECT_EQ(tokenizer->encode(text), example.at("tokens").get<std::vector<int32_t>>())
          << file["normalizer"] << text;
    }
    EXPECT_EQ(parse_tokenizer(tokenizer->source(), "checkpoint")->encode("The Fox"),
              tokenizer->encode("The Fox"));
  }
  const auto tokenizer = read_tokenizer(tokenizer_folder + "wordpiece.json");
  for (const json& example : reference.at("decoded"))
    EXPECT_EQ(tokenizer->decode(example.at("tokens").get<std::vector<int32_t>>()),
              example.at("text").get<std::string>());
}

TEST(Tokenizer, ReadsAVocabularyOfWordPieces) {
  const json reference = json::parse(read_text_file(tokenizer_folder + "wordpiece_cases.json"));
  const testing::TempFolder folder;
  std::string lines = read_text_file(tokenizer_folder + "wordpiece_vocab.txt"), smaller;
  for (const char c : lines) smaller += c == '\n' ? std::string("\r\n") : std::string(1, c);
  write_file_atomically(folder / "vocab.txt", smaller);
  EXPECT_EQ(read_tokenizer(folder / "vocab.txt")->vocabulary(), std::ranges::count(lines, '\n'));
  const auto cased = read_tokenizer(tokenizer_folder + "wordpiece_vocab.txt");
  for (const json& example : reference.at("encoded")[1].at("cases"))  // the vocabulary has capitals
    EXPECT_EQ(cased->encode(example.at("text").get<std::string>()),
              example.at("tokens").get<std::vector<int32_t>>())
        << example.at("text");
  write_file_atomically(folder / "lower.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nfox\n##es\n");
  const auto lower = read_tokenizer(folder / "lower.txt");
  EXPECT_EQ(lower->encode("The F\u00f6xes [MASK] dog"), (std::vector<int32_t>{5, 6, 7, 4, 1}));
  EXPECT_EQ(lower->decode(std::vector<int32_t>{5, 6, 7}), "the foxes");
  write_file_atomically(folder / "twice.txt", "[UNK]\na\na\n");
  expect_error(ErrorCode::format, {"twice.txt", "line 3", "'a'"},
               [&] { read_tokenizer(folder / "twice.txt"); });
  write_file_atomically(folder / "none.txt", "a\n");
  expect_error(ErrorCode::format, {"none.txt", "[UNK]"}, [&] { read_tokenizer(folder / "none.txt"); });
  json file = json::parse(read_text_file(tokenizer_folder + "wordpiece.json"));
  file["normalizer"] = {{"type", "NFKC"}};
  expect_error(ErrorCode::format, {"a.json", "normalizer"}, [&] { parse_tokenizer(file.dump(), "a.json"); });
}

TEST(Tokenizer, KeepsBytesThatAreNoText) {
  const std::string bytes = "a\xFF\xC3 \x80\xE2\x82 z\xF0\x9F";
  const auto tokenizer = read_tokenizer(tokenizer_folder + "tokenizer.json");
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(bytes)), bytes);
  EXPECT_EQ(byte_tokenizer()->decode(byte_tokenizer()->encode(bytes)), bytes);
  EXPECT_EQ(byte_tokenizer()->encode("A\xFF"), (std::vector<int32_t>{65, 255}));
}

TEST(Tokenizer, IsMadeAgainFromItsSource) {
  const auto tokenizer = read_tokenizer(tokenizer_folder + "tokenizer.json");
  const auto again = parse_tokenizer(tokenizer->source(), "checkpoint");
  EXPECT_EQ(again->encode("The license"), tokenizer->encode("The license"));
  EXPECT_EQ(parse_tokenizer(byte_tokenizer()->source(), "checkpoint")->vocabulary(), 256);
}

TEST(Tokenizer, TakesMergesAsPairsToo) {
  json file = json::parse(read_text_file(tokenizer_folder + "tokenizer.json"));
  const auto tokenizer = parse_tokenizer(file.dump(), "a");
  for (json& merge : file["model"]["merges"]) {
    if (merge.is_array()) {
      merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
    } else {
      const auto text = merge.get<std::string>();
      merge = {text.substr(0, text.find(' ')), text.substr(text.find(' ') + 1)};
    }
  }
  EXPECT_EQ(parse_tokenizer(file.dump(), "b")->encode("permitted to copy"),
            tokenizer->encode("permitted to copy"));
}

TEST(Tokenizer, RefusesWhatItDoesNotDo) {
  const json good = json::parse(read_text_file(tokenizer_folder + "tokenizer.json"));
  const auto refused = [&](const std::string& word, auto change) {
    json file = good;
    change(file);
    expect_error(ErrorCode::format, {word, "t.json"}, [&] { parse_tokenizer(file.dump(), "t.json"); });
  };
  refused("BPE", [](json& file) { file["model"]["type"] = "Unigram"; });
  refused("normalizer", [](json& file) { file["normalizer"] = {{"type", "NFC"}}; });
  refused("pre-tokenizer", [](json& file) { file["pre_tokenizer"]["type"] = "Metaspace"; });
  refused("merges", [](json& file) { file["model"]["merges"].push_back("qq zz"); });
  refused("byte", [](json& file) { file["model"]["vocab"].erase("a"); });
  refused("token -4", [](json& file) { file["model"]["vocab"]["a"] = -4; });
  refused("tokenizer.json", [](json& file) { file.erase("model"); });
  for (const char* text : {"[]", "{", "3", "{\"model\": 3}"})
    expect_error(ErrorCode::format, {"t.json"}, [&] { parse_tokenizer(text, "t.json"); });
  expect_error(ErrorCode::value, {"420"},
               [&] { parse_tokenizer(good.dump(), "a")->decode(std::vector{420}); });
}

TEST(Tokenizer, LongWordsTakeNoLonger) {
  // In quadratic time, this would take minutes.
  const auto tokenizer = read_tokenizer(tokenizer_folder + "tokenizer.json");
  const std::string word(200'000, 'e');
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(word)), word);
}

TEST(WordSplit, IsTheWholeText) {
  const std::string text = "It's  two\n\n spaces\t. \xC3\xBC\xFF 12ab";
  std::string joined;
  for (const auto word : split_words(text)) joined += word;
  EXPECT_EQ(joined, text);
  EXPECT_EQ(split_words("It's  two\n x"),
            (std::vector<std::string_view>{"It", "'s", " ", " two", "\n", " x"}));
}

}  // namespace
}  // namespace athanor
