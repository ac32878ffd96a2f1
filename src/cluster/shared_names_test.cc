// Gateways that share their names, and get in one another's way.

#include "cluster/shared_names.h"

#include <algorithm>
#include <random>

#include "base/clock.h"
#include "base/strings.h"
#include "catalog/split.h"
#include "cluster/fake_key_value_store.h"
#include "cluster/shared_records.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril::cluster {
namespace {

using std::chrono::minutes;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

// Of one of sixteen generations.
std::string Digest(int i) { return std::string(64, "0123456789abcdef"[i]); }

RegisteredAdapter Row(const std::string& name, const std::vector<int>& history,
                      const std::string& owner = "") {
  RegisteredAdapter row = {.owner = owner, .name = name, .history = {}, .rank = 8, .bytes = 100};
  for (const int i : history) {
    row.history.push_back({.digest = Digest(i), .since_unix = 5, .split = {}, .source = "s"});
  }
  return row;
}

std::vector<std::string> NamesOf(const NameChanges& changes) {
  std::vector<std::string> names;
  for (const RegisteredAdapter& row : changes.changed) names.push_back(row.name);
  return names;
}

class SharedNamesTest : public ::testing::Test {
 protected:
  std::unique_ptr<SharedNames> Open(const std::string& base = "base") {
    auto names = SharedNames::Open({.prefix = "aril/", .base_digest = base}, store_, clock_);
    EXPECT_TRUE(names.ok()) << Message(names.status());
    return *std::move(names);
  }
  // Registers the last generation, and gives it the name.
  static StatusOr<std::vector<std::string>> Put(SharedNames& names, const RegisteredAdapter& row) {
    RETURN_IF_ERROR(
        names.Register({.digest = row.history.back().digest, .source = "s", .rank = 8}).status());
    return names.Put(row);
  }
  static NameChanges Poll(SharedNames& names) {
    auto changes = names.Poll();
    EXPECT_TRUE(changes.ok()) << Message(changes.status());
    return *std::move(changes);
  }

