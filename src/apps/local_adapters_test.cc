#include "apps/local_adapters.h"

#include <filesystem>
#include <limits>
#include <memory>
#include <optional>

#include "adapters/test_support.h"
#include "apps/adapter_text_test_support.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/test_dir.h"
#include "base/test_paths.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kModel = SourcePath("tests/goldens/llama-f32-sharded");

AdapterRoots Roots(const std::string& dir) {
  return AdapterRoots(std::vector<fs::path>{fs::canonical(dir)});
}

// A runner, and what it may load.
class LocalAdaptersTest : public ::testing::Test {
 protected:
  // Adapters beneath `root`; of `options`, what is not the model and the threads.
  void Start(const std::string& root, LocalRunnerOptions options = {},
             const GenerationStore* store = nullptr) {
    adapters_.reset();
    runner_ = nullptr;
    options.model_dir = kModel;
    options.threads = 1;
    auto runner = LocalRunner::Create(options, RealClock());
    ASSERT_TRUE(runner.ok()) << runner.status();
    runner_ = *std::move(runner);
    adapters_.emplace(
        *runner_,
        LocalAdapters::Options{
            .roots = Roots(root), .text_reader = text_reader_, .texts = texts_, .store = store});
  }
  // A copy of one of the model's adapters in the folder that tests call the root.
  void CopyAdapter(const std::string& name, const std::string& as) {
    fs::create_directories(root());
    fs::copy(kModel + "/adapters/" + name, fs::path(root()) / as, fs::copy_options::recursive);
  }
  std::string root() const { return dir_ / "root"; }
  bool Accepts(AdapterId id) {
    return runner_->engine()
        .Accept({.sequence = SequenceId(1), .adapters = MixOf(id), .prompt = {1}})
        .ok();
  }

  TestDir dir_;
  const std::shared_ptr<const AdapterTextReader> text_reader_ = MakeAdapterTextReader();
  const std::shared_ptr<gateway::AdapterTexts> texts_ = std::make_shared<gateway::AdapterTexts>();
  std::unique_ptr<LocalRunner> runner_;
  std::optional<LocalAdapters> adapters_;
};

TEST_F(LocalAdaptersTest, AGenerationIsTheRunnersUntilNobodyHasIt) {
  Start(kModel + "/adapters");
  auto loaded = adapters_->Load("all-r4");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ((**loaded)->rank, 4);
  EXPECT_EQ((**loaded)->digest.size(), 64u);
  EXPECT_GT((**loaded)->bytes, 0);
  const AdapterId id = (**loaded)->adapter;
  EXPECT_TRUE(Accepts(id));

  auto again = adapters_->Load("all-r4");
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(*again, *loaded) << "the same bytes are the same generation";

  *loaded = nullptr;
  EXPECT_TRUE(Accepts(id));
  *again = nullptr;
  EXPECT_FALSE(Accepts(id));
  loaded = adapters_->Load("all-r4");
  ASSERT_TRUE(loaded.ok());
  EXPECT_NE((**loaded)->adapter, id);
  EXPECT_FALSE(adapters_->Load("nothing").ok());
  EXPECT_FALSE(adapters_->Load("../").ok());
}

TEST_F(LocalAdaptersTest, AnAdapterThatFillsThePoolIsRefused) {
  Start(kModel + "/adapters", {.max_model_len = 8, .pool_bytes = 8 * 2048});
  EXPECT_THAT(Message(adapters_->Load("qv-r64-bf16").status()), HasSubstr("--pool-bytes"));
}

TEST_F(LocalAdaptersTest, AChatTemplateThatCannotBeUsedIsRefused) {
  CopyAdapter("all-r4", "mine");
  dir_.Write("root/mine/chat_template.jinja", "{% if %}");
  Start(root());
  for (const Status& status :
       {adapters_->Load("mine").status(), adapters_->Verify("mine").status()}) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(Message(status), HasSubstr("chat_template.jinja"));
  }
  EXPECT_EQ(runner_->CountAdapters().open_bytes, 0) << "nobody can use it";
  fs::remove(fs::path(root()) / "mine/chat_template.jinja");
  EXPECT_TRUE(adapters_->Load("mine").ok());
}

// Of which texts are told.
TEST_F(LocalAdaptersTest, AnAdapterHasItsVocabulary) {
  Start(kModel + "/adapters");
  for (const auto& [name, size] : {std::pair("added-r4", 175), {"all-r4", 171}}) {
    const auto generation = adapters_->Load(name);
    ASSERT_TRUE(generation.ok()) << generation.status();
    EXPECT_EQ(texts_->Find((**generation)->adapter)->vocab_size, size);
  }
}

