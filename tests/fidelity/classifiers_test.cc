// Adapters that classify texts, against transformers + peft in double precision
// (tools/goldens/make_classifiers.py).

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "base/strings.h"
#include "base/test_paths.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "support/engine_fixture.h"

namespace aril {
namespace {

const std::string kClassifiers = SourcePath("tests/goldens-classifiers");

std::vector<double> Numbers(const Json& list) {
  std::vector<double> numbers;
  for (const Json& item : *list.AsArray()) EXPECT_TRUE(item.AsNumber(&numbers.emplace_back()));
  return numbers;
}

std::vector<std::string> ModelNames() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kClassifiers)) {
    names.push_back(entry.path().filename());
  }
  std::ranges::sort(names);
  return names;
}

using Parameters = std::tuple<std::string, std::string, kernels::Isa>;

class Classifiers : public ::testing::TestWithParam<Parameters> {};

// All prompts of all adapters in shared batches.
TEST_P(Classifiers, GiveTheLogitsOfTransformers) {
  const auto& [model, dtype, isa] = GetParam();
  const std::string dir = StrCat(kClassifiers, "/", model);
  const auto text = ReadFile(dir + "/cases.json", 1 << 20);
  ASSERT_TRUE(text.ok()) << text.status();
  const auto cases = Json::Parse(*text);
  ASSERT_TRUE(cases.ok()) << cases.status();
  LocalRunnerOptions options{.model_dir = SourcePath("tests/goldens/") + model,
                             .dtype = dtype,
                             .isa = std::string(Name(isa))};
  std::vector<wire::SequenceRequest> requests;
  for (const Json& c : *cases->AsArray()) {
    const std::string adapter = StrCat(dir, "/", *c.Find("adapter")->AsString());
    const auto found = std::ranges::find(options.adapter_dirs, adapter);
    const auto index = static_cast<int32_t>(found - options.adapter_dirs.begin());
    if (found == options.adapter_dirs.end()) options.adapter_dirs.push_back(adapter);
    std::vector<int32_t> prompt;
    for (const double token : Numbers(*c.Find("prompt"))) {
      prompt.push_back(static_cast<int32_t>(token));
    }
    requests.push_back(GreedyRequest(static_cast<int64_t>(requests.size()), std::move(prompt), 0,
                                     {{AdapterId(index), 1}}));
    requests.back().pooling = wire::Pooling::kClassLogits;
  }
  const auto runner = OpenRunner(options);
  const auto generated = RunAll(runner->engine(), requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    const Json& c = (*cases->AsArray())[i];
    const std::vector<double> want = Numbers(*c.Find("logits"));
    double tolerance = 0;
    const char* const field = dtype == "float32" ? "tolerance_f32" : "tolerance_bf16";
    ASSERT_TRUE(c.Find(field)->AsNumber(&tolerance));
    ASSERT_EQ(generated[i].pooled.size(), want.size());
    for (size_t label = 0; label < want.size(); ++label) {
      EXPECT_NEAR(generated[i].pooled[label], want[label], tolerance)
          << *c.Find("adapter")->AsString() << ", " << requests[i].prompt.size() << " tokens";
    }
  }
}

std::string TestName(const ::testing::TestParamInfo<Parameters>& test) {
  const auto& [model, dtype, isa] = test.param;
  std::string name = StrCat(model, "_", dtype, "_", Name(isa));
  std::ranges::replace(name, '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(AllModels, Classifiers,
                         ::testing::Combine(::testing::ValuesIn(ModelNames()),
                                            ::testing::Values("float32", "bfloat16"),
                                            ::testing::ValuesIn(kernels::AvailableIsas())),
                         TestName);

}  // namespace
}  // namespace aril
