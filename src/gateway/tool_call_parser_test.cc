#include "gateway/tool_call_parser.h"

#include <random>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/strings.h"
#include "gmock/gmock.h"
#include "grammar/automaton.h"
#include "grammar/compile.h"
#include "grammar/test_support.h"
#include "gtest/gtest.h"

namespace aril::gateway {
namespace {

const grammar::ToolCallSyntax kTagged = {
    .begin = "<call>\n{\"name\": \"",
    .middle = "\", \"arguments\": ",
    .next = "}\n</call>\n<call>\n{\"name\": \"",
    .end = "}\n</call>",
    .marker = "<call>",
};
const grammar::ToolCallSyntax kBare = {.begin = "{\"name\": \"",
                                       .middle = "\", \"parameters\": ",
                                       .next = std::nullopt,
                                       .end = "}",
                                       .marker = ""};

// As Qwen 3.5.
const grammar::ToolCallSyntax kElements = {
    .begin = "<call>\n<function=",
    .middle = ">\n",
    .next = "</function>\n</call>\n<call>\n<function=",
    .end = "</function>\n</call>",
    .marker = "<call>",
    .argument = grammar::ArgumentSyntax{
        .begin = "<parameter=", .middle = ">\n", .end = "\n</parameter>\n"}};

std::string Tagged(const std::string& name, const std::string& arguments) {
  return StrCat("<call>\n{\"name\": \"", name, "\", \"arguments\": ", arguments, "}\n</call>");
}

// What a text says in the end: "content|name(arguments)…", and "!" behind whole calls.
class Listener {
 public:
  explicit Listener(const grammar::ToolCallSyntax& syntax, bool only_at_start = false,
                    const ToolArgumentTypes* types = nullptr)
      : parser_(syntax, only_at_start, types) {}

  void Append(std::string_view text) { Take(parser_.Append(text)); }
  std::string End() {
    const bool is_whole = parser_.has_whole_calls();
    content_ += parser_.Flush();
    std::string text = content_;
    for (size_t i = 0; i < names_.size(); ++i) text += StrCat("|", names_[i], arguments_[i]);
    return text + (is_whole ? "!" : "");
  }
  const std::string& content() const { return content_; }
  const std::vector<std::string>& arguments() const { return arguments_; }

 private:
  void Take(const ToolText& said) {
    content_ += said.content;
    for (const ToolCallDelta& call : said.calls) {
      if (!call.name.empty()) {
        EXPECT_EQ(call.index, static_cast<int64_t>(names_.size()));
        names_.push_back(call.name);
        arguments_.emplace_back();
      }
      ASSERT_EQ(call.index + 1, static_cast<int64_t>(names_.size()));
      arguments_.back() += call.arguments;
    }
  }

  ToolCallParser parser_;
  std::string content_;
  std::vector<std::string> names_;
  std::vector<std::string> arguments_;
};

struct Case {
  std::string text;
  std::string said;
};

// However the text comes in pieces.
void Check(const grammar::ToolCallSyntax& syntax, bool only_at_start,
           const std::vector<Case>& cases, const ToolArgumentTypes* types = nullptr) {
  std::mt19937_64 random(3);
  for (const Case& test : cases) {
    for (const size_t most : {test.text.size() + 1, size_t{1}, size_t{3}, size_t{9}}) {
      Listener listener(syntax, only_at_start, types);
      for (size_t at = 0; at < test.text.size();) {
        const size_t size = 1 + random() % most;
        listener.Append(std::string_view(test.text).substr(at, size));
        at += size;
      }
      EXPECT_EQ(listener.End(), test.said) << test.text << " in pieces of up to " << most;
    }
  }
}

TEST(ToolCallParser, FindsCallsBehindText) {
  const std::string one = Tagged("add", R"({"a": "}\"{"})");
  Check(kTagged, false,
        {{"", ""},
         {"Hello, <calls> {}.\n", "Hello, <calls> {}.\n"},
         {one, R"(|add{"a": "}\"{"}!)"},
         {"Let me see.\n\n" + one, R"(Let me see.|add{"a": "}\"{"}!)"},
         {one + "\n" + Tagged("b.c", "{}") + "\n" + Tagged("d", R"({"x": [{"y": {}}]})"),
          R"(|add{"a": "}\"{"}|b.c{}|d{"x": [{"y": {}}]}!)"},
         {"<<call" + one, R"(<<call|add{"a": "}\"{"}!)"}});
}

