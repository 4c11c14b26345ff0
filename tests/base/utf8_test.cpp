#include "athanor/base/utf8.h"

#include <gtest/gtest.h>

namespace athanor {
namespace {

TEST(Utf8, EveryCharacterComesBack) {
  for (char32_t character = 0; character <= 0x10FFFF; ++character) {
    if (character >= 0xD800 && character <= 0xDFFF) continue;
    std::string text;
    append_utf8(character, text);
    const Utf8Character found = utf8_at(text, 0);
    ASSERT_TRUE(found.valid && found.value == character && found.bytes == text.size())
        << static_cast<uint32_t>(character);
  }
}

// The ill-formed sequences of the Unicode Standard 15.0, section 3.9, tables 3-8 to 3-11,
// and incomplete ones.
TEST(Utf8, IllFormedBytesAreNoCharacters) {
  for (const char* text :
       {"\xC0\xAF", "\xE0\x80\xBF", "\xF0\x81\x82\x41", "\xED\xA0\x80", "\xED\xBF\xBF", "\xF4\x91\x92\x93",
        "\xF8\x88\x80\x80", "\xFF", "\x80", "\xE1\x80\xE2", "\xF0\x91\x92", "\xE3\x81", "\xC3"}) {
    const Utf8Character found = utf8_at(text, 0);
    EXPECT_TRUE(!found.valid && found.value == 0xFFFD && found.bytes == 1) << text;
  }
  EXPECT_TRUE(utf8_at("\xED\x9F\xBF", 0).valid && utf8_at("\xEE\x80\x80", 0).valid);
}

TEST(Utf8, OtherBytesAreReplaced) {
  EXPECT_EQ(valid_utf8("caf\xC3\xA9 \xE2\x82\xAC"), "caf\xC3\xA9 \xE2\x82\xAC");
  EXPECT_EQ(valid_utf8("a\xF8"
                       "b\xC3"),
            "a\xEF\xBF\xBD"
            "b\xEF\xBF\xBD");
}

}  // namespace
}  // namespace athanor
