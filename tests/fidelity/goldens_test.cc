// Tiny checkpoints of every architecture, each with several PEFT adapters, alone and mixed, against
// transformers + peft in double precision. The goldens and the derivation of their tolerances:
// tools/goldens/README.md.

#include <cmath>
#include <filesystem>
#include <map>

#include "base/file.h"
#include "base/json.h"
#include "base/test_paths.h"
#include "gtest/gtest.h"
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
                     .rms_tolerance = Number(c, "rms_tolerance_" + dtype)});
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

  AdapterMix Mix(const Case& c) const {
    AdapterMix mix;
    for (const auto& [adapter, weight] : c.mix) mix.push_back({adapter_ids_.at(adapter), weight});
    return mix;
  }

  void CheckLogits(const Case& c) {
    const auto got = TeacherForcedLogits(runner_->engine(), c.prompt, c.positions, Mix(c));
    const TensorView& golden = logits_.tensors().at(c.logits_key);
    std::vector<float> want(static_cast<size_t>(golden.num_elements()));
    CopyAsFloat(golden, 0, golden.num_elements(), want.data());
    ASSERT_EQ(want.size(), got.size() * got[0].size());
    double max = 0;
    double squares = 0;
    for (size_t i = 0; i < want.size(); ++i) {
      const double error =
          std::fabs(static_cast<double>(got[i / got[0].size()][i % got[0].size()]) - want[i]);
      max = std::max(max, error);
      squares += error * error;
    }
    EXPECT_LE(max, c.max_tolerance) << c.logits_key;
    EXPECT_LE(std::sqrt(squares / static_cast<double>(want.size())), c.rms_tolerance)
        << c.logits_key;
  }

  std::unique_ptr<LocalRunner> runner_;
  SafetensorsFile logits_;
  std::map<std::string, AdapterId> adapter_ids_;
};

TEST_P(Goldens, Float32LogitsAndGreedyTokens) {
  ASSERT_NO_FATAL_FAILURE(Open("float32"));
  const std::vector<Case> cases = ReadCases(Dir(), "f32");
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
}

TEST_P(Goldens, BFloat16Logits) {
  ASSERT_NO_FATAL_FAILURE(Open("bfloat16"));
  for (const Case& c : ReadCases(Dir(), "bf16")) ASSERT_NO_FATAL_FAILURE(CheckLogits(c));
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
