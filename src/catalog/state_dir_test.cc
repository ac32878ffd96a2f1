#include "catalog/state_dir.h"

#include "base/file.h"
#include "base/test_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(StateDir, RemovesFilesThatNoNameNeeds) {
  const TestDir dir;
  dir.Write("source/adapter_config.json", "{}");
  dir.Write("source/adapter_model.safetensors", "1");
  std::string kept;
  {
    const auto state = OpenStateDir(dir / "deep/state", "base");
    ASSERT_TRUE(state.ok()) << state.status();
    for (const char* weights : {"1", "2"}) {
      dir.Write("source/adapter_model.safetensors", weights);
      auto incoming = state->store.Copy(dir / "source");
      ASSERT_TRUE(incoming.ok()) << incoming.status();
      kept = incoming->digest();
      ASSERT_TRUE(state->store.Keep(*std::move(incoming)).ok());
    }
    ASSERT_TRUE(
        state->registry->Put({.name = "a", .history = {{.digest = kept, .since_unix = 1}}}).ok());
    EXPECT_EQ(state->store.List()->size(), 2u);
    EXPECT_THAT(Message(OpenStateDir(dir / "deep/state", "base").status()),
                HasSubstr("in use by another process"));
  }
  const auto state = OpenStateDir(dir / "deep/state", "base");
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_THAT(*state->store.List(), ElementsAre(kept));
}

TEST(StateDir, NamesTheFlagWhereItCannotBeMade) {
  const TestDir dir;
  dir.Write("file", "");
  EXPECT_THAT(Message(OpenStateDir(dir / "file/state", "base").status()),
              HasSubstr("--state-dir " + (dir / "file/state") + ": "));
}

TEST(StateDir, IsOfOneBaseModel) {
  const TestDir dir;
  ASSERT_TRUE(OpenStateDir(dir.path(), "base").ok());
  EXPECT_THAT(Message(OpenStateDir(dir.path(), "other").status()),
              HasSubstr("of another base model"));
  EXPECT_FALSE(OpenStateDir(dir.Write("file", ""), "base").ok());
}

}  // namespace
}  // namespace aril
