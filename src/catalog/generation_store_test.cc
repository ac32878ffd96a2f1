#include "catalog/generation_store.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>

#include "base/file.h"
#include "base/sha256.h"
#include "base/strings.h"
#include "base/test_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class GenerationStoreTest : public ::testing::Test {
 protected:
  GenerationStoreTest() {
    dir_.Write("source/adapter_config.json", "{}");
    dir_.Write("source/adapter_model.safetensors", "weights");
    dir_.Write("source/README.md", "of no use");
  }
  GenerationStore Open() {
    auto store = GenerationStore::Open(dir_ / "store");
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }
  // The digest of the source, which is kept.
  std::string Import(const GenerationStore& store) {
    auto incoming = store.Copy(dir_ / "source");
    EXPECT_TRUE(incoming.ok()) << incoming.status();
    std::string digest = incoming->digest();
    EXPECT_TRUE(store.Keep(*std::move(incoming)).ok());
    return digest;
  }
  int NumFiles() const {
    return static_cast<int>(std::distance(fs::directory_iterator(dir_ / "store"), {}));
  }

  TestDir dir_;
};

TEST_F(GenerationStoreTest, KeepsWhatAnAdapterIsServedFrom) {
  const GenerationStore store = Open();
  const std::string digest = Import(store);
  EXPECT_EQ(digest,
            Sha256(StrCat("adapter_config.json ", Sha256(std::string("{}")),
                          "\nadapter_model.safetensors ", Sha256(std::string("weights")), "\n")));
  EXPECT_TRUE(store.Has(digest));
  EXPECT_EQ(*ReadFile(store.DirOf(digest) + "/adapter_model.safetensors", 100), "weights");
  EXPECT_FALSE(FileExists(store.DirOf(digest) + "/README.md"));
  EXPECT_THAT(*store.List(), ElementsAre(digest));
  EXPECT_EQ(*DigestOfAdapter(store.DirOf(digest)), digest);

  EXPECT_EQ(Import(store), digest) << "the same bytes are kept once";
  EXPECT_EQ(NumFiles(), 1);
  EXPECT_THAT(*Open().List(), ElementsAre(digest));
}

TEST_F(GenerationStoreTest, TheChatTemplateBelongsToTheGeneration) {
  const GenerationStore store = Open();
  const std::string without = Import(store);
  dir_.Write("source/chat_template.jinja", "{{ messages }}");
  const std::string with = Import(store);
  dir_.Write("source/additional_chat_templates/tool_use.jinja", "{{ tools }}");
  const std::string with_tools = Import(store);
  EXPECT_NE(with, without);
  EXPECT_NE(with_tools, with);
  EXPECT_TRUE(FileExists(store.DirOf(with_tools) + "/additional_chat_templates/tool_use.jinja"));
}

// Its added tokens: transformers 4 lists them in the smaller file, 5 does not.
TEST_F(GenerationStoreTest, ATokenizerThatIsReadBelongsToTheGeneration) {
  const GenerationStore store = Open();
  const std::string without = Import(store);
  dir_.Write("source/tokenizer.json", "{}");
  EXPECT_EQ(Import(store), without) << "nobody reads it alone";
  dir_.Write("source/tokenizer_config.json", R"({"added_tokens_decoder":{}})");
  const std::string listed = Import(store);
  EXPECT_FALSE(FileExists(store.DirOf(listed) + "/tokenizer.json"));
  dir_.Write("source/tokenizer_config.json", "{}");
  const std::string read = Import(store);
  EXPECT_TRUE(FileExists(store.DirOf(read) + "/tokenizer.json"));
  dir_.Write("source/tokenizer.json", R"({"added_tokens":[]})");
  EXPECT_NE(Import(store), read);
}

TEST_F(GenerationStoreTest, TheNamesOfLabelsBelongToAClassifiersGeneration) {
  const GenerationStore store = Open();
  const std::string without = Import(store);
  dir_.Write("source/config.json", R"({"id2label":{"0":"ham"}})");
  EXPECT_EQ(Import(store), without) << "whoever is no classifier does not read it";
  EXPECT_FALSE(FileExists(store.DirOf(without) + "/config.json"));
  EXPECT_EQ(*DigestOfAdapter(dir_ / "source"), without);

  dir_.Write("source/adapter_config.json", R"({"task_type":"SEQ_CLS"})");
  const std::string named = Import(store);
  EXPECT_TRUE(FileExists(store.DirOf(named) + "/config.json"));
  EXPECT_EQ(*DigestOfAdapter(dir_ / "source"), named);
  dir_.Write("source/config.json", R"({"id2label":{"0":"spam"}})");
  EXPECT_NE(Import(store), named);
}

