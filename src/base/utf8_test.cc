#include "base/utf8.h"

#include <string>

#include "gtest/gtest.h"

namespace aril {
namespace {

TEST(Utf8, EveryCodePointRoundTrips) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    std::string text;
    AppendUtf8(c, &text);
    const Utf8Unit unit = ReadUtf8(text, 0);
    const bool surrogate = c >= 0xD800 && c <= 0xDFFF;
    ASSERT_EQ(unit.kind == Utf8Unit::Kind::kValid, !surrogate) << std::hex << uint32_t{c};
    if (surrogate) continue;
    ASSERT_EQ(unit.code_point, c);
    ASSERT_EQ(unit.size_bytes, text.size());
  }
}

// The example of The Unicode Standard, table 3-8.
TEST(Utf8, OneReplacementPerMaximalSubpart) {
  EXPECT_EQ(LossyUtf8("\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64"),
            "a\uFFFD\uFFFD\uFFFDb\uFFFDc\uFFFD\uFFFDd");
  EXPECT_EQ(LossyUtf8("\xC0\xAF"), "\uFFFD\uFFFD");
  EXPECT_EQ(LossyUtf8("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(LossyUtf8("x\xF0\x9F\x98"), "x\uFFFD");
}

TEST(Utf8, OneReplacementPerByteOfInput) {
  EXPECT_EQ(ReplaceInvalidBytes("x\xF0\x9F\x98y"), "x\uFFFD\uFFFD\uFFFDy");
  EXPECT_EQ(ReplaceInvalidBytes("h\u00e9"), "h\u00e9");
}

TEST(Utf8, TruncatedTail) {
  EXPECT_EQ(TruncatedTailBytes(""), 0u);
  EXPECT_EQ(TruncatedTailBytes("abc"), 0u);
  EXPECT_EQ(TruncatedTailBytes("ab\xC3"), 1u);
  EXPECT_EQ(TruncatedTailBytes("ab\xE2\x82"), 2u);
  EXPECT_EQ(TruncatedTailBytes("ab\xF0\x9F\x98"), 3u);
  EXPECT_EQ(TruncatedTailBytes("ab\xF0\x9F\x98\x80"), 0u);
  EXPECT_EQ(TruncatedTailBytes("ab\xED\xA0"), 0u) << "a surrogate cannot become valid";
  EXPECT_EQ(TruncatedTailBytes("ab\x80\x80"), 0u);
}

}  // namespace
}  // namespace aril
