#include "athanor/cli/data_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "athanor/base/text.h"
#include "athanor/data/text.h"
#include "athanor/formats/tokenizer.h"
#include "athanor/train/scoring.h"

namespace athanor::cli {
namespace {

using nlohmann::ordered_json;

constexpr size_t shown_tokens = 12, sample_tokens = 160;

struct TokenCount {
  int32_t token;
  int64_t count;
};

/// The tokens that occur in both parts, the most frequent first.
std::vector<TokenCount> counted(const SplitText& text, int64_t vocabulary) {
  std::vector<TokenCount> all;
  for (int64_t token = 0; token < vocabulary; ++token) all.push_back({static_cast<int32_t>(token), 0});
  for (const TokenText* part : {&text.train, &text.test})
    for (const int32_t token : part->tokens) ++all[static_cast<size_t>(token)].count;
  std::erase_if(all, [](const TokenCount& one) { return one.count == 0; });
  std::ranges::stable_sort(all, std::greater(), &TokenCount::count);
  return all;
}

/// Text in which characters that a terminal does not show, and single bytes of longer ones, are written as \n
/// or \x1b.
std::string shown(const std::string& text, bool keep_lines) {
  std::string result;
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if (letter == '\n' && !keep_lines)
      result += "\\n";
    else if (letter != '\n' && (byte < 0x20 || byte == 0x7f || (text.size() == 1 && byte >= 0x80)))
      result += fmt::format("\\x{:02x}", byte);
    else
      result += letter;
  }
  return result;
}

std::string beginning(const SplitText& text, const Tokenizer& tokenizer) {
  const std::vector<int32_t>& tokens = text.train.tokens.empty() ? text.test.tokens : text.train.tokens;
  return tokenizer.decode(std::span(tokens).first(std::min(tokens.size(), sample_tokens)));
}

ordered_json to_json(const TokenText& part) {
  return {{"bytes", part.bytes}, {"tokens", part.tokens.size()}};
}

void print_json_data(const SplitText& text, const std::vector<TokenCount>& tokens, const Tokenizer& tokenizer,
                     const std::string& path) {
  ordered_json result{{"data", path},
                      {"tokenizer", tokenizer.describe()},
                      {"vocabulary", tokenizer.vocabulary()},
                      {"different_tokens", tokens.size()},
                      {"train", to_json(text.train)},
                      {"test", to_json(text.test)},
                      {"sample", beginning(text, tokenizer)}};
  for (size_t i = 0; i < std::min(tokens.size(), shown_tokens); ++i)
    result["most_frequent"].push_back({{"token", tokens[i].token},
                                       {"text", tokenizer.decode({&tokens[i].token, 1})},
                                       {"count", tokens[i].count}});
  std::cout << result.dump(-1, ' ', false, ordered_json::error_handler_t::replace) << '\n';
}

void print_text_data(const SplitText& text, const std::vector<TokenCount>& tokens, const Tokenizer& tokenizer,
                     const std::string& path) {
  const auto all = static_cast<int64_t>(text.train.tokens.size() + text.test.tokens.size());
  const int64_t bytes = text.train.bytes + text.test.bytes;
  std::cout << fmt::format("data     {}\n", path);
  std::cout << fmt::format("text     {} bytes: {} for training, the last {} for testing\n", grouped(bytes),
                           grouped(text.train.bytes), grouped(text.test.bytes));
  std::cout << fmt::format("tokens   {} by {}: {} for training, {} for testing; {:.2f} bytes each\n",
                           grouped(all), tokenizer.describe(), grouped(std::ssize(text.train.tokens)),
                           grouped(std::ssize(text.test.tokens)),
                           static_cast<double>(bytes) / static_cast<double>(std::max<int64_t>(1, all)));
  std::cout << fmt::format("         {} of {} occur\n", grouped(std::ssize(tokens)),
                           grouped(tokenizer.vocabulary()));
  std::cout << "\ntoken      count   share  text\n";
  for (size_t i = 0; i < std::min(tokens.size(), shown_tokens); ++i)
    std::cout << fmt::format("{:>5}  {:>9}  {:>4.1f} %  {}\n", tokens[i].token, grouped(tokens[i].count),
                             100.0 * static_cast<double>(tokens[i].count) / static_cast<double>(all),
                             '"' + shown(tokenizer.decode({&tokens[i].token, 1}), false) + '"');
  std::cout << "\nIt begins:\n" << shown(beginning(text, tokenizer), true) << '\n';
}

}  // namespace

int show_text_data(const TextDataOptions& options) {
  const auto tokenizer = options.tokenizer.empty() ? byte_tokenizer() : read_tokenizer(options.tokenizer);
  const SplitText text = read_text(options.path, *tokenizer, options.held_back);
  const std::vector<TokenCount> tokens = counted(text, tokenizer->vocabulary());
  (options.json ? print_json_data : print_text_data)(text, tokens, *tokenizer, options.path);
  return 0;
}

}  // namespace athanor::cli