TEST_F(GenerationStoreTest, WhatIsNotKeptIsGone) {
  const GenerationStore store = Open();
  std::string path;
  {
    const auto incoming = store.Copy(dir_ / "source");
    ASSERT_TRUE(incoming.ok());
    path = incoming->dir();
    EXPECT_TRUE(FileExists(path + "/adapter_config.json"));
    EXPECT_THAT(*store.List(), ElementsAre());
  }
  EXPECT_FALSE(FileExists(path));
}

TEST_F(GenerationStoreTest, OpeningRemovesWhatWasCutShort) {
  const std::string digest = Import(Open());
  dir_.Write("store/incoming-abcdef/adapter_config.json", "{");
  EXPECT_THAT(*Open().List(), ElementsAre(digest));
  EXPECT_EQ(NumFiles(), 1);
}

TEST_F(GenerationStoreTest, RemovesOne) {
  const GenerationStore store = Open();
  const std::string digest = Import(store);
  EXPECT_TRUE(store.Remove(digest).ok());
  EXPECT_FALSE(store.Has(digest));
  EXPECT_EQ(NumFiles(), 0);
  EXPECT_TRUE(store.Remove(digest).ok()) << "nothing to do";
}

TEST_F(GenerationStoreTest, OnlyDigestsBecomePaths) {
  const GenerationStore store = Open();
  for (const std::string& text :
       {std::string(".."), std::string("../source"), std::string(), std::string(64, 'G'),
        std::string(63, 'a'), std::string(65, 'a'), std::string(64, '/'), std::string(64, 'A')}) {
    EXPECT_FALSE(store.Has(text)) << text;
    EXPECT_FALSE(IsDigest(text)) << text;
  }
  EXPECT_TRUE(IsDigest(std::string(64, 'a')));
}

TEST_F(GenerationStoreTest, SaysWhatIsWrongWithTheSource) {
  const GenerationStore store = Open();
  EXPECT_EQ(store.Copy(dir_ / "none").status().code(), StatusCode::kNotFound);
  dir_.Write("source/adapter_config.json", std::string((4 << 20) + 1, ' '));
  EXPECT_THAT(Message(store.Copy(dir_ / "source").status()), HasSubstr("4194304 bytes allowed"));
  fs::remove(dir_ / "source/adapter_config.json");
  ASSERT_EQ(mkfifo((dir_ / "source/adapter_config.json").c_str(), 0600), 0);
  EXPECT_THAT(Message(store.Copy(dir_ / "source").status()), HasSubstr("not a regular file"));
  EXPECT_EQ(NumFiles(), 0);
}

TEST_F(GenerationStoreTest, FilesThatAreWrittenThereAreSealed) {
  const GenerationStore store = Open();
  const std::string expected = Import(store);
  auto incoming = store.Begin();
  ASSERT_TRUE(incoming.ok()) << incoming.status();
  const std::string dir = incoming->dir();
  fs::copy_file(dir_ / "source/adapter_config.json", dir + "/adapter_config.json");
  const Status missing = GenerationStore::Seal(&*incoming);
  EXPECT_EQ(missing.code(), StatusCode::kNotFound);
  EXPECT_THAT(Message(missing), HasSubstr("there is no adapter_model.safetensors"));
  fs::copy_file(dir_ / "source/adapter_model.safetensors", dir + "/adapter_model.safetensors");
  dir_.Write("source/config.json", "{}");
  fs::copy_file(dir_ / "source/config.json", dir + "/config.json");
  ASSERT_TRUE(GenerationStore::Seal(&*incoming).ok());
  EXPECT_EQ(incoming->digest(), expected);
  EXPECT_FALSE(FileExists(dir + "/config.json")) << "it is read of classifiers only";
  EXPECT_TRUE(store.Keep(*std::move(incoming)).ok());
  EXPECT_EQ(NumFiles(), 1);

  auto classifier = store.Begin();
  ASSERT_TRUE(classifier.ok()) << classifier.status();
  dir_.Write("source/adapter_config.json", R"({"task_type":"SEQ_CLS"})");
  for (const char* name : {"adapter_config.json", "adapter_model.safetensors", "config.json"}) {
    fs::copy_file(dir_ / ("source/" + std::string(name)), classifier->dir() + "/" + name);
  }
  ASSERT_TRUE(GenerationStore::Seal(&*classifier).ok());
  EXPECT_TRUE(FileExists(classifier->dir() + "/config.json"));
  EXPECT_EQ(classifier->digest(), *DigestOfAdapter(dir_ / "source"));
}

// A disk that takes no more, as the limit on a file's size stands for it: writing fails in the
// middle.
TEST_F(GenerationStoreTest, AFullDiskLeavesNothing) {
  const GenerationStore store = Open();
  dir_.Write("source/adapter_model.safetensors", std::string(3 << 20, 'w'));
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto ignored = signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {.rlim_cur = 1 << 20, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status status = store.Copy(dir_ / "source").status();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, ignored);
  EXPECT_THAT(Message(status), HasSubstr("cannot be stored here: File too large"));
  EXPECT_EQ(NumFiles(), 0);
}

}  // namespace
}  // namespace aril
