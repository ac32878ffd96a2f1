#include "apps/local_adapters.h"

#include <filesystem>
#include <limits>
#include <memory>
#include <optional>

#include "adapters/test_support.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/test_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kModel = ARIL_SOURCE_DIR "/tests/goldens/llama-f32-sharded";

AdapterRoots Roots(const std::string& dir) {
  return AdapterRoots(std::vector<fs::path>{fs::canonical(dir)});
}

TEST(LocalAdapters, AGenerationIsTheRunnersUntilNobodyHasIt) {
  auto runner = LocalRunner::Create({.model_dir = kModel, .threads = 1}, RealClock());
  ASSERT_TRUE(runner.ok()) << runner.status();
  const auto templates = std::make_shared<gateway::AdapterChatTemplates>();
  LocalAdapters adapters(
      **runner,
      {.roots = Roots(kModel + "/adapters"), .special_tokens = {}, .templates = templates});
  auto loaded = adapters.Load("all-r4");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ((**loaded)->rank, 4);
  EXPECT_EQ((**loaded)->digest.size(), 64u);
  EXPECT_GT((**loaded)->bytes, 0);
  const AdapterId id = (**loaded)->adapter;
  const wire::SequenceRequest request{
      .sequence = SequenceId(1), .adapters = MixOf(id), .prompt = {1}};
  EXPECT_TRUE((*runner)->engine().Accept(request).ok());

  auto again = adapters.Load("all-r4");
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(*again, *loaded) << "the same bytes are the same generation";

  *loaded = nullptr;
  EXPECT_TRUE((*runner)->engine().Accept(request).ok());
  *again = nullptr;
  EXPECT_FALSE((*runner)->engine().Accept(request).ok());
  loaded = adapters.Load("all-r4");
  ASSERT_TRUE(loaded.ok());
  EXPECT_NE((**loaded)->adapter, id);
  EXPECT_FALSE(adapters.Load("nothing").ok());
  EXPECT_FALSE(adapters.Load("../").ok());
}

TEST(LocalAdapters, AnAdapterThatFillsThePoolIsRefused) {
  auto runner = LocalRunner::Create(
      {.model_dir = kModel, .threads = 1, .max_model_len = 8, .pool_bytes = 8 * 2048}, RealClock());
  ASSERT_TRUE(runner.ok()) << runner.status();
  LocalAdapters adapters(**runner,
                         {.roots = Roots(kModel + "/adapters"),
                          .special_tokens = {},
                          .templates = std::make_shared<gateway::AdapterChatTemplates>()});
  EXPECT_THAT(Message(adapters.Load("qv-r64-bf16").status()), HasSubstr("--pool-bytes"));
}

TEST(LocalAdapters, AChatTemplateThatCannotBeUsedIsRefused) {
  const TestDir dir;
  fs::create_directories(dir / "root");
  fs::copy(kModel + "/adapters/all-r4", dir / "root/mine", fs::copy_options::recursive);
  dir.Write("root/mine/chat_template.jinja", "{% if %}");
  auto runner = LocalRunner::Create({.model_dir = kModel, .threads = 1}, RealClock());
  ASSERT_TRUE(runner.ok()) << runner.status();
  LocalAdapters adapters(**runner,
                         {.roots = Roots(dir / "root"),
                          .special_tokens = {},
                          .templates = std::make_shared<gateway::AdapterChatTemplates>()});
  for (const Status& status : {adapters.Load("mine").status(), adapters.Verify("mine").status()}) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(Message(status), HasSubstr("chat_template.jinja"));
  }
}

// Equal bytes of somebody else, whose files change or go, harm nobody who has his own.
TEST(LocalAdapters, TheSameBytesElsewhereAreLoadedAnewIfTheFirstAreGone) {
  const TestDir dir;
  fs::create_directories(dir / "root");
  for (const char* name : {"hers", "his"}) {
    fs::copy(kModel + "/adapters/all-r4", fs::path(dir / "root") / name,
             fs::copy_options::recursive);
  }
  auto runner = LocalRunner::Create({.model_dir = kModel, .threads = 1}, RealClock());
  ASSERT_TRUE(runner.ok()) << runner.status();
  LocalAdapters adapters(**runner,
                         {.roots = Roots(dir / "root"),
                          .special_tokens = {},
                          .templates = std::make_shared<gateway::AdapterChatTemplates>()});
  const auto hers = adapters.Load("hers");
  ASSERT_TRUE(hers.ok()) << hers.status();
  ASSERT_EQ(*adapters.Load("his"), *hers);
  dir.Write("root/hers/adapter_model.safetensors", "something else");
  EXPECT_FALSE((*runner)->CheckAdapterFiles((**hers)->adapter).ok());
  const auto his = adapters.Load("his");
  ASSERT_TRUE(his.ok()) << his.status();
  EXPECT_EQ((**his)->digest, (**hers)->digest);
  EXPECT_NE((**his)->adapter, (**hers)->adapter);
  EXPECT_TRUE((*runner)->CheckAdapterFiles((**his)->adapter).ok());
  EXPECT_EQ(*adapters.Load("his"), *his);
}

