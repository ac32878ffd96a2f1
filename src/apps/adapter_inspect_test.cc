#include "apps/adapter_inspect.h"

#include <filesystem>
#include <sstream>

#include "adapters/test_support.h"
#include "base/file.h"
#include "base/test_dir.h"
#include "base/test_paths.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kModel = SourcePath("tests/goldens/mistral-f32");

struct Outcome {
  Status status;
  std::string text;
};

Outcome Inspect(const AdapterInspectOptions& options) {
  std::ostringstream out;
  Status status = InspectAdapter(options, out);
  return {status, out.str()};
}

TEST(AdapterInspect, SaysWhatAnAdapterIs) {
  const Outcome outcome = Inspect({.adapter_dir = std::string(kModel) + "/adapters/patterns-r6"});
  EXPECT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_THAT(
      outcome.text,
      AllOf(HasSubstr("LoRA, rank 6, lora_alpha 9"), HasSubstr("1.self_attn.k_proj"),
            HasSubstr("layers.1.mlp.up_proj: 16"), HasSubstr("tensors in F32"),
            HasSubstr("goldens/mistral-f32 (by its author's account)"), HasSubstr("--model DIR")));
}

TEST(AdapterInspect, SaysWhetherItFitsAndWhatItTakes) {
  const Outcome outcome =
      Inspect({std::string(kModel) + "/adapters/one-layer-r4", std::string(kModel)});
  EXPECT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("MistralForCausalLM, 2 layers"),
                                  HasSubstr("1 layer × q_proj, k_proj, v_proj, o_proj"),
                                  HasSubstr("pages of "), HasSubstr(" in F32")));
}

TEST(AdapterInspect, CountsExperts) {
  const std::string model = SourcePath("tests/goldens/qwen3-moe-f32");
  const Outcome all = Inspect({model + "/adapters/all-r4", model});
  EXPECT_TRUE(all.status.ok()) << all.status;
  EXPECT_THAT(all.text, AllOf(HasSubstr("parameters  gate_up_proj, gate.weight, down_proj"),
                              HasSubstr("2 layers × q_proj, k_proj, v_proj, o_proj, router, "
                                        "gate_proj of 7 experts, up_proj of 7 experts, ")));
  const Outcome down = Inspect({model + "/adapters/down-r5-f16", model});
  EXPECT_THAT(down.text, HasSubstr("2 layers × k_proj, down_proj of 7 experts\n"));
}

TEST(AdapterInspect, SaysWhatInvokesAnActivatedLora) {
  const TestDir dir(SourcePath("models/demo/adapters/sql"));
  EXPECT_THAT(Inspect({.adapter_dir = dir.path()}).text, Not(HasSubstr("invoked by")));
  ReplaceInFile(dir / "adapter_config.json", R"("alora_invocation_tokens": null)",
                R"("alora_invocation_tokens": [1, 3])");
  const Outcome outcome = Inspect({dir.path(), SourcePath("models/demo/base")});
  EXPECT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("invoked by  the tokens 1, 3, from which"),
                                  HasSubstr("by the text \"<|end|><|assistant|>\"\n")));
}

