#include "grammar/prune.h"

#include <string_view>
#include <utility>

#include "grammar/automaton.h"
#include "gtest/gtest.h"

namespace aril::grammar {
namespace {

Grammar Built(GrammarBuilder& builder, NodeIdx start) { return builder.Build(start).value(); }

TEST(Prune, TakesOutWhatDoesNotEnd) {
  GrammarBuilder builder;
  const NodeIdx endless = builder.Later();
  builder.Become(endless, builder.Literal("a", endless));
  const NodeIdx rule = builder.Later();  // "b", and itself again
  builder.Become(rule, builder.Literal("b", builder.Call(rule, builder.Return())));
  const NodeIdx never = builder.Bytes(1, 0, builder.Return());
  NodeIdx start = builder.Literal("c", builder.Return());
  for (const NodeIdx dead : {endless, builder.Call(rule, builder.Return()), never,
                             builder.Call(builder.Return(), never)}) {
    start = builder.Either(builder.Either(dead, dead), start);
  }
  Grammar grammar = Built(builder, start);
  ASSERT_TRUE(Prune(grammar));
  Automaton automaton(std::move(grammar));
  for (int byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(Automaton::IsState(automaton.Next(automaton.start(), static_cast<uint8_t>(byte))),
              byte == 'c')
        << byte;
  }
}

TEST(Prune, KeepsLoopsThatEnd) {
  GrammarBuilder builder;
  const NodeIdx rule = builder.Later();  // brackets in brackets
  builder.Become(
      rule, builder.Either(
                builder.Literal("(", builder.Call(rule, builder.Literal(")", builder.Return()))),
                builder.Return()));
  Grammar grammar = Built(builder, rule);
  ASSERT_TRUE(Prune(grammar));
  Automaton automaton(std::move(grammar));
  Automaton::State state = automaton.start();
  for (const char byte : std::string_view("(())")) {
    state = automaton.Next(state, static_cast<uint8_t>(byte));
    ASSERT_TRUE(Automaton::IsState(state));
  }
  EXPECT_TRUE(automaton.IsComplete(state));
}

TEST(Prune, SaysThatNothingIsLeft) {
  GrammarBuilder builder;
  const NodeIdx endless = builder.Later();
  builder.Become(endless, builder.Literal("a", endless));
  Grammar grammar = Built(builder, builder.Either(endless, endless));
  EXPECT_FALSE(Prune(grammar));
}

}  // namespace
}  // namespace aril::grammar
