// The contents of a text, for athanor data.
#pragma once
#include <string>

namespace athanor::cli {

struct TextDataOptions {
  std::string path, tokenizer;  // a tokenizer.json; "": each byte is a token
  double held_back = 0.1;       // share of the text that is tested on
  bool json = false;
};

/// Prints how much text there is, its tokens and how it begins. Returns the exit code.
int show_text_data(const TextDataOptions& options);

}  // namespace athanor::cli
