#include "gateway/reasoning_parser.h"

#include <random>
#include <string>

#include "base/strings.h"
#include "gtest/gtest.h"

namespace aril::gateway {
namespace {

const ReasoningSyntax kSyntax = {.begin = "<think>", .end = "</think>"};

// What a text is in the end, "reasoning|answer", if it comes in pieces of such sizes.
template <typename NextSize>
std::string Read(std::string_view text, bool has_begun, const NextSize& next_size) {
  ReasoningParser parser(kSyntax, has_begun);
  std::string reasoning, answer;
  const auto take = [&](const ReasonedText& said) {
    EXPECT_TRUE(said.reasoning.empty() || answer.empty()) << "reasoning comes first";
    reasoning += said.reasoning;
    answer += said.answer;
  };
  while (!text.empty()) {
    const size_t size = std::min<size_t>(next_size(), text.size());
    take(parser.Append(text.substr(0, size)));
    text.remove_prefix(size);
  }
  take(parser.Flush());
  return StrCat(reasoning, "|", answer);
}

std::string Read(std::string_view text, bool has_begun = false) {
  std::string whole = Read(text, has_begun, [] { return std::string_view::npos; });
  EXPECT_EQ(Read(text, has_begun, [] { return 1; }), whole) << text;
  return whole;
}

TEST(ReasoningParser, TellsReasoningFromTheAnswer) {
  EXPECT_EQ(Read("<think>\nHm.\n\nSo.\n</think>\n\nHello\n"), "Hm.\n\nSo.|\n\nHello\n");
  EXPECT_EQ(Read("\n\n <think>a</think>b"), "a|b");
  EXPECT_EQ(Read("\nHm.</think>Hello", true), "Hm.|Hello");
  EXPECT_EQ(Read("<think>\n\n</think>\n\nHello"), "|\n\nHello");
  EXPECT_EQ(Read("<think>a</think> <think>b</think>"), "a| <think>b</think>");
  EXPECT_EQ(Read("<think>a<think>b</</think>c"), "a<think>b</|c");
}

TEST(ReasoningParser, LeavesOtherTextAsItIs) {
  for (const char* text : {"", "Hello", "     <think>a</think>b", " <th", "<think", "<th<think>",
                           "</think>", "\n", "a<think>b</think>"}) {
    EXPECT_EQ(Read(text), StrCat("|", text));
  }
}

TEST(ReasoningParser, TakesWhatIsCut) {
  EXPECT_EQ(Read("<think>"), "|");
  EXPECT_EQ(Read("<think> \n "), "|");
  EXPECT_EQ(Read("<think>\na b \n"), "a b|");
  EXPECT_EQ(Read("<think>a </thi"), "a </thi|");
  EXPECT_EQ(Read("</thi", true), "</thi|");
  EXPECT_EQ(Read("<think>a</think>"), "a|");
  EXPECT_EQ(Read("<think>a</think> \n"), "a| \n");
}

TEST(ReasoningParser, GivesTextAsSoonAsItIsKnown) {
  ReasoningParser parser(kSyntax, false);
  EXPECT_EQ(parser.Append("<think>\na").reasoning, "a");
  EXPECT_EQ(parser.Append(" \n").reasoning, "") << "it may be the end";
  EXPECT_EQ(parser.Append("b<").reasoning, " \nb");
  EXPECT_EQ(parser.Append("c").reasoning, "<c");
  EXPECT_TRUE(parser.was_reasoning());
  EXPECT_EQ(parser.Append("\n</think>\n").reasoning, "");
  EXPECT_TRUE(parser.was_reasoning());
  EXPECT_EQ(parser.Append("\nd").answer, "\nd");
  EXPECT_FALSE(parser.was_reasoning());
}

// However much of it comes: what is held back is looked at again with every piece.
TEST(ReasoningParser, HoldsBackABoundedAmountOfWhitespace) {
  ReasoningParser parser(kSyntax, true);
  std::string said = parser.Append("a").reasoning;
  for (int i = 0; i < 1000; ++i) said += parser.Append(" ").reasoning;
  EXPECT_EQ(said, "a" + std::string(1000 - ReasoningParser::kMaxHeldSpaces, ' '));
  EXPECT_EQ(parser.Append("</think>").reasoning, "");
  EXPECT_EQ(Read(StrCat("<think>a", std::string(1000, ' '), "</think>")), said + "|");
}

TEST(ReasoningParser, DoesNotDependOnThePieces) {
  constexpr uint64_t kSeed = 20261126;
  SCOPED_TRACE(kSeed);
  std::mt19937_64 random(kSeed);
  const std::string pieces[] = {"<think>", "</think>", "<", "think>", "/", " ", "\n", "a", "é"};
  for (int i = 0; i < 2000; ++i) {
    std::string text = random() % 2 == 0 ? "<think>" : "";
    for (uint64_t left = random() % 12; left > 0; --left) text += pieces[random() % 9];
    if (random() % 8 == 0) text += std::string(300, ' ') + "</think>";
    const bool has_begun = random() % 2 == 0;
    const std::string whole = Read(text, has_begun);
    EXPECT_EQ(Read(text, has_begun, [&] { return 1 + random() % 6; }), whole) << text;
  }
}

}  // namespace
}  // namespace aril::gateway