TEST(ToolCallParser, TakesTextsThatWereCut) {
  Check(kTagged, false,
        {{"Hm \n<cal", "Hm \n<cal"},
         {"Hm\n<call>", "Hm"},
         {"Hm\n<call>\n{\"na", "Hm"},
         {"Hm\n<call>\n{\"name\": \"ad", "Hm"},
         {"<call>\n{\"name\": \"add\", \"arguments\": {\"a\": [1", "|add{\"a\": [1"},
         {"<call>\n{\"name\": \"add\", \"arguments\": {", "|add{"},
         {"<call>\n{\"name\": \"add\", \"arguments\": {}", "|add{}!"},
         {"<call>\n{\"name\": \"add\", \"arguments\": {}}\n</ca", "|add{}!"},
         {Tagged("add", "{}") + "\n", "|add{}!"},
         {Tagged("add", "{}") + "\n \n", "|add{}!"},
         {Tagged("add", "{}") + "\n<call>\n{\"na", "|add{}!"},
         {Tagged("add", "{}") + "\n<call>\n{\"name\": \"a", "|add{}"},
         {Tagged("add", "{}") + "\n<call>\n{\"name\": \"b\", \"arguments\": {", "|add{}|b{"}});
}

// No grammar allows these; whatever they are, nothing else is harmed.
TEST(ToolCallParser, TakesTextsThatAreNoCalls) {
  Check(kTagged, false,
        {{"a  <call> b", "a  <call> b"},
         {"<call>" + Tagged("add", "{}"), "<call>|add{}!"},
         {Tagged("add", "{}") + "more" + Tagged("add", "{}"),
          "more" + Tagged("add", "{}") + "|add{}!"},
         {"<call>\n{\"name\": \"\", \"arguments\": {}", "\", \"arguments\": {}"},
         {"<call>\n{\"name\": \"" + std::string(300, 'x'), std::string(300, 'x')}});
  const grammar::ToolCallSyntax overlapping = {
      .begin = "abab:", .middle = "=", .next = std::nullopt, .end = "", .marker = "abab"};
  Check(overlapping, false, {{"ababab:f={}", "ab|f{}!"}, {"abababab", "abab"}});
}

TEST(ToolCallParser, ReadsArgumentsThatAreWrittenOneByOne) {
  const ToolArgumentTypes types = {
      {"add", grammar::ArgumentTypes(*Json::Parse(
                  R"({"properties":{"a":{"type":"integer"},"note":{"type":"string"}}})"))},
      {"zero", grammar::ArgumentTypes(*Json::Parse(R"({"properties":{}})"))}};
  const std::string a = "<parameter=a>\n1\n</parameter>\n";
  const std::string note = "<parameter=note>\n1\n</parameter>\n";
  const auto call = [](const std::string& name, const std::string& arguments) {
    return StrCat("<call>\n<function=", name, ">\n", arguments, "</function>\n</call>");
  };
  Check(kElements, false,
        {{call("add", a + note), R"(|add{"a": 1, "note": "1"}!)"},
         {"Let me see.\n" + call("zero", "") + "\n", "Let me see.|zero{}!"},
         {call("add", a) + "\n" + call("zero", "") + "\n" + call("add", note),
          R"(|add{"a": 1}|zero{}|add{"note": "1"}!)"},
         // Cut.
         {"<call>\n<function=add", ""},
         {"<call>\n<function=add>\n", "|add"},
         {"<call>\n<function=add>\n<param", "|add"},
         {"<call>\n<function=add>\n" + a, R"(|add{"a": 1)"},
         {"<call>\n<function=add>\n<parameter=a>\n1", R"(|add{"a": )"},
         {"<call>\n<function=add>\n<parameter=note>\n1", R"(|add{"note": "1)"},
         {"<call>\n<function=add>\n" + a + "</func", R"(|add{"a": 1}!)"},
         // Of no tool that there is, and no call.
         {call("other", a + note), R"(|other{"a": 1, "note": 1}!)"},
         {"<call>\n<function=add>\nnonsense", "nonsense|add{}!"}},
        &types);
}

