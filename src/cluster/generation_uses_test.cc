#include "cluster/generation_uses.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril::cluster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

RegisteredAdapter Row(const std::string& owner, std::vector<PastGeneration> history) {
  return {.owner = owner, .name = "sql", .history = std::move(history), .rank = 8, .bytes = 100};
}
PastGeneration From(const std::string& digest, const std::string& source) {
  return {.digest = digest, .since_unix = 5, .split = {}, .source = source};
}
PastGeneration SplitOf(const std::string& digest) {
  return {.digest = "split:1", .since_unix = 5, .split = {{.digest = digest, .weight = 1}}};
}

TEST(GenerationUses, SaysWhatNoNameHoldsAnyMore) {
  GenerationUses uses;
  const RegisteredAdapter a = Row("a", {From("d1", "s1"), From("d2", "s2"), From("d1", "s3")});
  const RegisteredAdapter b = Row("b", {From("d1", "s1")});
  const RegisteredAdapter c = Row("b", {SplitOf("d1")});
  for (const RegisteredAdapter& row : {a, b, b, c}) uses.Add(row);
  EXPECT_THAT(uses.Remove(a), ElementsAre("d2"));
  EXPECT_THAT(uses.Remove(b), IsEmpty());
  EXPECT_THAT(uses.Remove(b), IsEmpty());
  EXPECT_TRUE(uses.Has("d1")) << "a split has it";
  EXPECT_THAT(uses.Remove(c), ElementsAre("d1"));
  EXPECT_FALSE(uses.Has("d1"));
}

TEST(GenerationUses, ATenantsSourcesAreItsOwnAndEverybodys) {
  GenerationUses uses;
  uses.Add(Row("a", {From("d1", "old"), From("d1", "moved")}));
  uses.Add(Row("a", {SplitOf("d1")}));
  uses.Add(Row("", {From("d1", "given")}));
  const RegisteredAdapter others = Row("b", {From("d1", "theirs")});
  uses.Add(others);
  EXPECT_THAT(uses.SourcesFor("d1", "a", 4), ElementsAre("moved", "given"));
  EXPECT_THAT(uses.SourcesFor("d1", "a", 1), ElementsAre("moved"));
  EXPECT_THAT(uses.SourcesFor("d1", "b", 4), ElementsAre("theirs", "given"));
  EXPECT_THAT(uses.SourcesFor("d1", "", 4), ElementsAre("given"));
  EXPECT_THAT(uses.SourcesFor("d2", "a", 4), IsEmpty());
  uses.Remove(others);
  EXPECT_THAT(uses.SourcesFor("d1", "b", 4), ElementsAre("given"));
}

}  // namespace
}  // namespace aril::cluster
