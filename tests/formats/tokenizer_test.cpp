// The same tokens as the library `tokenizers` gives (make_tokenizer_reference.py).
#include "athanor/formats/tokenizer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "athanor/base/file.h"
#include "athanor/formats/word_split.h"
#include "tests/support/expect_error.h"

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
  refused("BPE", [](json& file) { file["model"]["type"] = "WordPiece"; });
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
  // A quadratic time would be minutes.
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