// What nobody uses is closed at once; served where it lies.
TEST(LocalAdapters, WhatIsOpenedAgainIsWhatWasLoaded) {
  const TestDir dir;
  fs::create_directories(dir / "root");
  fs::copy(kModel + "/adapters/all-r4", dir / "root/all-r4", fs::copy_options::recursive);
  fs::copy(kModel + "/adapters/down-r1", dir / "root/down-r1", fs::copy_options::recursive);
  auto runner = LocalRunner::Create(
      {.model_dir = kModel, .threads = 1, .adapter_host_cache_bytes = 0}, RealClock());
  ASSERT_TRUE(runner.ok()) << runner.status();
  LocalAdapters adapters(**runner,
                         {.roots = Roots(dir / "root"),
                          .special_tokens = {},
                          .templates = std::make_shared<gateway::AdapterChatTemplates>()});
  const auto loaded = adapters.Load("all-r4");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ((*loaded)->residence(), Generation::Residence::kDisk);
  EXPECT_EQ((*loaded)->FindPrepared(), nullptr);
  {
    const auto opened = (*loaded)->Prepare();
    ASSERT_TRUE(opened.ok()) << opened.status();
    ASSERT_TRUE(adapters.Load("down-r1").ok());
    EXPECT_NE((*loaded)->FindPrepared(), nullptr) << "a request has it";
  }
  EXPECT_EQ((*runner)->CountAdapters().on_disk + (*runner)->CountAdapters().on_host, 1);
  EXPECT_GT((*runner)->CountAdapters().num_closed, 0);

  const auto config = dir / "root/all-r4/adapter_config.json";
  const auto text = ReadFile(config, 1 << 20);
  ASSERT_TRUE(text.ok());
  dir.Write("root/all-r4/adapter_config.json", *text + " ");
  // Another one, so that the first is closed.
  ASSERT_TRUE(adapters.Load("down-r1").ok());
  const Status changed = (*loaded)->Prepare().status();
  EXPECT_EQ(changed.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(changed), HasSubstr("the files are not those that were loaded"));
  EXPECT_THAT(Message(changed), HasSubstr((**loaded)->digest));
  dir.Write("root/all-r4/adapter_config.json", *text);
  EXPECT_TRUE((*loaded)->Prepare().ok());

  // The same bytes, but where the operator has allowed nothing.
  fs::rename(dir / "root/all-r4", dir / "outside");
  fs::create_directory_symlink(dir / "outside", dir / "root/all-r4");
  ASSERT_TRUE(adapters.Load("down-r1").ok());
  const Status outside = (*loaded)->Prepare().status();
  EXPECT_EQ(outside.code(), StatusCode::kInvalidArgument) << outside;
  EXPECT_THAT(Message(outside), HasSubstr("--adapter-root"));
}

// What a server with --state-dir does, over several starts.
class StoredAdaptersTest : public ::testing::Test {
 protected:
  StoredAdaptersTest() : store_(*GenerationStore::Open(dir_ / "store")) {
    fs::copy(kModel + "/adapters", dir_ / "root", fs::copy_options::recursive);
    Restart();
  }
  void Restart() {
    adapters_.reset();
    runner_ = nullptr;
    auto runner = LocalRunner::Create({.model_dir = kModel, .threads = 1}, RealClock());
    ASSERT_TRUE(runner.ok()) << runner.status();
    runner_ = *std::move(runner);
    adapters_.emplace(*runner_, LocalAdapters::Options{.roots = Roots(dir_ / "root"),
                                                       .special_tokens = {},
                                                       .templates = templates_,
                                                       .store = &store_});
  }
  bool Accepts(AdapterId id) {
    return runner_->engine()
        .Accept({.sequence = SequenceId(1), .adapters = MixOf(id), .prompt = {1}})
        .ok();
  }
  // The row that the registry would have.

  TestDir dir_;
  const GenerationStore store_;
  const std::shared_ptr<gateway::AdapterChatTemplates> templates_ =
      std::make_shared<gateway::AdapterChatTemplates>();
  std::unique_ptr<LocalRunner> runner_;
  std::optional<LocalAdapters> adapters_;
};

