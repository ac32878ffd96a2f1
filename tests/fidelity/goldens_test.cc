// Tiny checkpoints of every architecture, each with several PEFT adapters, alone and mixed, against
// transformers + peft in double precision. The goldens and the derivation of their tolerances:
// tools/goldens/README.md.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>
#include <optional>

#include "adapters/adapter.h"
#include "base/file.h"
#include "base/json.h"
#include "base/strings.h"
#include "base/test_paths.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "spec/base_checkpoint.h"
#include "spec/lora_spec.h"
#include "support/engine_fixture.h"
#include "tensor/safetensors.h"

namespace aril {
namespace {

const std::string kGoldens = SourcePath("tests/goldens");

struct Case {
  std::vector<std::pair<std::string, float>> mix;  // adapters and weights; none: the base model
  std::vector<int32_t> prompt;
  std::string logits_key;
  std::vector<int64_t> positions;
  std::vector<int32_t> greedy;
  double max_tolerance;
  double rms_tolerance;
  // Of an activated LoRA: none if the prompt does not invoke it.
  std::optional<int64_t> first_token;
};

double Number(const Json& object, const std::string& key) {
  double value = NAN;
  EXPECT_TRUE(object.Find(key) != nullptr && object.Find(key)->AsNumber(&value)) << key;
  return value;
}

template <typename Int>
std::vector<Int> Ints(const Json& list) {
  std::vector<Int> values;
  for (const Json& value : *list.AsArray()) values.push_back(static_cast<Int>(*value.AsInt()));
  return values;
}

std::vector<std::pair<std::string, float>> ReadMix(const Json& json) {
  std::vector<std::pair<std::string, float>> mix;
  if (const Json* list = json.Find("mix")) {
    for (const Json& use : *list->AsArray()) {
      double weight = NAN;
      EXPECT_TRUE((*use.AsArray())[1].AsNumber(&weight));
      mix.emplace_back(*(*use.AsArray())[0].AsString(), static_cast<float>(weight));
    }
  } else if (const std::string* adapter = json.Find("adapter")->AsString()) {
    mix.emplace_back(*adapter, 1.0f);
  }
  return mix;
}

std::optional<int64_t> FirstToken(const Json& c) {
  const Json* const token = c.Find("first_token");
  if (token == nullptr) return 0;
  return token->is_null() ? std::nullopt : std::optional(*token->AsInt());
}

std::vector<Case> ReadCases(const std::string& dir, const std::string& dtype) {
  const auto text = ReadFile(dir + "/cases.json", 16 << 20);
  EXPECT_TRUE(text.ok()) << text.status();
  const auto json = Json::Parse(*text);
  EXPECT_TRUE(json.ok()) << json.status();
  std::vector<Case> cases;
  for (const Json& c : *json->AsArray()) {
    cases.push_back({.mix = ReadMix(c),
                     .prompt = Ints<int32_t>(*c.Find("prompt")),
                     .logits_key = *c.Find("logits_key")->AsString(),
                     .positions = Ints<int64_t>(*c.Find("positions")),
                     .greedy = Ints<int32_t>(*c.Find("greedy")),
                     .max_tolerance = Number(c, "tolerance_" + dtype),
                     .rms_tolerance = Number(c, "rms_tolerance_" + dtype),
                     .first_token = FirstToken(c)});
  }
  return cases;
}

std::vector<std::string> ModelNames() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kGoldens)) {
    if (entry.is_directory()) names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

using Parameters = std::tuple<std::string, kernels::Isa>;

class Goldens : public ::testing::TestWithParam<Parameters> {
 protected:
  std::string Dir() const { return kGoldens + "/" + std::get<0>(GetParam()); }

  void Open(const std::string& dtype) {
    LocalRunnerOptions options{
        .model_dir = Dir(), .dtype = dtype, .isa = std::string(Name(std::get<1>(GetParam())))};
    for (const auto& entry : std::filesystem::directory_iterator(Dir() + "/adapters")) {
      adapter_ids_[entry.path().filename()] =
          AdapterId(static_cast<int32_t>(options.adapter_dirs.size()));
      options.adapter_dirs.push_back(entry.path());
    }
    runner_ = OpenRunner(options);
    auto file = SafetensorsFile::Open(Dir() + "/logits.safetensors");
    ASSERT_TRUE(file.ok()) << file.status();
    logits_ = std::move(*file);
  }

  // Those of the file that can be served: PEFT leaves an activated LoRA out where it is not
  // invoked.
  std::vector<Case> Cases(const std::string& dtype) {
    std::vector<Case> cases = ReadCases(Dir(), dtype);
    std::erase_if(cases, [this](const Case& c) {
      const auto invocations = ReadInvocations(AdapterDirs(c));
      const LoraSpec spec{.invocation_tokens =
                              invocations.size() == 1 ? invocations[0] : std::vector<int32_t>()};
      EXPECT_EQ(spec.FirstToken(c.prompt), c.first_token) << c.logits_key;
      if (c.first_token) return false;
      const auto accepted = runner_->engine().Accept(GreedyRequest(0, c.prompt, 1, Mix(c)));
      EXPECT_THAT(Message(accepted.status()), testing::HasSubstr("does not invoke an adapter"));
      return true;
    });
    return cases;
  }

  std::vector<std::string> AdapterDirs(const Case& c) const {
    std::vector<std::string> dirs;
    for (const auto& [adapter, weight] : c.mix)
      dirs.push_back(StrCat(Dir(), "/adapters/", adapter));
    return dirs;
  }

  AdapterMix Mix(const Case& c) const {
    AdapterMix mix;
    for (const auto& [adapter, weight] : c.mix) mix.push_back({adapter_ids_.at(adapter), weight});
    return mix;
  }

  void CheckLogits(const Case& c) {
    const auto got = TeacherForcedLogits(runner_->engine(), c.prompt, c.positions, Mix(c));
    std::vector<double> all;
    for (const std::vector<float>& row : got) all.insert(all.end(), row.begin(), row.end());
    ExpectGolden(c, all);
  }

  // The last of the golden's logits, or all of them.
  void ExpectGolden(const Case& c, const std::vector<double>& got) {
    const TensorView& golden = logits_.tensors().at(c.logits_key);
    const auto size = static_cast<int64_t>(got.size());
    ASSERT_TRUE(size == golden.num_elements() || size == golden.shape[1]);
    std::vector<float> want(got.size());
    CopyAsFloat(golden, golden.num_elements() - size, size, want.data());
    double max = 0;
    double squares = 0;
    for (size_t i = 0; i < want.size(); ++i) {
      const double error = std::fabs(got[i] - double{want[i]});
      max = std::max(max, error);
      squares += error * error;
    }
    EXPECT_LE(max, c.max_tolerance) << c.logits_key;
    EXPECT_LE(std::sqrt(squares / static_cast<double>(size)), c.rms_tolerance) << c.logits_key;
  }

  // The embedding of each case's prompt, multiplied by the model's lm_head, gives its last logits;
  // all of them are computed in shared batches.
  void CheckEmbeddings(const std::vector<Case>& cases);

  std::unique_ptr<LocalRunner> runner_;
  SafetensorsFile logits_;
  std::map<std::string, AdapterId> adapter_ids_;
};

bool ChangesLmHead(const std::string& adapter_dir, const ModelSpec& spec) {
  const auto adapter = Adapter::OpenWithoutBase(adapter_dir, spec, kMaxLoraRank);
  EXPECT_TRUE(adapter.ok()) << adapter.status();
  const LoraSpec& own = adapter->spec();
  return own.lm_head.rank > 0 || own.replaces_lm_head || own.vocab_size != spec.vocab_size;
}

void Goldens::CheckEmbeddings(const std::vector<Case>& cases) {
  const ModelSpec& spec = runner_->spec();
  const auto checkpoint = OpenBaseCheckpoint(Dir(), spec);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const TensorView& lm_head = checkpoint->tensors().at(
      spec.tie_word_embeddings ? "model.embed_tokens.weight" : "lm_head.weight");
  std::vector<float> weights(static_cast<size_t>(lm_head.num_elements()));
  CopyAsFloat(lm_head, 0, lm_head.num_elements(), weights.data());
  std::vector<wire::SequenceRequest> requests;
  for (const Case& c : cases) {
    requests.push_back(GreedyRequest(static_cast<int64_t>(requests.size()), c.prompt, 0, Mix(c)));
    requests.back().pooling = wire::Pooling::kEmbedding;
  }
  const auto generated = RunAll(runner_->engine(), requests);
  size_t num_checked = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    const std::vector<float>& embedding = generated[i].pooled;
    ASSERT_EQ(std::ssize(embedding), spec.hidden_size);
    if (std::ranges::any_of(cases[i].mix, [&](const auto& use) {
          return ChangesLmHead(StrCat(Dir(), "/adapters/", use.first), spec);
        }))
      continue;
    std::vector<double> logits;
    for (auto row = weights.begin(); row != weights.end(); row += spec.hidden_size) {
      double logit =
          std::inner_product(embedding.begin(), embedding.end(), row, 0.0) / spec.logits_scaling;
      if (spec.logit_softcap) logit = *spec.logit_softcap * std::tanh(logit / *spec.logit_softcap);
      logits.push_back(logit);
    }
    ASSERT_NO_FATAL_FAILURE(ExpectGolden(cases[i], logits));
    ++num_checked;
  }
  EXPECT_GE(num_checked, 4u);
}