TEST(AdapterInspect, SaysWhichTokensItBrings) {
  const std::string model = SourcePath("tests/goldens/granite-bf16");
  const Outcome rows = Inspect({model + "/adapters/tokens-r3", model});
  EXPECT_TRUE(rows.status.ok()) << rows.status;
  EXPECT_THAT(rows.text, HasSubstr("brings      7 rows of the embedding and 3 rows of lm_head\n"));
  EXPECT_THAT(rows.text, Not(HasSubstr("vocabulary")));
  const std::string other = SourcePath("tests/goldens/llama-f32-sharded");
  const Outcome resized = Inspect({other + "/adapters/added-r4", other});
  EXPECT_TRUE(resized.status.ok()) << resized.status;
  EXPECT_THAT(resized.text,
              AllOf(HasSubstr("vocabulary  175 tokens, and the base model's has 171\n"),
                    HasSubstr("brings      4 rows of the embedding and 4 rows of lm_head\n")));

  const TestDir dir(SourcePath("models/demo/adapters/sql"));
  dir.Write("tokenizer_config.json",
            R"({"eos_token": "<e>", "added_tokens_decoder": {"3": {"content": "<e>"}}})");
  const Outcome own = Inspect({dir.path(), SourcePath("models/demo/base")});
  EXPECT_TRUE(own.status.ok()) << own.status;
  EXPECT_THAT(own.text,
              AllOf(HasSubstr("own tokens  3 \"<e>\"\n"), HasSubstr("ends at     \"<e>\"")));
  dir.Write("tokenizer_config.json", R"({"added_tokens_decoder": {"300": {"content": "<e>"}}})");
  EXPECT_THAT(Inspect({dir.path(), SourcePath("models/demo/base")}).status.message(),
              HasSubstr("the token of id 300"));
}

TEST(AdapterInspect, SaysWhatAClassifierIs) {
  const std::string dir = SourcePath("models/demo/classifiers/triage");
  const Outcome outcome = Inspect({dir, SourcePath("models/demo/base")});
  EXPECT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("task        to classify texts (SEQ_CLS)\n"),
                                  HasSubstr("labels      5\n")));
}

TEST(AdapterInspect, WarnsOfTargetsThatTheBaseLacks) {
  const TestDir dir(std::string(kModel) + "/adapters/one-layer-r4");
  ReplaceInFile(dir / "adapter_config.json", R"("k_proj",)", R"("k_proj", "c_attn",)");
  const Outcome outcome = Inspect({dir.path(), kModel});
  EXPECT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("fits        yes"),
                                  HasSubstr(R"(warning     the config names "c_attn", which)")));
}

// What PEFT writes beside an adapted embedding.
TEST(AdapterInspect, ACopyOfATiedMatrixFits) {
  const std::string model = SourcePath("tests/goldens/qwen2-f32");
  const TestDir dir(model + "/adapters/embedding-r4");
  EditTensors(dir / "adapter_model.safetensors", [](auto& tensors) {
    tensors["base_model.model.model.embed_tokens.base_layer.weight"] =
        EditableTensors::Tensor::Filled({150, 48}, 1);
  });
  const Outcome outcome = Inspect({dir.path(), model});
  EXPECT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_THAT(outcome.text, HasSubstr("fits        yes"));
}

TEST(AdapterInspect, SaysWhyNot) {
  const Outcome other =
      Inspect({SourcePath("tests/goldens/llama-f32-sharded/adapters/all-r4"), kModel});
  EXPECT_THAT(other.text, HasSubstr("fits        no"));
  EXPECT_THAT(Message(other.status), HasSubstr("trained for another base model"));
  EXPECT_THAT(Message(Inspect({.adapter_dir = kModel}).status), HasSubstr("adapter_config.json"));
}

// Real files, whole and broken.
TEST(AdapterInspect, RealAdapters) {
  const std::string weights = SharedPath("data/adapters/weights/");
  if (!FileExists(weights)) GTEST_SKIP() << weights << " is absent";
  for (const char* name : {"qwen2.5-0.5b_r8_qv", "tinyllama_r4_emotion", "tinyllama_r4_keywords"}) {
    const Outcome outcome = Inspect({.adapter_dir = weights + name});
    EXPECT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_THAT(outcome.text, HasSubstr("tensors in ")) << outcome.text;
  }
  const auto error_of = [&](const std::string& name) {
    return Message(Inspect({.adapter_dir = weights + name}).status);
  };
  EXPECT_THAT(error_of("TRUNCATED_qwen2.5-vl_r16"),
              AllOf(HasSubstr("adapter_model.safetensors"), HasSubstr("truncated")));
  EXPECT_THAT(error_of("LFS_POINTER_mistral-7b_r8"), HasSubstr("Git LFS pointer"));
}

}  // namespace
}  // namespace aril
