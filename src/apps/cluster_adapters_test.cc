// What a gateway without weights makes of the adapters that clients name.

#include "apps/cluster_adapters.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "adapters/test_support.h"
#include "apps/adapter_text_test_support.h"
#include "base/clock.h"
#include "base/strings.h"
#include "base/test_dir.h"
#include "base/test_paths.h"
#include "cluster/fake_key_value_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::ElementsAre;

class ClusterAdaptersTest : public ::testing::Test {
 protected:
  // The adapters that lie beneath a folder, for a base model of this shape.
  void Make(const std::string& root, const ModelSpec& base) {
    names_ = *cluster::SharedNames::Open({.prefix = "aril/", .base_digest = "b"}, store_, clock_);
    adapters_.emplace(
        ClusterAdapters::Options{.roots = AdapterRoots({std::filesystem::canonical(root)}),
                                 .spec = base,
                                 .max_rank = 512,
                                 .parent = "base",
                                 .text_reader = MakeAdapterTextReader(),
                                 .texts = texts_},
        *names_);
  }
  // As if a tenant had given the name to what lies in the folder.
  std::shared_ptr<const Generation> Give(const std::string& tenant, const std::string& source) {
    auto generation = adapters_->Load(source);
    EXPECT_TRUE(generation.ok()) << generation.status();
    const auto put = names_->Put(
        {.owner = tenant,
         .name = "sql",
         .history =
             {{.digest = (**generation)->digest, .since_unix = 5, .split = {}, .source = source}},
         .rank = 2,
         .bytes = 100});
    EXPECT_TRUE(put.ok()) << put.status();
    return *generation;
  }
  std::vector<std::string> SourcesFor(const Generation& generation, const std::string& tenant) {
    return adapters_->Find(generation->adapter, tenant)->shared.sources;
  }

  ManualClock clock_;
  cluster::FakeKeyValueStore store_;
  std::unique_ptr<cluster::SharedNames> names_;
  const std::shared_ptr<gateway::AdapterTexts> texts_ = std::make_shared<gateway::AdapterTexts>();
  std::optional<ClusterAdapters> adapters_;
};

const std::string kGolden = SourcePath("tests/goldens/llama-f32-sharded");

TEST_F(ClusterAdaptersTest, ANamesGenerationComesFromWhereTheNameHasIt) {
  const TestDir dir;
  for (const char* folder : {"first", "second", "moved"}) {
    std::filesystem::copy(kGolden + "/adapters/all-r4", dir / folder);
  }
  Make(dir.path(), *LoadModelSpec(kGolden));
  const auto generation = Give("a", "first");
  EXPECT_THAT(SourcesFor(*generation, "a"), ElementsAre("first"));
  EXPECT_EQ(Give("b", "second"), generation) << "the same bytes";
  EXPECT_THAT(SourcesFor(*generation, "b"), ElementsAre("second", "first"));
  EXPECT_THAT(SourcesFor(*generation, "a"), ElementsAre("first")) << "b's may go with b";
  ASSERT_TRUE(names_->Remove("a", "sql").ok());
  EXPECT_THAT(SourcesFor(*generation, "b"), ElementsAre("second", "first"));
  EXPECT_THAT(SourcesFor(*generation, "a"), ElementsAre("", "first")) << "none of a's own";
  Give("b", "moved");
  EXPECT_THAT(SourcesFor(*generation, "b"), ElementsAre("moved", "first"));
}

// By which gateways know what of a prompt is the base model's.
TEST_F(ClusterAdaptersTest, WhatInvokesAnAdapterIsKnownToAllGateways) {
  Make(kGolden + "/adapters", *LoadModelSpec(kGolden));
  for (const auto& [folder, tokens] : {std::pair("activated-head-r4", std::vector<int32_t>{150}),
                                       std::pair("all-r4", std::vector<int32_t>())}) {
    const auto generation = Give("a", folder);
    EXPECT_EQ(adapters_->Find((*generation)->adapter, "a")->invocation_tokens, tokens);
    EXPECT_EQ(names_->Find((*generation)->digest)->second.invocation_tokens, tokens);
  }
}

// Also who has not read its folder.
TEST_F(ClusterAdaptersTest, TheTokensOfAnAdapterAreKnownToAllGateways) {
  const TestDir dir(kGolden + "/adapters/all-r4");
  dir.Write("tokenizer_config.json",
            R"({"eos_token": "<e>", "added_tokens_decoder": {"1024": {"content": "<e>"}}})");
  ModelSpec spec = *LoadModelSpec(kGolden);
  spec.vocab_size = kVocabSize;
  Make(dir.path(), spec);
  const std::string digest = (*Give("a", "."))->digest;
  const auto other_names =
      *cluster::SharedNames::Open({.prefix = "aril/", .base_digest = "b"}, store_, clock_);
  ASSERT_TRUE(other_names->Poll().ok());
  const TestDir nothing;
  const auto texts = std::make_shared<gateway::AdapterTexts>();
  ClusterAdapters other({.roots = AdapterRoots({std::filesystem::canonical(nothing.path())}),
                         .spec = spec,
                         .max_rank = 512,
                         .parent = "base",
                         .text_reader = MakeAdapterTextReader(),
                         .texts = texts},
                        *other_names);
  const auto generation = other.Recall(digest);
  ASSERT_TRUE(generation.ok()) << generation.status();
  const gateway::ModelTextPtr text = texts->Find((**generation)->adapter);
  ASSERT_NE(text, nullptr);
  EXPECT_EQ(text->tokenizer->eos_token_id(), 1024);
}

// Also where nothing else of its folder is.
TEST_F(ClusterAdaptersTest, TheVocabularyOfAnAdapterIsKnownToAllGateways) {
  Make(kGolden + "/adapters", *LoadModelSpec(kGolden));
  const auto generation = Give("a", "added-r4");
  EXPECT_EQ(names_->Find((*generation)->digest)->second.vocab_size, 175);
  EXPECT_EQ(texts_->Find((*generation)->adapter)->vocab_size, 175);
}

// Rows of its down_proj take more than the 64 KiB in which small adapters are counted.
TEST_F(ClusterAdaptersTest, AWideBasesAdapterIsDescribed) {
  ModelSpec wide;
  wide.vocab_size = kVocabSize;
  wide.hidden_size = 8;
  wide.intermediate_size = 53248;
  wide.num_layers = 1;
  wide.num_heads = 1;
  wide.num_kv_heads = 1;
  wide.head_dim = 8;
  const TestDir dir;
  dir.Write("adapter_config.json", R"({"peft_type":"LORA","r":2,"target_modules":["down_proj"]})");
  const std::string module = "base_model.model.model.layers.0.mlp.down_proj";
  const EditableTensors tensors{
      {{module + ".lora_A.weight", EditableTensors::Tensor::Filled({2, 53248}, 1)},
       {module + ".lora_B.weight", EditableTensors::Tensor::Filled({8, 2}, 1)}}};
  tensors.Write(dir / "adapter_model.safetensors");
  Make(dir.path(), wide);
  const auto generation = adapters_->Load(".");
  ASSERT_TRUE(generation.ok()) << generation.status();
  // Two pages of one row each, and the short rows of the other matrix on a third.
  EXPECT_EQ(names_->Find((**generation)->digest)->second.pool_bytes, 3 * 53248 * 2);
}

}  // namespace
}  // namespace aril
