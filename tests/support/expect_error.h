// Checks on athanor::Error.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "athanor/base/error.h"

namespace athanor::testing {

/// Expects `f()` to throw an Error of `code` whose message contains each of `words`.
template <class F>
void expect_error(ErrorCode code, const std::vector<std::string>& words, F f) {
  try {
    f();
    ADD_FAILURE() << "no error, where one of code " << to_string(code) << " was expected";
  } catch (const Error& error) {
    EXPECT_EQ(to_string(error.code()), std::string(to_string(code))) << error.what();
    for (const std::string& word : words)
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos)
          << "'" << word << "' is not in: " << error.what();
  }
}

}  // namespace athanor::testing
