#include "spec/embedding_spec.h"

#include "base/test_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// As sentence-transformers writes it.
std::string Modules(const std::string& more) {
  return R"([{"idx":0,"name":"0","path":"","type":"sentence_transformers.models.Transformer"},)"
         R"({"idx":1,"name":"1","path":"1_Pooling","type":"sentence_transformers.models.Pooling"})" +
         more + "]";
}

StatusOr<EmbeddingSpec> Load(const std::string& modules, const std::string& pooling) {
  const TestDir dir;
  dir.Write("modules.json", modules);
  dir.Write("1_Pooling/config.json", pooling);
  return LoadEmbeddingSpec(dir.path());
}

// Of Qwen3-Embedding.
constexpr const char* kLastToken =
    R"({"word_embedding_dimension":1024,"pooling_mode_cls_token":false,)"
    R"("pooling_mode_mean_tokens":false,"pooling_mode_max_tokens":false,)"
    R"("pooling_mode_lasttoken":true,"include_prompt":true})";

TEST(EmbeddingSpec, OfALanguageModelIsNormalized) {
  const TestDir dir;
  const auto spec = LoadEmbeddingSpec(dir.path());
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_TRUE(spec->normalize);
}

TEST(EmbeddingSpec, IsWhatTheModulesSay) {
  const auto normalized = Load(
      Modules(R"(,{"idx":2,"path":"2_Normalize","type":"sentence_transformers.models.Normalize"})"),
      kLastToken);
  ASSERT_TRUE(normalized.ok()) << normalized.status();
  EXPECT_TRUE(normalized->normalize);
  const auto raw = Load(Modules(""), R"({"pooling_mode":"lasttoken","embedding_dimension":8})");
  ASSERT_TRUE(raw.ok()) << raw.status();
  EXPECT_FALSE(raw->normalize);
}

TEST(EmbeddingSpec, RefusesWhatItDoesNotComputeAndNamesIt) {
  const struct {
    std::string modules, pooling, message;
  } cases[] = {
      {Modules(""), R"({"pooling_mode_mean_tokens":true,"pooling_mode_lasttoken":false})",
       R"(1_Pooling/config.json: "pooling_mode_mean_tokens" is true, which is not supported)"},
      {Modules(""), R"({"pooling_mode_lasttoken":true,"pooling_mode_max_tokens":true})",
       R"("pooling_mode_max_tokens" is true)"},
      {Modules(""), R"({"pooling_mode":"mean"})", R"("pooling_mode" is "mean")"},
      {Modules(""), R"({"word_embedding_dimension":8})", R"("pooling_mode_lasttoken" is)"},
      {R"([{"path":"","type":"custom_st.Transformer"}])", kLastToken,
       R"("type" is "custom_st.Transformer")"},
      {Modules(R"(,{"path":"2_Dense","type":"sentence_transformers.models.Dense"})"), kLastToken,
       R"("type" is "sentence_transformers.models.Dense")"},
      {R"([{"path":"","type":"sentence_transformers.models.Transformer"}])", kLastToken,
       "no module of the class Pooling"},
      {R"({"0":1})", kLastToken, "is an object, not an array"},
      {"[7]", kLastToken, "no object"},
      {"[", kLastToken, "modules.json"},
      {Modules(""), "7", "1_Pooling/config.json"},
  };
  for (const auto& c : cases) {
    const auto spec = Load(c.modules, c.pooling);
    ASSERT_FALSE(spec.ok()) << c.message;
    EXPECT_THAT(std::string(Message(spec.status())),
                AllOf(HasSubstr("modules.json"), HasSubstr(c.message)));
  }
}

}  // namespace
}  // namespace aril
