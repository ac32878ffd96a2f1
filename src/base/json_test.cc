#include "base/json.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(std::string_view text, const JsonLimits& limits = {}) {
  const auto parsed = Json::Parse(text, limits);
  return parsed.ok() ? "" : Message(parsed.status());
}

TEST(Json, ReadsEveryKindAndWritesItBack) {
  const std::string text =
      R"({"null":null,"yes":true,"int":-7,"double":0.5,"text":"a\"\n\u00e9","list":[1,[],{}]})";
  const auto json = Json::Parse(text);
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_TRUE(json->Find("null")->is_null());
  EXPECT_EQ(*json->Find("yes")->AsBool(), true);
  EXPECT_EQ(*json->Find("int")->AsInt(), -7);
  EXPECT_EQ(*json->Find("double")->AsDouble(), 0.5);
  EXPECT_EQ(*json->Find("text")->AsString(), "a\"\n\xC3\xA9");
  EXPECT_EQ(json->Find("list")->AsArray()->size(), 3u);
  EXPECT_EQ(json->Find("absent"), nullptr);
  EXPECT_EQ(Json::Parse(json->Dump())->Dump(), json->Dump());
}

TEST(Json, DoublesStayDoublesWhenWritten) {
  EXPECT_EQ(Json(1.0).Dump(), "1.0");
  EXPECT_EQ(Json(-0.0).Dump(), "-0.0");
  EXPECT_EQ(Json(1e300).Dump(), "1e+300");
  EXPECT_EQ(Json::Parse("-0e3")->Dump(), "-0.0");
}

TEST(Json, IntegersBeyondInt64AreDoubles) {
  const auto json = Json::Parse("18446744073709551615");
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(json->AsInt(), nullptr);
  EXPECT_EQ(*json->AsDouble(), 18446744073709551615.0);
}

TEST(Json, RefusesWhatIsNotStrictJson) {
  EXPECT_THAT(ErrorOf(R"({"a":1,"b":2,"a":3})"), HasSubstr(R"(duplicate key "a")"));
  EXPECT_THAT(ErrorOf("[1,]"), HasSubstr("invalid JSON"));
  EXPECT_THAT(ErrorOf("{} x"), HasSubstr("invalid JSON"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("invalid JSON"));
  EXPECT_THAT(ErrorOf("NaN"), HasSubstr("invalid JSON"));
  EXPECT_THAT(ErrorOf("\"\xC3\x28\""), HasSubstr("invalid JSON"));
  EXPECT_THAT(ErrorOf("1e999"), HasSubstr("invalid JSON"));
}

// In the spirit of JSONTestSuite: one text for each rule of RFC 8259.
TEST(Json, TakesEverythingThatIsJson) {
  for (const std::string_view text : {
           // Any value, with space around it (sections 2, 3)
           "null",
           "true",
           "false",
           "0",
           "\"\"",
           "[]",
           "{}",
           " \t\r\n[ \t\r\n] \t\r\n",
           // Numbers (section 6)
           "-0",
           "-1",
           "10",
           "0.5",
           "-0.5",
           "1e5",
           "1E+5",
           "1e-05",
           "1.5e0",
           "0e1",
           "0.0e-0",
           "123456789012345678901234567890",
           "1e-400",
           "1.7976931348623157e308",
           // Strings (section 7): every escape, surrogate pairs, DEL, U+2028, noncharacters
           R"("\"\\\/\b\f\n\r\t\u00e9\uD834\uDD1E")",
           R"("\u0000")",
           "\"\x7f\"",
           "\"\xE2\x80\xA8\"",
           "\"\xEF\xBF\xBF\"",
           "\"\xF4\x8F\xBF\xBF\"",
           R"("\uFFFE")",
           // Arrays and objects (sections 4, 5)
           "[1]",
           "[[],{}]",
           "[null,1,\"a\"]",
           R"({"a":1,"b":[{}]})",
           R"({"":0})",
           R"({"a":{"a":1}})",
           R"({"\u0061":1,"b":2})",
           R"({ "a" : 1 , "b" : 2 })",
       }) {
    EXPECT_EQ(ErrorOf(text), "") << text;
  }
}

