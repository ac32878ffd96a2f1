#include "apps/local_adapters.h"

#include <filesystem>

#include "base/clock.h"
#include "base/test_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const std::string kModel = ARIL_SOURCE_DIR "/tests/goldens/llama-f32-sharded";

class FindBeneathTest : public ::testing::Test {
 protected:
  FindBeneathTest() {
    for (const char* folder : {"root/a", "root/deep/b", "root2/c", "rootless/d", "outside/e"}) {
      fs::create_directories(dir_ / folder);
    }
    fs::create_symlink(dir_ / "outside", dir_ / "root/link");
    fs::create_symlink(dir_ / "root/a", dir_ / "root/inner");
    dir_.Write("root/file", "x");
    roots_ = {fs::canonical(dir_ / "root"), fs::canonical(dir_ / "root2")};
  }
  StatusOr<std::string> Find(const std::string& source) { return FindBeneath(roots_, source); }

  TestDir dir_;
  std::vector<fs::path> roots_;
};

TEST_F(FindBeneathTest, FindsFoldersOfTheRoots) {
  for (const auto& [source, folder] : std::vector<std::pair<std::string, std::string>>{
           {"a", "root/a"},
           {"./a/", "root/a"},
           {"deep/b", "root/deep/b"},
           {"deep/../a", "root/a"},
           {"c", "root2/c"},
           {"inner", "root/a"},
           {(roots_[0] / "a").string(), "root/a"},
           {(roots_[1] / "../root/a").string(), "root/a"}}) {
    const auto found = Find(source);
    ASSERT_TRUE(found.ok()) << source << ": " << found.status();
    EXPECT_EQ(fs::path(*found).lexically_normal() / "", fs::canonical(dir_ / folder) / "")
        << source;
  }
}

TEST_F(FindBeneathTest, NothingLeadsOut) {
  const std::string outside = fs::canonical(dir_ / "outside").string();
  for (const std::string& source :
       {std::string("../outside/e"), std::string("../rootless/d"), std::string("link/e"),
        std::string("link"), std::string("a/../../outside/e"), std::string("/etc"),
        std::string("/"), outside + "/e", outside + "/nothing", std::string("../nothing"),
        roots_[0].string() + "less/d", std::string("a\0/../../../etc", 15), std::string("//etc"),
        std::string("a/../../../../../../../../etc")}) {
    EXPECT_FALSE(Find(source).ok()) << source;
    const auto found = FindBeneath({roots_[0]}, source);
    EXPECT_EQ(found.status().code(), StatusCode::kInvalidArgument) << source;
    EXPECT_THAT(Message(found.status()), HasSubstr("--adapter-root")) << source;
  }
}

TEST_F(FindBeneathTest, SaysThatThereIsNoSuchFolder) {
  for (const std::string& source : {std::string("nothing"), std::string("file"),
                                    (roots_[0] / "nothing").string(), std::string("a/nothing")}) {
    EXPECT_EQ(Find(source).status().code(), StatusCode::kNotFound) << source;
  }
  EXPECT_FALSE(FindBeneath({}, "a").ok());
}

TEST(LocalAdapters, AGenerationIsTheRunnersUntilNobodyHasIt) {
  auto runner = LocalRunner::Create({.model_dir = kModel, .threads = 1}, RealClock());
  ASSERT_TRUE(runner.ok()) << runner.status();
  const auto templates = std::make_shared<gateway::AdapterChatTemplates>();
  LocalAdapters adapters(**runner, {.roots = {fs::canonical(kModel + "/adapters")},
                                    .special_tokens = {},
                                    .templates = templates});
  auto loaded = adapters.Load("all-r4");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ((**loaded)->rank, 4);
  EXPECT_EQ((**loaded)->digest.size(), 64u);
  EXPECT_GT((**loaded)->bytes, 0);
  const AdapterId id = (**loaded)->adapter;
  const wire::SequenceRequest request{.sequence = SequenceId(1), .adapter = id, .prompt = {1}};
  EXPECT_TRUE((*runner)->engine().Accept(request).ok());

  const auto again = adapters.Load("all-r4");
  ASSERT_TRUE(again.ok());
  EXPECT_EQ((**again)->digest, (**loaded)->digest) << "the same bytes are the same generation";
  EXPECT_NE((**again)->adapter, id);

  *loaded = nullptr;
  EXPECT_FALSE((*runner)->engine().Accept(request).ok());
  EXPECT_FALSE(adapters.Load("nothing").ok());
  EXPECT_FALSE(adapters.Load("../").ok());
}

TEST(LocalAdapters, AnAdapterThatFillsThePoolIsRefused) {
  auto runner = LocalRunner::Create(
      {.model_dir = kModel, .threads = 1, .max_model_len = 8, .pool_bytes = 8 * 2048}, RealClock());
  ASSERT_TRUE(runner.ok()) << runner.status();
  LocalAdapters adapters(**runner,
                         {.roots = {fs::canonical(kModel + "/adapters")},
                          .special_tokens = {},
                          .templates = std::make_shared<gateway::AdapterChatTemplates>()});
  EXPECT_THAT(Message(adapters.Load("qv-r64-bf16").status()), HasSubstr("--pool-bytes"));
}

}  // namespace
}  // namespace aril