TEST_P(Goldens, Float32LogitsAndGreedyTokens) {
  ASSERT_NO_FATAL_FAILURE(Open("float32"));
  const std::vector<Case> cases = Cases("f32");
  std::vector<wire::SequenceRequest> requests;
  for (const Case& c : cases) {
    ASSERT_NO_FATAL_FAILURE(CheckLogits(c));
    requests.push_back(GreedyRequest(static_cast<int64_t>(requests.size()), c.prompt,
                                     static_cast<int32_t>(c.greedy.size()), Mix(c)));
  }
  // All of them in shared batches: base model and every adapter, every prompt length.
  const auto generated = RunAll(runner_->engine(), requests);
  for (size_t i = 0; i < cases.size(); ++i)
    EXPECT_EQ(generated[i].tokens, cases[i].greedy) << cases[i].logits_key;
  CheckEmbeddings(cases);
}

TEST_P(Goldens, BFloat16Logits) {
  ASSERT_NO_FATAL_FAILURE(Open("bfloat16"));
  const std::vector<Case> cases = Cases("bf16");
  for (const Case& c : cases) ASSERT_NO_FATAL_FAILURE(CheckLogits(c));
  CheckEmbeddings(cases);
}

std::string TestName(const ::testing::TestParamInfo<Parameters>& test) {
  std::string name = std::get<0>(test.param) + "_" + std::string(Name(std::get<1>(test.param)));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(AllModels, Goldens,
                         ::testing::Combine(::testing::ValuesIn(ModelNames()),
                                            ::testing::ValuesIn(kernels::AvailableIsas())),
                         TestName);

}  // namespace
}  // namespace aril
