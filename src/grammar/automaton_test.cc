#include "grammar/automaton.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "grammar/test_support.h"
#include "gtest/gtest.h"

namespace aril::grammar {
namespace {

Automaton Build(GrammarBuilder& builder, NodeIdx start) {
  auto grammar = builder.Build(start);
  EXPECT_TRUE(grammar.ok());
  return Automaton(*std::move(grammar));
}

// Balanced brackets, which no regular expression can tell.
Automaton Brackets() {
  GrammarBuilder b;
  const NodeIdx rule = b.Later();
  b.Become(rule,
           b.Either(b.Return(), b.Bytes('(', '(', b.Call(rule, b.Bytes(')', ')', b.Return())))));
  return Build(b, rule);
}

TEST(Automaton, ReadsLiteralsAndAlternatives) {
  GrammarBuilder b;
  Automaton automaton =
      Build(b, b.Either(b.Literal("yes", b.Return()), b.Literal("yesterday", b.Return())));
  EXPECT_TRUE(Accepts(automaton, "yes"));
  EXPECT_TRUE(Accepts(automaton, "yesterday"));
  EXPECT_FALSE(Accepts(automaton, "yest"));
  EXPECT_FALSE(Accepts(automaton, "yesno"));
  EXPECT_TRUE(automaton.HasNext(Read(automaton, "yes")));
  EXPECT_FALSE(automaton.HasNext(Read(automaton, "yesterday")));
}

TEST(Automaton, BoundsRepetitions) {
  GrammarBuilder b;
  Automaton automaton =
      Build(b, b.Repeat(2, 4, b.Return(), [&](NodeIdx next) { return b.Bytes('a', 'c', next); }));
  EXPECT_FALSE(Accepts(automaton, "a"));
  EXPECT_TRUE(Accepts(automaton, "ab"));
  EXPECT_TRUE(Accepts(automaton, "abca"));
  EXPECT_FALSE(Accepts(automaton, "abcab"));
}

TEST(Automaton, RepeatsWithoutEnd) {
  GrammarBuilder b;
  Automaton automaton =
      Build(b, b.RepeatFrom(1, b.Return(), [&](NodeIdx next) { return b.Bytes('a', 'a', next); }));
  EXPECT_FALSE(Accepts(automaton, ""));
  EXPECT_TRUE(Accepts(automaton, std::string(1000, 'a')));
  EXPECT_LT(automaton.num_states(), 4u);
}

TEST(Automaton, RulesNest) {
  Automaton automaton = Brackets();
  EXPECT_TRUE(Accepts(automaton, ""));
  EXPECT_TRUE(Accepts(automaton, "((()))"));
  EXPECT_FALSE(Accepts(automaton, "((())"));
  EXPECT_FALSE(Accepts(automaton, "(()))"));
  const auto deep = static_cast<size_t>(Automaton::kMaxDepth);
  EXPECT_TRUE(Accepts(automaton, std::string(deep, '(') + std::string(deep, ')')));
  EXPECT_EQ(Read(automaton, std::string(deep + 2, '(')), Automaton::kDead);
}

TEST(Automaton, ListsThatEndInThemselvesTakeNoStack) {
  GrammarBuilder b;
  const NodeIdx list = b.Later();
  b.Become(list, b.Bytes('x', 'x', b.Either(b.Return(), b.Call(list, b.Return()))));
  Automaton automaton = Build(b, list);
  EXPECT_TRUE(Accepts(automaton, std::string(10'000, 'x')));
  EXPECT_LT(automaton.num_states(), 4u);
}

// It would be called without end before it takes a byte.
TEST(Automaton, BoundsRulesThatBeginWithThemselves) {
  GrammarBuilder b;
  const NodeIdx rule = b.Later();
  b.Become(rule,
           b.Either(b.Bytes('a', 'a', b.Return()), b.Call(rule, b.Bytes('b', 'b', b.Return()))));
  Automaton automaton = Build(b, rule);
  // A way for each depth that calls may have: there are not too many of them.
  EXPECT_TRUE(Accepts(automaton, "abbb"));
  EXPECT_TRUE(Accepts(automaton, "a" + std::string(Automaton::kMaxDepth, 'b')));
  EXPECT_FALSE(Accepts(automaton, "a" + std::string(Automaton::kMaxDepth + 1, 'b')));
}

TEST(Automaton, GivesUpWhereWaysMultiply) {
  GrammarBuilder b;
  // Each "a" may be the first of any number of the 5000 that may follow.
  const auto letter = [&](NodeIdx next) { return b.Bytes('a', 'a', next); };
  const NodeIdx tail = b.Repeat(5000, 5000, b.Return(), letter);
  Automaton automaton = Build(b, b.RepeatFrom(0, tail, letter));
  EXPECT_TRUE(Automaton::IsState(Read(automaton, std::string(1000, 'a'))));
  EXPECT_EQ(Read(automaton, std::string(4000, 'a')), Automaton::kTooManyWays);
}

// One text that has too many is no other text's trouble.
TEST(Automaton, WaysOfOneTextAreNotAnothers) {
  GrammarBuilder b;
  const auto letter = [&](NodeIdx next) { return b.Bytes('a', 'a', next); };
  const NodeIdx tail = b.Repeat(5000, 5000, b.Return(), letter);
  Automaton automaton = Build(
      b, b.Either(b.Literal("x", b.RepeatFrom(0, tail, letter)), b.Literal("yes", b.Return())));
  EXPECT_EQ(Read(automaton, "x" + std::string(4000, 'a')), Automaton::kTooManyWays);
  EXPECT_TRUE(Accepts(automaton, "yes"));
}

// Each byte passes 3,000 nodes that lead to the same three ways.
TEST(Automaton, CountsTheNodesThatAByteLeadsPast) {
  GrammarBuilder b;
  const NodeIdx loop = b.Later();
  NodeIdx pass = loop;
  for (int i = 0; i < 1'500; ++i) pass = b.Either(pass, b.Either(pass, b.Literal("", pass)));
  b.Become(loop, b.Either(b.Return(), b.Bytes('a', 'z', pass)));
  Automaton automaton = Build(b, loop);
  automaton.BeginWalk();
  int64_t first = 0;
  automaton.Walk(automaton.start(), 'a', &first);
  EXPECT_GT(first, 3'000);
  EXPECT_GE(automaton.work(), first);
  int64_t again = 0;
  automaton.Walk(automaton.start(), 'a', &again);
  EXPECT_EQ(again, 0) << "once in a walk";
  const int64_t work = automaton.work();
  automaton.BeginWalk();
  automaton.Walk(automaton.start(), 'a', &again);
  EXPECT_EQ(again, first) << "as much in each walk";
  EXPECT_EQ(automaton.work(), work) << "but nothing had to be done";
}

TEST(Automaton, CountsWhatLeadsNowhere) {
  GrammarBuilder b;
  NodeIdx start = b.Literal("a0", b.Return());
  for (int i = 1; i < 1'000; ++i) {
    start = b.Either(start, b.Literal("a" + std::to_string(i), b.Return()));
  }
  Automaton automaton = Build(b, start);
  automaton.BeginWalk();
  int64_t work = 0;
  EXPECT_EQ(automaton.Walk(automaton.start(), 'b', &work), Automaton::kDead);
  EXPECT_GT(work, 100);
}

TEST(Automaton, CountsWalksBeyondTheNumbersThatItHasForThem) {
  Automaton automaton = Brackets();
  for (int i = 0; i < 70'000; ++i) {
    automaton.BeginWalk();
    int64_t work = 0;
    automaton.Walk(automaton.start(), '(', &work);
    ASSERT_GT(work, 0) << i;
    const int64_t once = work;
    automaton.Walk(automaton.start(), '(', &work);
    ASSERT_EQ(work, once) << i;
  }
}

TEST(Automaton, ForgetsAllButWhatIsKept) {
  Automaton automaton = Brackets();
  Automaton::State three = Read(automaton, "(((");
  Automaton::State again = Read(automaton, "(((");
  Automaton::State two = Read(automaton, "((((()))");
  Automaton::State dead = Automaton::kDead;
  const size_t before = automaton.size_bytes();
  automaton.Forget(std::vector<Automaton::State*>{&three, &again, &two, &dead});
  EXPECT_LT(automaton.size_bytes(), before);
  EXPECT_EQ(automaton.num_states(), 3u) << "the first one, and two";
  EXPECT_EQ(three, again);
  EXPECT_EQ(dead, Automaton::kDead);
  EXPECT_EQ(Read(automaton, "((("), three);
  const auto ends_with = [&](Automaton::State state, const std::string& text) {
    for (const char c : text) state = automaton.Next(state, static_cast<uint8_t>(c));
    return Automaton::IsState(state) && automaton.IsComplete(state);
  };
  EXPECT_TRUE(ends_with(three, ")))"));
  EXPECT_TRUE(ends_with(two, "))"));
  EXPECT_TRUE(Accepts(automaton, "(())"));
}

TEST(GrammarBuilder, RefusesToGrowWithoutEnd) {
  GrammarBuilder b;
  const NodeIdx start = b.Repeat(0, int64_t{1} << 40, b.Return(),
                                 [&](NodeIdx next) { return b.Bytes('a', 'a', next); });
  EXPECT_TRUE(b.is_full());
  EXPECT_EQ(b.Build(start).status().code(), StatusCode::kResourceExhausted);
}

TEST(GrammarBuilder, NothingIsNotRepeated) {
  GrammarBuilder b;
  Automaton automaton = Build(b, b.Repeat(int64_t{1} << 40, int64_t{1} << 40, b.Return(),
                                          [](NodeIdx next) { return next; }));
  EXPECT_TRUE(Accepts(automaton, ""));
}

}  // namespace
}  // namespace aril::grammar
