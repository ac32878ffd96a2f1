// The real model stories260K against outputs computed elsewhere (shared/data/models/SOURCES.md).

#include "base/file.h"
#include "base/json.h"
#include "base/test_paths.h"
#include "gtest/gtest.h"
#include "support/engine_fixture.h"
#include "tensor/safetensors.h"

namespace aril {
namespace {

const std::string kDir = SharedPath("data/models/stories260K");

// Two fp32 computations of this model's logits (|logit| ≤ ~20, 5 layers of width 64) differ by a
// few hundred roundings of values of that size: 300 · 2^-24 · 20.
constexpr float kLogitTolerance = 4e-4f;

class Stories : public ::testing::TestWithParam<kernels::Isa> {
 protected:
  void SetUp() override {
    if (!FileExists(kDir + "/config.json")) GTEST_SKIP() << kDir << " is absent";
  }
};

std::vector<int32_t> Ids(const Json& list) {
  std::vector<int32_t> ids;
  for (const Json& id : *list.AsArray()) ids.push_back(static_cast<int32_t>(*id.AsInt()));
  return ids;
}

TEST_P(Stories, GreedyContinuationsAreTheExpectedTokens) {
  auto runner = OpenRunner({.model_dir = kDir, .isa = std::string(Name(GetParam()))});
  const auto text = ReadFile(kDir + "/expected_greedy.json", 1 << 20);
  ASSERT_TRUE(text.ok());
  const auto expected = Json::Parse(*text);
  ASSERT_TRUE(expected.ok());
  constexpr int32_t kBos = 1;
  std::vector<wire::SequenceRequest> requests;
  for (const Json& c : *expected->Find("cases")->AsArray()) {
    wire::SequenceRequest request =
        GreedyRequest(static_cast<int64_t>(requests.size()), Ids(*c.Find("prompt_ids")), 0);
    request.max_tokens = 256 - static_cast<int32_t>(request.prompt.size());
    request.stop_token_ids = {kBos};
    requests.push_back(std::move(request));
  }
  const auto results = RunAll(runner->engine(), requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    const Json& c = (*expected->Find("cases")->AsArray())[i];
    std::vector<int32_t> want = Ids(*c.Find("output_ids"));
    std::vector<int32_t> got = results[i].tokens;
    if (!got.empty() && got.back() == kBos) got.pop_back();
    double gap = 0;
    ASSERT_TRUE(c.Find("min_top2_logit_gap")->AsNumber(&gap));
    // Below twice the tolerance another precision may choose the other token (the file's own note).
    if (gap < 2 * kLogitTolerance && got != want) continue;
    EXPECT_EQ(got, want) << "case " << i << ", gap " << gap;
  }
}

TEST_P(Stories, LogitsAreWithinRoundingOfTheReference) {
  const auto file = SafetensorsFile::Open(kDir + "/expected_logits.safetensors");
  ASSERT_TRUE(file.ok()) << file.status();
  auto runner = OpenRunner({.model_dir = kDir, .isa = std::string(Name(GetParam()))});
  for (const char* which : {"0", "1"}) {
    const TensorView& ids = file->tensors().at(std::string("input_ids.") + which);
    const TensorView& logits = file->tensors().at(std::string("logits.") + which);
    std::vector<int32_t> tokens;
    std::vector<int64_t> positions;
    for (int64_t i = 0; i < ids.num_elements(); ++i) {
      int64_t id;
      std::memcpy(&id, ids.data + i * 8, 8);
      tokens.push_back(static_cast<int32_t>(id));
      positions.push_back(i);
    }
    const auto got = TeacherForcedLogits(runner->engine(), tokens, positions, {});
    std::vector<float> want(static_cast<size_t>(logits.num_elements()));
    CopyAsFloat(logits, 0, logits.num_elements(), want.data());
    for (size_t position = 0; position < got.size(); ++position) {
      for (size_t token = 0; token < got[position].size(); ++token) {
        ASSERT_NEAR(got[position][token], want[position * got[position].size() + token],
                    kLogitTolerance)
            << "position " << position << " token " << token;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllIsas, Stories, ::testing::ValuesIn(kernels::AvailableIsas()),
                         [](const auto& test) { return std::string(Name(test.param)); });

}  // namespace
}  // namespace aril
