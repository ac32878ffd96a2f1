#include <cmath>
#include <limits>

#include "gtest/gtest.h"
#include "kernels/sampling/sampling.h"

namespace aril::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(ComputeLogprobs, IsLogSoftmax) {
  const std::vector<float> logits = {std::log(0.1f), std::log(0.6f), std::log(0.3f)};
  const wire::Logprobs logprobs = ComputeLogprobs(logits, 2, 2);
  EXPECT_NEAR(logprobs.logprob, std::log(0.3), 1e-6);
  EXPECT_EQ(logprobs.rank, 2);
  ASSERT_EQ(logprobs.top.size(), 2u);
  EXPECT_EQ(logprobs.top[0].token, 1);
  EXPECT_NEAR(logprobs.top[0].logprob, std::log(0.6), 1e-6);
  EXPECT_EQ(logprobs.top[1].token, 2);
  EXPECT_EQ(logprobs.top[1].logprob, logprobs.logprob);
}

TEST(ComputeLogprobs, BreaksTiesByIdInRankAndTop) {
  const std::vector<float> logits = {1, 2, 2, 1, 2};
  for (const auto& [token, rank] : {std::pair{1, 1}, {2, 2}, {4, 3}, {0, 4}, {3, 5}}) {
    const wire::Logprobs logprobs = ComputeLogprobs(logits, token, 5);
    EXPECT_EQ(logprobs.rank, rank);
    EXPECT_EQ(logprobs.top[static_cast<size_t>(rank) - 1].token, token);
  }
}

TEST(ComputeLogprobs, ListsNoMoreThanThereIs) {
  EXPECT_TRUE(ComputeLogprobs(std::vector<float>{1, 2}, 0, 0).top.empty());
  EXPECT_EQ(ComputeLogprobs(std::vector<float>{1, 2}, 0, 20).top.size(), 2u);
  EXPECT_EQ(ComputeLogprobs(std::vector<float>{1, -kInfinity}, 0, 20).top.size(), 1u);
}

TEST(ComputeLogprobs, TakesExtremeLogits) {
  const wire::Logprobs logprobs = ComputeLogprobs(std::vector<float>{1e30f, -1e30f}, 0, 2);
  EXPECT_EQ(logprobs.logprob, 0.0f);
  EXPECT_EQ(logprobs.top[1].logprob, -2e30f);
  EXPECT_EQ(ComputeLogprobs(std::vector<float>{0, -kInfinity}, 1, 0).logprob, -kInfinity);
  EXPECT_TRUE(std::isnan(ComputeLogprobs(std::vector<float>{0, std::nanf("")}, 0, 2).logprob));
}

}  // namespace
}  // namespace aril::kernels
