#include "gateway/argument_reader.h"

#include <random>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril::gateway {
namespace {

using grammar::ArgumentTypes;

const grammar::ArgumentSyntax kSyntax = {
    .begin = "<parameter=", .middle = ">\n", .end = "\n</parameter>\n"};
const std::string kCallEnd = "</function>\n</call>";

const ArgumentTypes& Types() {
  static const ArgumentTypes types(*Json::Parse(
      R"({"properties":{"text":{"type":"string"},"n":{"type":"integer"},"on":{"type":"boolean"},
                        "list":{"type":"array"},"maybe":{"type":["string","null"]},"any":{},
                        "word":{"enum":["None","All",null]},"word2":{"enum":["1",2]}}})"));
  return types;
}

std::string Argument(const std::string& name, const std::string& value) {
  return StrCat("<parameter=", name, ">\n", value, "\n</parameter>\n");
}

// However the text comes in pieces, of whole characters; and what is behind the arguments is left.
void Check(const std::string& text, const std::string& expected, bool is_strict_json = true) {
  std::mt19937_64 random(5);
  for (const size_t most : {text.size() + kCallEnd.size(), size_t{1}, size_t{4}, size_t{11}}) {
    const std::string whole = text + kCallEnd;
    ArgumentReader reader(kSyntax, Types());
    std::string held, json;
    for (size_t at = 0; at < whole.size();) {
      size_t size = 1 + random() % most;
      while (at + size < whole.size() && (whole[at + size] & 0xC0) == 0x80) ++size;
      held += whole.substr(at, size);
      at += size;
      json += reader.Take(&held);
    }
    EXPECT_EQ(json, expected) << text << " in pieces of up to " << most;
    EXPECT_TRUE(reader.is_complete());
    EXPECT_EQ(held, kCallEnd);
    EXPECT_TRUE(is_strict_json ? Json::Parse(json).ok() : IsJson(json)) << json;
  }
}

TEST(ArgumentReader, MakesAnObjectOfThem) {
  Check("", "{}");
  Check(Argument("text", "Hello"), R"({"text": "Hello"})");
  Check(Argument("text", ""), R"({"text": ""})");
  Check(Argument("text", "\n\n") + Argument("n", "-12"), R"({"text": "\n\n", "n": -12})");
  Check(Argument("text", "a \"<b>\"\\\t</parameter> 7"),
        R"({"text": "a \"<b>\"\\\t</parameter> 7"})");
  Check(Argument("text", "\n</param\n</parameter> ") + Argument("a\"b", "x"),
        R"({"text": "\n</param\n</parameter> ", "a\"b": "x"})");
  Check(Argument("text", "true") + Argument("on", "true"), R"({"text": "true", "on": true})");
  Check(Argument("list", "[1, {\"a\": \"\\n\"}]"), R"({"list": [1, {"a": "\n"}]})");
  Check(Argument("text", "Grüße, \U0001F600"), "{\"text\": \"Grüße, \U0001F600\"}");
}

// Where nothing keeps a model to it.
TEST(ArgumentReader, TakesWhateverIsWritten) {
  Check(Argument("on", "True") + Argument("any", "None"), R"({"on": true, "any": null})");
  Check(Argument("n", " 7\n"), R"({"n": 7})");
  Check(Argument("n", "seven") + Argument("list", "[1,"), R"({"n": "seven", "list": "[1,"})");
  Check(Argument("n", "") + Argument("", ""), R"({"n": "", "": ""})");
  Check(Argument("n", "\"7\"") + Argument("any", "\"7\"") + Argument("other", "7"),
        R"({"n": "7", "any": "\"7\"", "other": 7})");
  Check(Argument("maybe", "null"), R"({"maybe": null})");
  // JSON that others refuse is the client's to read.
  Check(Argument("list", R"([{"a":1,"a":2}])"), R"({"list": [{"a":1,"a":2}]})", false);
  const std::string deep = std::string(100, '[') + std::string(100, ']');
  Check(Argument("list", deep), StrCat(R"({"list": )", deep, "}"), false);
  // What is named as a string is one.
  Check(Argument("word", "None") + Argument("word2", "1"), R"({"word": "None", "word2": "1"})");
  Check(Argument("word", "null") + Argument("word2", "2"), R"({"word": null, "word2": 2})");
  Check(Argument("maybe", "7"), R"({"maybe": "7"})");
}

TEST(ArgumentReader, HoldsBackNoMoreOfAStringThanMayBeItsEnd) {
  ArgumentReader reader(kSyntax, Types());
  std::string held = "<parameter=text>\none\n</para";
  EXPECT_EQ(reader.Take(&held), R"({"text": "one)");
  held += "graph";
  EXPECT_EQ(reader.Take(&held), "\\n</paragraph");
  EXPECT_FALSE(reader.is_complete());
  held += "\n</parameter>\n<parameter=list>\n[1,";
  EXPECT_EQ(reader.Take(&held), R"(", "list": )");
  held += "2]\n</parameter>\n";
  EXPECT_EQ(reader.Take(&held), "[1,2]");
  EXPECT_EQ(held, "");
  EXPECT_FALSE(reader.is_complete()) << "more may come";
  held = "</fun";
  EXPECT_EQ(reader.Take(&held), "}");
  EXPECT_TRUE(reader.is_complete());
  EXPECT_EQ(held, "</fun");
}

}  // namespace
}  // namespace aril::gateway
