// Embedding models are saved as a decoder alone, and their adapters are trained on it: other names,
// and the same embeddings as of the whole model.

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "adapters/test_support.h"
#include "base/test_dir.h"
#include "base/test_paths.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "support/engine_fixture.h"

namespace aril {
namespace {

using ::testing::HasSubstr;

const std::vector<int32_t> kPrompt = {3, 17, 5, 40, 11, 2, 29};

// Of the base model, then of each adapter.
std::vector<std::vector<float>> Embeddings(LocalRunner& runner, size_t num_adapters) {
  std::vector<wire::SequenceRequest> requests;
  for (size_t i = 0; i <= num_adapters; ++i) {
    const AdapterMix mix =
        i == 0 ? AdapterMix() : AdapterMix{{AdapterId(static_cast<int32_t>(i - 1)), 1}};
    requests.push_back(GreedyRequest(static_cast<int64_t>(i), kPrompt, 0, mix));
    requests.back().pooling = wire::Pooling::kEmbedding;
  }
  std::vector<std::vector<float>> embeddings;
  for (Generated& generated : RunAll(runner.engine(), requests)) {
    EXPECT_TRUE(generated.error.ok()) << generated.error;
    embeddings.push_back(std::move(generated.pooled));
  }
  return embeddings;
}

struct Alone {
  const char* model;
  std::vector<std::string> adapters;
};

class DecoderAlone : public ::testing::TestWithParam<Alone> {};

TEST_P(DecoderAlone, GivesTheEmbeddingsOfTheWholeModel) {
  const std::string golden = SourcePath("tests/goldens/") + GetParam().model;
  const TestDir dir(golden);
  MakeDecoderAlone(dir.path());
  LocalRunnerOptions whole{.model_dir = golden};
  LocalRunnerOptions alone{.model_dir = dir.path()};
  for (const std::string& name : GetParam().adapters) {
    whole.adapter_dirs.push_back(golden + "/adapters/" + name);
    alone.adapter_dirs.push_back(dir / ("adapters/" + name));
    std::filesystem::create_directories(alone.adapter_dirs.back());
    std::filesystem::copy(whole.adapter_dirs.back(), alone.adapter_dirs.back());
    MakeAdapterOfDecoder(alone.adapter_dirs.back());
  }
  const auto runner = OpenRunner(alone);
  EXPECT_FALSE(runner->spec().has_lm_head);
  const size_t num_adapters = whole.adapter_dirs.size();
  const auto embeddings = Embeddings(*runner, num_adapters);
  EXPECT_EQ(embeddings, Embeddings(*OpenRunner(whole), num_adapters));
  for (size_t i = 1; i < embeddings.size(); ++i) EXPECT_NE(embeddings[i], embeddings[0]);
  // An adapter may have been trained on the whole model.
  LocalRunnerOptions mixed = alone;
  mixed.adapter_dirs = whole.adapter_dirs;
  EXPECT_EQ(Embeddings(*OpenRunner(mixed), num_adapters), embeddings);

  for (const int32_t max_tokens : {0, 1}) {
    const auto accepted = runner->engine().Accept(GreedyRequest(100, kPrompt, max_tokens));
    ASSERT_EQ(accepted.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(Message(accepted.status())),
                HasSubstr("makes embeddings and classes, and no text"));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Families, DecoderAlone,
    ::testing::Values(Alone{"mistral-f32", {"all-r8", "one-layer-r4"}},
                      Alone{"gemma2-f32", {"all-r8"}}, Alone{"gemma3-f32", {"dora-embedding-r6"}},
                      Alone{"phi3-f32", {"all-r4", "dora-r5"}},
                      Alone{"granite-bf16", {"all-r8-bf16"}},
                      Alone{"mixtral-bf16", {"all-r4-bf16", "modules-r6-bf16"}},
                      Alone{"qwen3-f32", {"qv-r16"}}),
    [](const auto& test) {
      std::string name = test.param.model;
      std::ranges::replace(name, '-', '_');
      return name;
    });

// As Qwen3-Embedding-8B is saved; a tied model has an lm_head all the same.
TEST(DecoderAlone, TheClassMayBeThatOfTheWholeModel) {
  for (const char* name : {"mistral-f32", "gemma2-f32"}) {
    const std::string golden = SourcePath("tests/goldens/") + name;
    const TestDir dir(golden);
    MakeDecoderAlone(dir.path());
    std::filesystem::copy(golden + "/config.json", dir / "config.json",
                          std::filesystem::copy_options::overwrite_existing);
    const auto whole = OpenRunner({.model_dir = golden});
    const auto alone = OpenRunner({.model_dir = dir.path()});
    EXPECT_EQ(alone->spec().has_lm_head, whole->spec().tie_word_embeddings) << name;
    EXPECT_EQ(Embeddings(*alone, 0), Embeddings(*whole, 0)) << name;
  }
}

TEST(DecoderAlone, AnAdapterOfLmHeadIsRefused) {
  const std::string golden = SourcePath("tests/goldens/mistral-f32");
  const TestDir dir(golden);
  MakeDecoderAlone(dir.path());
  const auto spec = LoadModelSpec(dir.path());
  ASSERT_TRUE(spec.ok()) << spec.status();
  const TestDir adapter;
  WriteRandomAdapter(adapter.path(), *spec, /*use_dora=*/false, /*seed=*/1);
  adapter.Write("adapter_config.json",
                R"({"peft_type":"LORA","r":4,"target_modules":["q_proj","lm_head"]})");
  const auto opened = Adapter::OpenWithoutBase(adapter.path(), *spec, kMaxLoraRank);
  ASSERT_FALSE(opened.ok());
  EXPECT_THAT(std::string(Message(opened.status())), HasSubstr("lm_head, which this base model"));
}

}  // namespace
}  // namespace aril