  ManualClock clock_;
  FakeKeyValueStore store_;
};

TEST_F(SharedNamesTest, WhatOneWritesTheOthersRead) {
  const auto a = Open();
  ASSERT_TRUE(Put(*a, Row("sql", {1})).ok());
  const auto b = Open();
  EXPECT_THAT(NamesOf(Poll(*b)), ElementsAre("sql"));
  EXPECT_TRUE(b->Has(Digest(1)));
  EXPECT_EQ(b->Find(Digest(1))->first, a->Find(Digest(1))->first) << "one id for everybody";
  EXPECT_THAT(NamesOf(Poll(*a)), IsEmpty()) << "it wrote that itself";
  ASSERT_TRUE(Put(*b, Row("sql", {1, 2})).ok());
  const NameChanges moved = Poll(*a);
  ASSERT_THAT(moved.changed, SizeIs(1));
  EXPECT_EQ(moved.changed[0].history.back().digest, Digest(2));
  EXPECT_EQ(a->Find(Digest(2))->second.source, "s");
  EXPECT_NE(a->Find(Digest(2))->first, a->Find(Digest(1))->first);
  EXPECT_THAT(NamesOf(Poll(*a)), IsEmpty()) << "once";
}

TEST_F(SharedNamesTest, OnlyWhatHasChangedIsReadAgain) {
  const auto a = Open();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(Put(*a, Row(StrCat("n", i), {i})).ok());
  const auto b = Open();
  Poll(*b);
  ASSERT_TRUE(Put(*a, Row("n3", {3, 5})).ok());
  store_.num_listed = 0;
  Poll(*b);
  EXPECT_LE(store_.num_listed, 3u) << "the name, and the generation that was written again";
}

TEST_F(SharedNamesTest, ARemovalIsSeenByAll) {
  const auto a = Open();
  const auto b = Open();
  ASSERT_TRUE(Put(*a, Row("sql", {1}, "t")).ok());
  ASSERT_TRUE(Put(*a, Row("other", {1})).ok());
  Poll(*b);
  const auto unused = a->Remove("t", "sql");
  ASSERT_TRUE(unused.ok());
  EXPECT_THAT(*unused, IsEmpty()) << "another name has it";
  EXPECT_THAT(Poll(*b).removed, ElementsAre(Pair("t", "sql")));
  EXPECT_THAT(*b->Remove("", "other"), ElementsAre(Digest(1)));
  b->Forget(Digest(1));
  EXPECT_FALSE(store_.items.contains("aril/generations/" + Digest(1)));
  EXPECT_THAT(Poll(*a).removed, ElementsAre(Pair("", "other")));
  EXPECT_FALSE(a->Has(Digest(1)));
  // The name may come back, by anybody.
  ASSERT_TRUE(Put(*a, Row("sql", {2}, "t")).ok());
  EXPECT_THAT(NamesOf(Poll(*b)), ElementsAre("sql"));
}

TEST_F(SharedNamesTest, WhoWasAwayReadsEverything) {
  const auto a = Open();
  const auto b = Open();
  ASSERT_TRUE(Put(*a, Row("sql", {1})).ok());
  ASSERT_TRUE(Put(*a, Row("stays", {2})).ok());
  Poll(*b);
  ASSERT_TRUE(a->Remove("", "sql").ok());
  for (int i = 0; i < 3; ++i) {
    clock_.Advance(minutes(61));
    Poll(*a);
  }
  EXPECT_THAT(store_.items, SizeIs(4)) << "the base, the name that stays, and two generations";
  EXPECT_THAT(Poll(*b).removed, ElementsAre(Pair("", "sql")));
  EXPECT_TRUE(b->Has(Digest(2)));
}

TEST_F(SharedNamesTest, WhoeverIsSecondIsTold) {
  const auto a = Open();
  const auto b = Open();
  ASSERT_TRUE(Put(*a, Row("sql", {1})).ok());
  const auto late = Put(*b, Row("sql", {2}));
  EXPECT_EQ(late.status().code(), StatusCode::kAborted);
  Poll(*b);
  EXPECT_TRUE(Put(*b, Row("sql", {1, 2})).ok());
  EXPECT_EQ(a->Remove("", "sql").status().code(), StatusCode::kAborted);
  Poll(*a);
  EXPECT_TRUE(a->Remove("", "sql").ok());
}

TEST_F(SharedNamesTest, AGenerationIsNotForgottenWhileANameComesToIt) {
  const auto a = Open();
  const auto b = Open();
  ASSERT_TRUE(Put(*a, Row("old", {1})).ok());
  Poll(*b);
  ASSERT_THAT(*a->Remove("", "old"), ElementsAre(Digest(1)));
  // b gives it a name just before a forgets it.
  store_.before_commit = [&] { EXPECT_TRUE(Put(*b, Row("new", {1})).ok()); };
  a->Forget(Digest(1));
  EXPECT_TRUE(store_.items.contains("aril/generations/" + Digest(1)));
  // Or just after b has looked: b is told, and registers it anew.
  Poll(*a);
  Poll(*b);
  ASSERT_THAT(*a->Remove("", "new"), ElementsAre(Digest(1)));
  a->Forget(Digest(1));
  EXPECT_EQ(b->Put(Row("newer", {1})).status().code(), StatusCode::kAborted);
  EXPECT_TRUE(Put(*b, Row("newer", {1})).ok());
}

TEST_F(SharedNamesTest, AnAnswerThatIsLostIsNoConflict) {
  const auto a = Open();
  ASSERT_TRUE(a->Register({.digest = Digest(1), .source = "s"}).ok());
  store_.loses_answer = true;
  EXPECT_TRUE(a->Put(Row("sql", {1})).ok());
  EXPECT_TRUE(a->Put(Row("sql", {1, 1})).ok()) << "its revision is known";
}

TEST_F(SharedNamesTest, NothingChangesWhileEtcdIsAway) {
  const auto a = Open();
  ASSERT_TRUE(Put(*a, Row("sql", {1})).ok());
  store_.is_down = true;
  EXPECT_EQ(a->Put(Row("sql", {1, 2})).status().code(), StatusCode::kAborted)
      << "that generation is not registered";
  EXPECT_EQ(a->Put(Row("sql", {1})).status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(a->Poll().status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(a->Register({.digest = Digest(3)}).status().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(a->Has(Digest(1)));
  store_.is_down = false;
  EXPECT_TRUE(Put(*a, Row("sql", {1, 2})).ok());
}

TEST_F(SharedNamesTest, OneBaseModelForAPrefix) {
  Open();
  const auto other = SharedNames::Open({.prefix = "aril/", .base_digest = "other"}, store_, clock_);
  EXPECT_EQ(other.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(other.status()), HasSubstr("--etcd-prefix"));
}

// Each gateway removes a mark an hour after it has seen it: who saw it late still has it.
TEST_F(SharedNamesTest, ANameWhoseMarkAnotherHasRemovedIsFree) {
  const auto a = Open();
  ASSERT_TRUE(Put(*a, Row("sql", {1})).ok());
  ASSERT_TRUE(a->Remove("", "sql").ok());
  clock_.Advance(minutes(55));
  const auto late = Open();
  Poll(*late);
  clock_.Advance(minutes(6));
  Poll(*a);
  ASSERT_EQ(std::ranges::count_if(store_.items,
                                  [](const auto& item) { return item.first.ends_with("/sql"); }),
            0)
      << "the mark has gone";
  const auto put = Put(*late, Row("sql", {2}));
  EXPECT_TRUE(put.ok()) << put.status();
  EXPECT_THAT(NamesOf(Poll(*a)), ElementsAre("sql"));
}

TEST_F(SharedNamesTest, ANameThatPeopleHaveDeletedIsFree) {
  const auto a = Open();
  for (const char* name : {"sql", "poet"}) {
    ASSERT_TRUE(Put(*a, Row(name, {1})).ok());
    std::erase_if(store_.items, [&](const auto& item) { return item.first.ends_with(name); });
  }
  const auto put = Put(*a, Row("sql", {1, 2}));
  EXPECT_TRUE(put.ok()) << put.status();
  const auto removed = a->Remove("", "poet");
  EXPECT_TRUE(removed.ok()) << removed.status();
  EXPECT_TRUE(a->Has(Digest(1))) << "sql's history has it";
}

TEST_F(SharedNamesTest, WhatPeopleWriteIsPassedOver) {
  const auto a = Open();
  const RegisteredAdapter row = Row("sql", {1});
  for (const std::string value : {"x", "[]", "{}", R"({"name":"sql"})",
                                  R"({"name":"../x","history":[{"generation":"y"}]})"}) {
    store_.items["aril/names/0//sql"] = {"aril/names/0//sql", value, 1, ++store_.revision};
    EXPECT_THAT(Poll(*a).changed, IsEmpty()) << value;
  }
  store_.items["aril/names/0//other"] = {"aril/names/0//other", ToText(row), 1, ++store_.revision};
  EXPECT_THAT(Poll(*a).changed, IsEmpty()) << "another name's key";
  store_.items["aril/names/0//sql"] = {"aril/names/0//sql", ToText(row), 1, ++store_.revision};
  EXPECT_THAT(Poll(*a).changed, SizeIs(1));
}

TEST(SharedRecords, AreReadAsTheyWereWritten) {
  RegisteredAdapter row = Row("a/b", {1, 2}, "tenant");
  row.expires_unix = 77;
  row.is_pinned = true;
  PastGeneration split = {.digest = "", .since_unix = 9, .split = {}, .source = ""};
  split.split = {{.digest = Digest(1), .weight = 3, .adapter = "x", .rank = 4, .bytes = 5},
                 {.digest = Digest(2), .weight = 1}};
  split.digest = DigestOfSplit(split.split);
  row.history.push_back(split);
  const auto read = ReadRow(ToText(row));
  ASSERT_TRUE(read.ok()) << Message(read.status());
  EXPECT_EQ(ToText(*read), ToText(row));
  EXPECT_EQ(read->history[2].split[0].adapter, "x");
  row.history[2].split[1].weight = 0;
  EXPECT_THAT(Message(ReadRow(ToText(row)).status()), HasSubstr("weight"));

  const SharedGeneration generation = {.digest = Digest(3),
                                       .source = "hf://o/n",
                                       .rank = 8,
                                       .bytes = 9,
                                       .pool_bytes = 10,
                                       .invocation_tokens = {7, 8},
                                       .chat_template = Json::Object{{"main", "{{ x }}"}},
                                       .tokens = Json::Object{{"eos", 2}},
                                       .vocab_size = 9};
  const auto again = ReadGeneration(ToText(generation));
  ASSERT_TRUE(again.ok()) << Message(again.status());
  EXPECT_EQ(ToText(*again), ToText(generation));
  EXPECT_EQ(again->invocation_tokens, generation.invocation_tokens);
  EXPECT_EQ(again->vocab_size, 9);
  EXPECT_FALSE(ReadGeneration("{}").ok());
  for (const char* tokens : {R"("7")", "[-1]", "[4294967296]", R"(["a"])"}) {
    const auto bad = ReadGeneration(StrCat(R"({"generation":")", Digest(3),
                                           R"(","source":"x","invocation_tokens":)", tokens, "}"));
    EXPECT_THAT(Message(bad.status()), HasSubstr("invocation_tokens ")) << tokens;
  }
}

// Three gateways that change and forget at random, and lose answers, agree in the end; and whatever
// a name stands for is registered.
TEST_F(SharedNamesTest, GatewaysAgree) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(StrCat("seed ", seed));
    store_.items.clear();
    std::mt19937_64 random(seed);
    std::vector<std::unique_ptr<SharedNames>> gateways;
    std::vector<std::map<std::string, std::string>> seen(3);  // name to digest
    for (int g = 0; g < 3; ++g) gateways.push_back(Open());
    const auto poll = [&](size_t g) {
      const NameChanges changes = Poll(*gateways[g]);
      for (const auto& row : changes.changed) seen[g][row.name] = row.history.back().digest;
      for (const auto& [owner, name] : changes.removed) seen[g].erase(name);
    };
    for (int i = 0; i < 300; ++i) {
      const size_t g = random() % 3;
      const std::string name(1, static_cast<char>('a' + random() % 4));
      const int digest = static_cast<int>(random() % 5);
      store_.loses_answer = random() % 10 == 0;
      switch (random() % 4) {
        case 0: {
          const auto put = Put(*gateways[g], Row(name, {digest}));
          if (!put.ok()) break;
          seen[g][name] = Digest(digest);
          for (const std::string& unused : *put) gateways[g]->Forget(unused);
          break;
        }
        case 1: {
          const auto removed = gateways[g]->Remove("", name);
          if (!removed.ok()) break;
          seen[g].erase(name);
          for (const std::string& unused : *removed) gateways[g]->Forget(unused);
          break;
        }
        case 2:
          poll(g);
          break;
        default:
          clock_.Advance(minutes(1));
      }
      store_.loses_answer = false;
    }
    for (size_t g = 0; g < 3; ++g) poll(g);
    EXPECT_EQ(seen[0], seen[1]);
    EXPECT_EQ(seen[0], seen[2]);
    for (const auto& [name, digest] : seen[0]) {
      EXPECT_TRUE(store_.items.contains("aril/generations/" + digest)) << name;
    }
  }
}

}  // namespace
}  // namespace aril::cluster