// Equal bytes of somebody else, whose files change or go, harm nobody who has his own.
TEST_F(LocalAdaptersTest, TheSameBytesElsewhereAreLoadedAnewIfTheFirstAreGone) {
  CopyAdapter("all-r4", "hers");
  CopyAdapter("all-r4", "his");
  Start(root());
  const auto hers = adapters_->Load("hers");
  ASSERT_TRUE(hers.ok()) << hers.status();
  ASSERT_EQ(*adapters_->Load("his"), *hers);
  dir_.Write("root/hers/adapter_model.safetensors", "something else");
  EXPECT_FALSE(runner_->CheckAdapterFiles((**hers)->adapter).ok());
  const auto his = adapters_->Load("his");
  ASSERT_TRUE(his.ok()) << his.status();
  EXPECT_EQ((**his)->digest, (**hers)->digest);
  EXPECT_NE((**his)->adapter, (**hers)->adapter);
  EXPECT_TRUE(runner_->CheckAdapterFiles((**his)->adapter).ok());
  EXPECT_EQ(*adapters_->Load("his"), *his);
}

// What nobody uses is closed at once; served where it lies.
TEST_F(LocalAdaptersTest, WhatIsOpenedAgainIsWhatWasLoaded) {
  CopyAdapter("all-r4", "all-r4");
  CopyAdapter("down-r1", "down-r1");
  Start(root(), {.adapter_host_cache_bytes = 0});
  const auto loaded = adapters_->Load("all-r4");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ((*loaded)->residence(), Generation::Residence::kDisk);
  EXPECT_EQ((*loaded)->FindPrepared(), nullptr);
  {
    const auto opened = (*loaded)->Prepare();
    ASSERT_TRUE(opened.ok()) << opened.status();
    ASSERT_TRUE(adapters_->Load("down-r1").ok());
    EXPECT_NE((*loaded)->FindPrepared(), nullptr) << "a request has it";
  }
  EXPECT_EQ(runner_->CountAdapters().on_disk + runner_->CountAdapters().on_host, 1);
  EXPECT_GT(runner_->CountAdapters().num_closed, 0);

  const auto config = dir_ / "root/all-r4/adapter_config.json";
  const auto text = ReadFile(config, 1 << 20);
  ASSERT_TRUE(text.ok());
  dir_.Write("root/all-r4/adapter_config.json", *text + " ");
  // Another one, so that the first is closed.
  ASSERT_TRUE(adapters_->Load("down-r1").ok());
  const Status changed = (*loaded)->Prepare().status();
  EXPECT_EQ(changed.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(changed), HasSubstr("the files are not those that were loaded"));
  EXPECT_THAT(Message(changed), HasSubstr((**loaded)->digest));
  dir_.Write("root/all-r4/adapter_config.json", *text);
  EXPECT_TRUE((*loaded)->Prepare().ok());

  // The same bytes, but where the operator has allowed nothing.
  fs::rename(dir_ / "root/all-r4", dir_ / "outside");
  fs::create_directory_symlink(dir_ / "outside", dir_ / "root/all-r4");
  ASSERT_TRUE(adapters_->Load("down-r1").ok());
  const Status outside = (*loaded)->Prepare().status();
  EXPECT_EQ(outside.code(), StatusCode::kInvalidArgument) << outside;
  EXPECT_THAT(Message(outside), HasSubstr("--adapter-root"));
}

// What a server with --state-dir does, over several starts.
class StoredAdaptersTest : public LocalAdaptersTest {
 protected:
  StoredAdaptersTest() : store_(*GenerationStore::Open(dir_ / "store")) {
    fs::copy(kModel + "/adapters", root(), fs::copy_options::recursive);
    Restart();
  }
  void TearDown() override {
    adapters_.reset();  // before the store
    runner_ = nullptr;
  }
  void Restart() { Start(root(), {}, &store_); }
  // The row that the registry would have.

  const GenerationStore store_;
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
  EXPECT_EQ(texts_->Find((*restored)->adapter), nullptr) << "nothing has been opened";
  EXPECT_EQ(adapters_->Restore(stored), restored) << "one name or two, one adapter";
  EXPECT_EQ(restored->residence(), Generation::Residence::kDisk);
  EXPECT_TRUE(Accepts((*restored)->adapter)) << "which opens it";
  EXPECT_EQ(restored->FindPrepared(), nullptr) << "its template has not been read";
  EXPECT_TRUE(restored->Prepare().ok());
  EXPECT_NE(restored->FindPrepared(), nullptr);
  EXPECT_EQ(restored->residence(), Generation::Residence::kHost);
  EXPECT_NE(texts_->Find((*restored)->adapter), nullptr);
  EXPECT_TRUE(Accepts((*restored)->adapter));
  EXPECT_EQ((*restored)->rank, 4);
  const AdapterId id = (*restored)->adapter;
  restored = nullptr;
  EXPECT_FALSE(Accepts(id));
  EXPECT_EQ(texts_->Find(id), nullptr);
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
