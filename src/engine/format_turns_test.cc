#include "engine/format_turns.h"

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "base/thread_pool.h"
#include "gmock/gmock.h"
#include "grammar/compile.h"
#include "grammar/token_table.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class FormatTurnsTest : public ::testing::Test {
 protected:
  std::shared_ptr<grammar::TokenAutomaton> Format(const std::string& expression) {
    return std::make_shared<grammar::TokenAutomaton>(
        *grammar::Compile({.kind = wire::OutputFormat::Kind::kRegex, .source = expression}),
        table_);
  }

  Sequence* Add(const std::string& tenant, std::shared_ptr<grammar::TokenAutomaton> format,
                std::vector<int32_t> output = {}) {
    wire::SequenceRequest request;
    request.sequence = SequenceId(std::ssize(sequences_));
    request.tenant = tenant;
    request.prompt = {1};
    request.output = std::move(output);
    sequences_.push_back(std::make_unique<Sequence>(
        std::move(request), std::vector<Sequence::Adapter>(), StandingPins::Room(),
        std::move(format), static_cast<uint64_t>(std::ssize(sequences_))));
    return sequences_.back().get();
  }
  // Of a format of its own, which nobody has been in.
  Sequence* AddNew(const std::string& tenant) {
    return Add(tenant, Format(StrCat("[ab]{1,", ++num_new_, "}")));
  }

  // The ids of those that have found what they wanted, and had not before.
  std::vector<int64_t> Round(FormatTurns& turns, ThreadPool& threads) {
    std::vector<Sequence*> waiting;
    for (const auto& s : sequences_) {
      if (!s->matcher->HasFound()) waiting.push_back(s.get());
    }
    turns.Run(waiting, threads);
    std::vector<int64_t> found;
    for (const Sequence* const s : waiting) {
      if (s->matcher->HasFound()) found.push_back(s->id().value());
    }
    return found;
  }
  std::vector<int64_t> Round(FormatTurns& turns) { return Round(turns, one_thread_); }

  ThreadPool one_thread_{1};
  const grammar::TokenTable table_{std::vector<std::string>{"a", "b", "ab", "ba"}};
  std::deque<std::unique_ptr<Sequence>> sequences_;
  int num_new_ = 0;
};

TEST_F(FormatTurnsTest, AllFindWhereThereIsTime) {
  FormatTurns turns;
  for (int i = 0; i < 5; ++i) AddNew("");
  EXPECT_THAT(Round(turns), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(Round(turns), IsEmpty());
}

TEST_F(FormatTurnsTest, OneAtLeastGetsOn) {
  FormatTurns turns(1);
  for (int i = 0; i < 3; ++i) AddNew("");
  EXPECT_THAT(Round(turns), ElementsAre(0));
  EXPECT_THAT(Round(turns), ElementsAre(1));
  EXPECT_THAT(Round(turns), ElementsAre(2));
}

TEST_F(FormatTurnsTest, TenantsTakeTurns) {
  FormatTurns turns(1);
  for (int i = 0; i < 3; ++i) AddNew("many");
  for (int i = 0; i < 2; ++i) AddNew("few");
  AddNew("one");
  EXPECT_THAT(Round(turns), ElementsAre(0));
  EXPECT_THAT(Round(turns), ElementsAre(3));
  EXPECT_THAT(Round(turns), ElementsAre(5));
  EXPECT_THAT(Round(turns), ElementsAre(1));
  EXPECT_THAT(Round(turns), ElementsAre(4));
  EXPECT_THAT(Round(turns), ElementsAre(2));
}

TEST_F(FormatTurnsTest, WhoWantsOneNowAndThenComesFirst) {
  FormatTurns turns(1);
  for (int i = 0; i < 6; ++i) AddNew("many");
  EXPECT_THAT(Round(turns), ElementsAre(0));
  EXPECT_THAT(Round(turns), ElementsAre(1));
  const int64_t late = AddNew("late")->id().value();
  EXPECT_THAT(Round(turns), ElementsAre(late));
  EXPECT_THAT(Round(turns), ElementsAre(2));
  const int64_t again = AddNew("late")->id().value();
  EXPECT_THAT(Round(turns), ElementsAre(again));
}

// What others have found costs nothing, whosever turn it is.
TEST_F(FormatTurnsTest, WhatIsKnownNeedsNoTurn) {
  FormatTurns turns(1);
  const auto format = Format("a+");
  Add("first", format);
  EXPECT_THAT(Round(turns), ElementsAre(0));
  AddNew("second");
  AddNew("second");
  Add("third", format);
  Add("third", format);
  EXPECT_THAT(Round(turns), ElementsAre(1, 3, 4));
  EXPECT_THAT(Round(turns), ElementsAre(2));
}

// A text of an earlier attempt, over several rounds.
TEST_F(FormatTurnsTest, ALongTextIsReadInTurnsToo) {
  FormatTurns turns(1);
  const Sequence* const reader = Add("", Format("[ab]{1,1000}"), std::vector<int32_t>(100, 0));
  int rounds = 1;
  while (Round(turns).empty()) ++rounds;
  EXPECT_EQ(rounds, 101);
  EXPECT_TRUE(reader->matcher->HasFound());
}

// Threads never share an automaton: the thread sanitizer watches.
TEST_F(FormatTurnsTest, ThreadsTakeAutomataOfTheirOwn) {
  FormatTurns turns;
  ThreadPool threads(4);
  const std::vector<std::shared_ptr<grammar::TokenAutomaton>> formats = {
      Format("[ab]{1,50}"), Format("a[ab]{1,50}"), Format("(a|b){3,9}")};
  for (int i = 0; i < 60; ++i) {
    Add(StrCat(i % 4), formats[static_cast<size_t>(i) % 3],
        std::vector<int32_t>(static_cast<size_t>(1 + i % 5), 0));
  }
  EXPECT_EQ(Round(turns, threads).size(), 60u);
}

}  // namespace
}  // namespace aril
