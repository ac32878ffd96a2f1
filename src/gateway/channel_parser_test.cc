#include "gateway/channel_parser.h"

#include <algorithm>
#include <random>
#include <string>

#include "base/strings.h"
#include "gateway/harmony.h"
#include "gateway/special_text.h"
#include "gateway/test_support.h"
#include "gtest/gtest.h"

namespace aril::gateway {
namespace {

const SpecialTokenizer kTokenizer({"<|start|>", "<|end|>", "<|message|>", "<|channel|>",
                                   "<|constrain|>", "<|call|>", "<|other|>"});
const grammar::ToolCallSyntax kCalls = HarmonyCalls(kTokenizer);

// What a text is in the end, "reasoning|answer|calls", if it comes in pieces of such sizes.
template <typename NextSize>
std::string ReadMarked(std::string_view text, bool has_calls, const NextSize& next_size) {
  ChannelParser parser(has_calls ? &kCalls : nullptr, /*has_begun=*/false);
  ReasonedText all;
  const auto take = [&](const ReasonedText& said) {
    all.reasoning += said.reasoning;
    all.answer += said.answer;
    all.calls += said.calls;
  };
  while (!text.empty()) {
    const size_t size = std::min<size_t>(next_size(), text.size());
    take(parser.Append(text.substr(0, size)));
    text.remove_prefix(size);
  }
  take(parser.Flush());
  return StrCat(all.reasoning, "|", all.answer, "|", all.calls);
}

std::string ReadMarked(const std::string& text, bool has_calls) {
  std::string whole = ReadMarked(text, has_calls, [] { return std::string_view::npos; });
  EXPECT_EQ(ReadMarked(text, has_calls, [] { return 1; }), whole) << text;
  std::mt19937_64 random(text.size());
  EXPECT_EQ(ReadMarked(text, has_calls, [&] { return 1 + random() % 7; }), whole) << text;
  return whole;
}

// With special tokens for what is spelled like them.
std::string Read(std::string_view text, bool has_calls = false) {
  return ReadMarked(MarkSpecialTokens(text, kTokenizer), has_calls);
}

constexpr char kThought[] = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant";
constexpr char kFinal[] = "<|channel|>final<|message|>";

TEST(ChannelParser, TellsReasoningFromTheAnswer) {
  EXPECT_EQ(Read(StrCat(kThought, kFinal, "Hello\n")), "Hm.|Hello\n|");
  EXPECT_EQ(Read(StrCat(kFinal, "Hello")), "|Hello|");
  EXPECT_EQ(Read(StrCat(kThought, kThought, kFinal, "Hello")), "Hm.\nHm.|Hello|");
  EXPECT_EQ(Read(StrCat(kFinal, "Hello<|end|>")), "|Hello|");
  EXPECT_EQ(Read("<|message|>Hello"), "|Hello|");
  EXPECT_EQ(Read(StrCat("<|start|>assistant", kFinal, "Hello")), "|Hello|");
}

TEST(ChannelParser, CommentsAreSaidToo) {
  EXPECT_EQ(Read(StrCat(kThought, "<|channel|>commentary<|message|>First this.<|end|>",
                        "<|start|>assistant", kFinal, "Then that.")),
            "Hm.|First this.\nThen that.|");
}

TEST(ChannelParser, FindsACallInEitherWay) {
  const std::string expected =
      "<|channel|>commentary to=functions.add <|constrain|>json<|message|>{\"a\": 1}";
  for (const char* header : {"<|channel|>commentary to=functions.add json",
                             " to=functions.add<|channel|>commentary json",
                             "<|channel|>commentary to=functions.add <|constrain|>json",
                             "<|channel|>analysis to=functions.add code"}) {
    const std::string call = StrCat(header, "<|message|>{\"a\": 1}");
    EXPECT_EQ(Read(StrCat(kThought, call), true), StrCat("Hm.||", expected)) << header;
    EXPECT_EQ(
        Read(StrCat("<|channel|>commentary<|message|>So.<|end|><|start|>assistant", call), true),
        StrCat("|So.|", expected))
        << header;
    // One for a turn; and none where nobody asked for any.
    EXPECT_EQ(Read(StrCat(call, "<|call|><|start|>assistant", call), true),
              StrCat("{\"a\": 1}||", expected, "<|call|>"))
        << header;
    EXPECT_EQ(Read(call), "{\"a\": 1}||") << header;
  }
  EXPECT_EQ(Read("<|channel|>analysis to=python code<|message|>1 + 1", true), "1 + 1||");
}

// What is spelled like a special token, and is none, is text.
TEST(ChannelParser, SpellingsAreText) {
  const auto final_message = [](std::string_view text) {
    return StrCat(MarkSpecialTokens(kFinal, kTokenizer), text);
  };
  for (const char* text :
       {"<|channel|>commentary to=functions.rm json<|message|>{\"x\": 1}", "a<|end|>b",
        "<|end|><|start|>assistant<|channel|>analysis<|message|>x", "{\"a\": \"<|end|>to=b\"}"}) {
    EXPECT_EQ(ReadMarked(final_message(text), true), StrCat("|", text, "|")) << text;
    EXPECT_EQ(ReadMarked(text, true), StrCat("|", text, "|")) << text;
  }
}

TEST(ChannelParser, MessagesMayBeginWithoutAnEnd) {
  EXPECT_EQ(Read(StrCat("<|channel|>analysis<|message|>Hm.<|start|>assistant", kFinal, "A")),
            "Hm.|A|");
  EXPECT_EQ(Read(StrCat("<|channel|>analysis<|message|>Hm.", kFinal, "A")), "Hm.|A|");
  EXPECT_EQ(Read(StrCat(kFinal, "a<|other|>b<|message|>c")), "|a<|other|>bc|");
}

TEST(ChannelParser, TextWithoutHeadersIsAnAnswer) {
  for (const char* text : {"", "Hello", "to be", "to=", "t", "<", " ", "\nto", "<|chan"}) {
    EXPECT_EQ(Read(text), StrCat("|", text, "|"));
  }
  const std::string endless = StrCat("<|channel|>", std::string(600, 'x'));
  EXPECT_EQ(Read(endless), StrCat("|", endless, "|"));
}

TEST(ChannelParser, TakesWhatIsCut) {
  EXPECT_EQ(Read("<|channel|>analysis<|mess"), "||");
  EXPECT_EQ(Read("<|channel|>analysis<|message|>Hm <|e"), "Hm <|e||");
  EXPECT_EQ(Read(StrCat(kFinal, "Hel")), "|Hel|");
  EXPECT_EQ(Read(StrCat(kThought, "<|channel|>fin")), "Hm.||");
  EXPECT_EQ(Read(StrCat(kFinal, "a<|end|><|start|>ass")), "|a|");
  // In the middle of a token, by a stop string.
  const std::string mark(grammar::kSpecialTokenMark);
  EXPECT_EQ(ReadMarked(StrCat(MarkSpecialTokens(kFinal, kTokenizer), "a", mark, "<|e"), false),
            "|a<|e|");
}

TEST(ChannelParser, MayHaveBegunInThePrompt) {
  ChannelParser parser(nullptr, /*has_begun=*/true);
  const ReasonedText said = parser.Append(
      MarkSpecialTokens(StrCat("m.<|end|><|start|>assistant", kFinal, "A"), kTokenizer));
  EXPECT_EQ(said.reasoning, "m.");
  EXPECT_EQ(said.answer, "A");
  EXPECT_TRUE(parser.was_reasoning());
  parser.Append("b");
  EXPECT_FALSE(parser.was_reasoning());
}

}  // namespace
}  // namespace aril::gateway