TEST(Json, RefusesEverythingElse) {
  using std::string_view_literals::operator""sv;
  for (const std::string_view text : {
           // No value, or more than one
           ""sv,
           " "sv,
           "1 2"sv,
           "[]]"sv,
           "{}}"sv,
           "{}{}"sv,
           "[] x"sv,
           "null\0"sv,
           "\0"sv,
           // Words
           "nul"sv,
           "True"sv,
           "nulll"sv,
           "undefined"sv,
           "NaN"sv,
           "-NaN"sv,
           "Infinity"sv,
           "a"sv,
           // Numbers
           "01"sv,
           "-01"sv,
           "-"sv,
           "+1"sv,
           ".5"sv,
           "-.5"sv,
           "5."sv,
           "1.e1"sv,
           "1e"sv,
           "1e+"sv,
           "1e1.5"sv,
           "0x10"sv,
           "1_000"sv,
           "1a"sv,
           "--1"sv,
           "1e400"sv,
           "\xEF\xBC\x91"sv,
           // Strings: quotes, escapes, control characters
           "\""sv,
           "'a'"sv,
           "\"a"sv,
           "a\""sv,
           R"("\")"sv,
           R"("\x41")"sv,
           R"("\a")"sv,
           R"("\U0041")"sv,
           R"("\u")"sv,
           R"("\u004")"sv,
           R"("\u00G0")"sv,
           "\"\t\""sv,
           "\"\n\""sv,
           "\"\0\""sv,
           "\"\x1f\""sv,
           "\"\\\n\""sv,
           // Lone and turned surrogates
           R"("\uD800")"sv,
           R"("\uDC00")"sv,
           R"("\uD800\u0041")"sv,
           R"("\uD800\uD800")"sv,
           R"("\uDC00\uD800")"sv,
           R"("\uD800\")"sv,
           // UTF-8: lone, cut, overlong, a surrogate, beyond U+10FFFF; UTF-16
           "\"\x80\""sv,
           "\"\xC3\""sv,
           "\"\xE2\x82\""sv,
           "\"\xC0\xAF\""sv,
           "\"\xE0\x80\xAF\""sv,
           "\"\xED\xA0\x80\""sv,
           "\"\xF4\x90\x80\x80\""sv,
           "\"\xFF\""sv,
           "[\xC3\xA9]"sv,
           "\xFF\xFE[\0]\0"sv,
           "\0[\0]"sv,
           // Arrays
           "["sv,
           "]"sv,
           "[1"sv,
           "[1,"sv,
           "[,"sv,
           "[,1]"sv,
           "[1,,2]"sv,
           "[1 2]"sv,
           "[1:2]"sv,
           "[1}"sv,
           "[1,]"sv,
           "(1)"sv,
           // Objects
           "{"sv,
           "}"sv,
           R"({"a"})"sv,
           R"({"a":})"sv,
           R"({"a":1)"sv,
           R"({"a":1,})"sv,
           R"({"a":1,,"b":2})"sv,
           R"({"a" 1})"sv,
           R"({"a"::1})"sv,
           R"({"a",1})"sv,
           "{1:1}"sv,
           "{a:1}"sv,
           "{'a':1}"sv,
           "{null:1}"sv,
           "{[]:1}"sv,
           "{,}"sv,
           R"({"a":1])"sv,
           // The same key twice, however it is written (section 4 leaves that open; it smuggles)
           R"({"a":1,"a":1})"sv,
           R"({"a":1,"\u0061":1})"sv,
           R"([{"b":{"a":1,"a":2}}])"sv,
           // Comments, other space
           "[1]//"sv,
           "/**/1"sv,
           "#1\n1"sv,
           "[1\f]"sv,
           "[\xC2\xA0]"sv,
           "\v1"sv,
           "[\xE2\x81\xA0]"sv,
       }) {
    EXPECT_NE(ErrorOf(text), "") << JsonQuote(text);
  }
}

TEST(Json, QuotesLittleOfALongText) {
  const std::string many(100'000, 'x');
  EXPECT_LT(ErrorOf("[\"" + many + "\n\"]").size(), 500u);
  EXPECT_LT(ErrorOf("{\"" + many + "\":1,\"" + many + "\":1}").size(), 500u);
  EXPECT_EQ(ErrorOf("[1e999]"), "invalid JSON: number overflow parsing '1e999' (at byte 6)");
}

TEST(Json, BoundsDepthAndSize) {
  EXPECT_EQ(ErrorOf(std::string(64, '[') + std::string(64, ']')), "");
  EXPECT_THAT(ErrorOf(std::string(65, '[') + std::string(65, ']')), HasSubstr("deeper than 64"));
  EXPECT_THAT(ErrorOf(std::string(1 << 20, '[')), HasSubstr("deeper than 64"));
  EXPECT_THAT(ErrorOf("[1,2,3]", {.max_bytes = 6}), HasSubstr("more than the 6 allowed"));
}

// "0," is two bytes of text but a whole Json in memory.
TEST(Json, BoundsTheNumberOfValues) {
  EXPECT_EQ(ErrorOf("[1,2,[],{\"a\":3}]", {.max_values = 6}), "");
  EXPECT_THAT(ErrorOf("[1,2,[],{\"a\":3}]", {.max_values = 5}),
              HasSubstr("more than the 5 values"));
  EXPECT_EQ(ErrorOf("7", {.max_values = 1}), "");

  std::string zeros = "[0";
  for (size_t i = 1; i < JsonLimits().max_values; ++i) zeros += ",0";
  EXPECT_THAT(ErrorOf(zeros + "]"), HasSubstr("more than the 1000000 values"));
}

TEST(Json, QuotesInvalidUtf8AsReplacementCharacters) {
  EXPECT_EQ(JsonQuote("a\xFF"
                      "b\xE2\x82"),
            "\"a\xEF\xBF\xBD"
            "b\xEF\xBF\xBD\xEF\xBF\xBD\"");
  EXPECT_EQ(JsonQuote(std::string_view("\0\x1f", 2)), R"("\u0000\u001f")");
}

TEST(Json, KnowsJsonThatItWouldNotRead) {
  for (const char* text : {"1", R"({"a":1,"a":2})", " [true, null] "}) EXPECT_TRUE(IsJson(text));
  EXPECT_TRUE(IsJson(std::string(10'000, '[') + std::string(10'000, ']')));
  for (const char* text : {"", "{'a': 1}", "[1,", "1 2", "True", "\"\n\""}) {
    EXPECT_FALSE(IsJson(text)) << text;
  }
}

}  // namespace
}  // namespace aril