// What is written as the grammar wants it is read as what was meant.
TEST(ToolCallParser, ReadsArgumentsAsTheGrammarHasThem) {
  const Json parameters = *Json::Parse(
      R"({"type":"object","properties":{"s":{"type":"string"},"b":{"type":"boolean"},
          "l":{"type":"array","items":{"type":"string"}},"e":{"enum":["x","None",null,2]}},
          "required":["s"],"additionalProperties":false})");
  const grammar::ToolCallFormat format = {
      .syntax = kElements, .tools = {{.name = "f", .parameters = parameters}}, .is_required = true};
  const ToolArgumentTypes types = {{"f", grammar::ArgumentTypes(parameters)}};
  auto grammar =
      grammar::Compile({.kind = wire::OutputFormat::Kind::kToolCalls, .source = ToSource(format)});
  ASSERT_TRUE(grammar.ok()) << grammar.status();
  grammar::Automaton automaton(*std::move(grammar));
  constexpr uint64_t kSeed = 20261201;
  std::mt19937_64 random(kSeed);
  const std::vector<std::string> pieces = {"\n", "<", ">", "</parameter>", "\"", "\\", "{",   "]",
                                           "a",  "é", "7", "</function>",  "\t", " ",  "null"};
  const auto text = [&] {
    std::string result;
    for (size_t n = random() % 6; n > 0; --n) result += pieces[random() % pieces.size()];
    return result;
  };
  int num_read = 0;
  for (int i = 0; i < 3000; ++i) {
    const std::string s = text();
    // What ends an argument is in no string, nor begins in one.
    if ((s + kElements.argument->end).find(kElements.argument->end) != s.size()) continue;
    Json::Object expected = {{"s", s}};
    std::vector<std::pair<std::string, std::string>> values = {{"s", s}};
    if (random() % 2 == 0) {
      const bool b = random() % 2 == 0;
      expected.emplace_back("b", b);
      values.emplace_back("b", random() % 2 == 0 ? (b ? "true" : "false") : (b ? "True" : "False"));
    }
    if (random() % 2 == 0) {
      const Json list = Json::Array{text(), text()};
      expected.emplace_back("l", list);
      values.emplace_back("l", list.Dump());
    }
    if (random() % 2 == 0) {
      const std::vector<Json> of = {"x", "None", Json(), 2};
      const Json& e = of[random() % of.size()];
      expected.emplace_back("e", e);
      values.emplace_back("e", e.AsString() != nullptr ? *e.AsString() : e.Dump());
    }
    std::string call = kElements.begin + "f" + kElements.middle;
    for (const auto& [name, value] : values) {
      call += StrCat(kElements.argument->begin, name, kElements.argument->middle, value,
                     kElements.argument->end);
    }
    call += kElements.end;
    SCOPED_TRACE(testing::Message() << "seed " << kSeed << ": " << call);
    ASSERT_TRUE(grammar::Accepts(automaton, call));
    ToolCallParser parser(format.syntax, /*only_at_start=*/true, &types);
    const ToolText said = parser.Append(call);
    EXPECT_TRUE(parser.has_whole_calls());
    ASSERT_EQ(said.calls.size(), 1u);
    const auto arguments = Json::Parse(said.calls[0].arguments);
    ASSERT_TRUE(arguments.ok()) << said.calls[0].arguments;
    ASSERT_EQ(arguments->Dump(), Json(expected).Dump());
    ++num_read;
  }
  EXPECT_GT(num_read, 2000);
}

TEST(ToolCallParser, WithoutAMarkerFindsCallsAtTheStart) {
  const std::string call = R"({"name": "add", "parameters": {"a": 1}})";
  Check(kBare, false,
        {{call, R"(|add{"a": 1}!)"},
         {" \n" + call, R"(|add{"a": 1}!)"},
         {"  x" + call, "  x" + call},
         {"  ", "  "},
         {"     " + call, "     " + call},
         {"{\"name\": 1}", "{\"name\": 1}"},
         {"{\"na", "{\"na"}});
}

TEST(ToolCallParser, MayLookAtTheStartAlone) {
  const std::string one = Tagged("add", "{}");
  Check(kTagged, true,
        {{one, "|add{}!"},
         {"[" + one, "[" + one},
         {"\n" + one, "|add{}!"},
         {"<ca", ""},
         {"<call>\n{", ""}});
}

// As in a template where calls follow one another with nothing between.
TEST(ToolCallParser, KnowsTheEndOfCallsFromTheNextOne) {
  const grammar::ToolCallSyntax plain = {
      .begin = "<f=", .middle = ">", .next = "</f><f=", .end = "</f>", .marker = "<f="};
  Check(plain, false, {{"<f=a>{}</f>", "|a{}!"}, {"x<f=a>{}</f><f=b>{}</f>", "x|a{}|b{}!"}});
  const grammar::ToolCallSyntax open = {
      .begin = "CALL ", .middle = ":", .next = "\nCALL ", .end = "", .marker = "CALL"};
  Check(open, false, {{"CALL a:{}", "|a{}!"}, {"CALL a:{}\nCALL b:{}", "|a{}|b{}!"}});
  const grammar::ToolCallSyntax lines = {
      .begin = "<calls>\n", .middle = ":", .next = "\n", .end = "", .marker = "<calls>"};
  Check(lines, false,
        {{"<calls>\na:{}\nb:{}", "|a{}|b{}!"},
         {"<calls>\na:{}\n", "|a{}!"},
         {"<calls>\na:{}\n\n\n", "|a{}!"},
         {"<calls>\na:{}\nb", "|a{}"}});
}

TEST(ToolCallParser, HoldsBackNoMoreThanIsNeeded) {
  Listener listener(kTagged);
  listener.Append("Hello \n");
  EXPECT_EQ(listener.content(), "Hello");
  listener.Append("<c");
  EXPECT_EQ(listener.content(), "Hello");
  listener.Append("at>");
  EXPECT_EQ(listener.content(), "Hello \n<cat>");
  const std::string spaces(10'000, ' ');
  listener.Append(spaces);
  EXPECT_GT(listener.content().size(), 9'000u);
  listener.Append(R"(<call>
{"name": "add", "arguments": {"text": "one)");
  EXPECT_EQ(listener.arguments(), std::vector<std::string>{R"({"text": "one)"});
  listener.Append(" two");
  EXPECT_EQ(listener.arguments(), std::vector<std::string>{R"({"text": "one two)"});
}

}  // namespace
}  // namespace aril::gateway