TEST_F(StoredAdaptersTest, WhatWasLoadedIsServedAgainWithoutItsSource) {
  dir_.Write("root/all-r4/chat_template.jinja", "own");
  auto loaded = adapters_->Load("all-r4");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const Generation::Description stored = ***loaded;
  fs::remove_all(dir_ / "root/all-r4");
  EXPECT_TRUE(Accepts((**loaded)->adapter));
  *loaded = nullptr;

  Restart();
  auto restored = adapters_->Restore(stored);
  EXPECT_FALSE(templates_->Find((*restored)->adapter).has_value()) << "nothing has been opened";
  EXPECT_EQ(adapters_->Restore(stored), restored) << "one name or two, one adapter";
  EXPECT_EQ(restored->residence(), Generation::Residence::kDisk);
  EXPECT_TRUE(Accepts((*restored)->adapter)) << "which opens it";
  EXPECT_EQ(restored->FindPrepared(), nullptr) << "its template has not been read";
  EXPECT_TRUE(restored->Prepare().ok());
  EXPECT_NE(restored->FindPrepared(), nullptr);
  EXPECT_EQ(restored->residence(), Generation::Residence::kHost);
  EXPECT_TRUE(templates_->Find((*restored)->adapter).has_value());
  EXPECT_TRUE(Accepts((*restored)->adapter));
  EXPECT_EQ((*restored)->rank, 4);
  const AdapterId id = (*restored)->adapter;
  restored = nullptr;
  EXPECT_FALSE(Accepts(id));
  EXPECT_FALSE(templates_->Find(id).has_value());
}

TEST_F(StoredAdaptersTest, AnAdapterThatIsRefusedLeavesNothing) {
  EditTensors(dir_ / "root/all-r4/adapter_model.safetensors", [](auto& tensors) {
    tensors.begin()->second.Set(0, std::numeric_limits<float>::quiet_NaN());
  });
  for (const Status& status :
       {adapters_->Load("all-r4").status(), adapters_->Verify("all-r4").status()}) {
    EXPECT_THAT(Message(status), HasSubstr("holds NaN"));
    EXPECT_THAT(Message(status), StartsWith("all-r4/adapter_model.safetensors"))
        << "as the client named it";
  }
  fs::remove(dir_ / "root/down-r1/adapter_config.json");
  EXPECT_THAT(Message(adapters_->Load("down-r1").status()), StartsWith("down-r1/adapter_conf"));
  EXPECT_TRUE(fs::is_empty(dir_ / "store"));
}

TEST_F(StoredAdaptersTest, FilesThatGoAreSaidAndMayComeBack) {
  auto loaded = adapters_->Load("all-r4");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const Generation::Description stored = ***loaded;
  *loaded = nullptr;
  Restart();
  const std::string files = store_.DirOf(stored.digest);
  fs::rename(files, dir_ / "away");
  const auto restored = adapters_->Restore(stored);
  EXPECT_EQ(restored->Prepare().status().code(), StatusCode::kNotFound);
  EXPECT_FALSE(Accepts((*restored)->adapter));
  fs::rename(dir_ / "away", files);
  EXPECT_TRUE(restored->Prepare().ok());
  EXPECT_TRUE(Accepts((*restored)->adapter));
}

TEST_F(StoredAdaptersTest, AGenerationIsRecalledByItsDigest) {
  auto loaded = adapters_->Load("all-r4");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const std::string digest = (**loaded)->digest;
  EXPECT_EQ(*adapters_->Recall(digest), *loaded);
  *loaded = nullptr;
  const auto recalled = adapters_->Recall(digest);
  ASSERT_TRUE(recalled.ok()) << recalled.status();
  EXPECT_EQ((**recalled)->rank, 4);
  EXPECT_TRUE((*recalled)->Prepare().ok());
  EXPECT_TRUE(Accepts((**recalled)->adapter));
  for (const std::string& other : {std::string(64, '0'), std::string("../root/all-r4")}) {
    EXPECT_EQ(adapters_->Recall(other).status().code(), StatusCode::kNotFound);
  }
}

TEST_F(StoredAdaptersTest, VerifyingSaysWhatLoadingWouldGive) {
  const auto loaded = adapters_->Load("all-r4");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const auto verified = adapters_->Verify("all-r4");
  ASSERT_TRUE(verified.ok()) << verified.status();
  EXPECT_EQ(verified->digest, (**loaded)->digest);
  EXPECT_EQ(verified->bytes, (**loaded)->bytes);
}

}  // namespace
}  // namespace aril
