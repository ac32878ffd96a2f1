// Random rows and random parameters against a naive oracle in double precision that sorts
// everything; and the distribution of many draws.

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "gtest/gtest.h"
#include "kernels/sampling/sampling.h"

namespace aril::kernels {
namespace {

// How close to a boundary a sum may be for either side of it to be right: see weights.h.
constexpr double kMargin = 1e-6;

struct Row {
  std::vector<float> logits;
  wire::SamplingParams params;
  std::vector<int32_t> prompt, output, masked;
  int32_t choice = 0;
  int64_t position = 0;

  SampleInput Input() const {
    return {.logits = logits,
            .params = &params,
            .prompt = prompt,
            .output = output,
            .masked = masked,
            .choice = choice,
            .position = position};
  }
};

// Steps 1 to 4 as the contract words them, in float like the logits themselves.
std::vector<float> OracleLogits(const Row& row) {
  std::vector<float> logits = row.logits;
  for (const auto& [token, bias] : row.params.logit_bias) logits.at(token) += bias;
  std::set<int32_t> seen(row.prompt.begin(), row.prompt.end());
  seen.insert(row.output.begin(), row.output.end());
  const float repetition = row.params.repetition_penalty;
  for (const int32_t token : seen) {
    float& logit = logits.at(token);
    logit = logit > 0 ? logit / repetition : logit * repetition;
  }
  std::map<int32_t, int> counts;
  for (const int32_t token : row.output) ++counts[token];
  for (const auto& [token, count] : counts) {
    logits.at(token) -= row.params.presence_penalty;
    logits.at(token) -= row.params.frequency_penalty * static_cast<float>(count);
  }
  const auto mask = [&](int32_t token) {
    logits.at(token) = -std::numeric_limits<float>::infinity();
  };
  for (const int32_t token : row.masked) mask(token);
  for (std::vector<int32_t> word : row.params.bad_words) {
    const int32_t last = word.back();
    word.pop_back();
    std::vector<int32_t> said = row.output;
    said.erase(said.begin(), said.end() - std::min(std::ssize(said), std::ssize(word)));
    if (said == word) mask(last);
  }
  const auto& allowed = row.params.allowed_token_ids;
  for (int32_t token = 0; token < std::ssize(logits); ++token) {
    if (!allowed.empty() && !std::ranges::count(allowed, token)) mask(token);
  }
  return logits;
}

struct Ranked {
  int32_t token;
  double probability;
};

void Normalize(std::vector<Ranked>& ranked) {
  double sum = 0;
  for (const Ranked& r : ranked) sum += r.probability;
  for (Ranked& r : ranked) r.probability /= sum;
}

// Steps 5 to 8. Sets `*close` if a boundary is too close for the outcome to be certain.
std::vector<Ranked> OracleSurvivors(const std::vector<float>& logits,
                                    const wire::SamplingParams& params, bool* close) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  std::vector<Ranked> ranked;
  for (const int32_t token : order) {
    const double difference = double{logits[token]} - double{logits[order[0]]};
    ranked.push_back({token, std::exp(difference / double{params.temperature})});
  }
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < ranked.size()) {
    ranked.resize(params.top_k);
  }
  Normalize(ranked);
  if (params.top_p < 1) {
    double sum = 0;
    size_t kept = 0;
    while (kept < ranked.size() && (kept == 0 || sum < params.top_p)) {
      sum += ranked[kept++].probability;
      *close |= std::abs(sum - params.top_p) < kMargin;
    }
    ranked.resize(kept);
  }
  const double floor = params.min_p * ranked[0].probability;
  for (const Ranked& r : ranked) *close |= std::abs(r.probability / floor - 1) < kMargin;
  std::erase_if(ranked, [&](const Ranked& r) { return r.probability < floor; });
  Normalize(ranked);
  return ranked;
}

// Step 9: every token that `u` may give when it moves by the margin.
std::set<int32_t> OracleDraws(std::vector<Ranked> ranked, double u) {
  std::sort(ranked.begin(), ranked.end(),
            [](const Ranked& a, const Ranked& b) { return a.token < b.token; });
  std::set<int32_t> tokens;
  double sum = 0;
  for (const Ranked& r : ranked) {
    const bool before = sum <= u + kMargin;
    sum += r.probability;
    if (before && sum > u - kMargin) tokens.insert(r.token);
  }
  return tokens;
}

template <typename T>
T Pick(std::mt19937_64& random, const std::vector<T>& values) {
  return values[random() % values.size()];
}

std::vector<int32_t> RandomTokens(std::mt19937_64& random, size_t count, size_t vocab_size) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(random() % vocab_size));
  return tokens;
}

Row RandomRow(std::mt19937_64& random) {
  Row row;
  const size_t vocab_size = Pick<size_t>(random, {2, 5, 63, 512, 700, 3000});
  std::normal_distribution<float> logit(0, Pick<float>(random, {0.1f, 1, 3, 10}));
  const bool ties = random() % 2 == 0;
  for (size_t i = 0; i < vocab_size; ++i) {
    const float value = logit(random);
    row.logits.push_back(ties ? std::round(value * 2) / 2 : value);
  }
  row.params = {.temperature = Pick<float>(random, {0, 0.2f, 0.7f, 1, 2}),
                .top_k = Pick<int32_t>(random, {0, 0, 1, 3, 50, 600, 5000}),
                .top_p = Pick<float>(random, {1, 1, 0, 0.3f, 0.9f, 0.999f}),
                .min_p = Pick<float>(random, {0, 0, 0.01f, 0.3f, 1}),
                .repetition_penalty = Pick<float>(random, {1, 1, 0.8f, 1.3f}),
                .presence_penalty = Pick<float>(random, {0, 0, 0.7f, -0.7f}),
                .frequency_penalty = Pick<float>(random, {0, 0, 0.3f, -0.3f}),
                .seed = random()};
  if (random() % 3 == 0) {
    for (const int32_t token : RandomTokens(random, 3, vocab_size)) {
      row.params.logit_bias.push_back({token, static_cast<float>(token % 9 - 4)});
    }
  }
  row.prompt = RandomTokens(random, random() % 20, vocab_size);
  row.output = RandomTokens(random, random() % 20, vocab_size);
  if (vocab_size > 2 && random() % 3 == 0) row.masked = RandomTokens(random, 2, vocab_size);
  if (vocab_size > 5 && random() % 3 == 0) {
    const std::vector<int32_t> tokens = RandomTokens(random, 60, vocab_size);
    const std::set<int32_t> allowed(tokens.begin(), tokens.end());
    row.params.allowed_token_ids.assign(allowed.begin(), allowed.end());
  }
  if (vocab_size > 5 && random() % 3 == 0) {
    row.params.bad_words = {RandomTokens(random, 1, vocab_size),
                            RandomTokens(random, 2, vocab_size)};
    if (row.output.size() > 2) {
      row.params.bad_words.push_back({row.output.end() - 2, row.output.end()});
      row.params.bad_words.back().push_back(static_cast<int32_t>(random() % vocab_size));
    }
  }
  row.choice = static_cast<int32_t>(random() % 4);
  row.position = static_cast<int64_t>(random() % 100000);
  return row;
}

TEST(SampleOracle, AgreesOnRandomRowsWhateverTheScratchHeld) {
  constexpr uint64_t kSeed = 20240607;
  constexpr int kRounds = 4000;
  std::mt19937_64 random(kSeed);
  SamplingScratch reused;
  int too_close = 0;
  for (int round = 0; round < kRounds; ++round) {
    SCOPED_TRACE(testing::Message() << "seed " << kSeed << ", round " << round);
    const Row row = RandomRow(random);
    SamplingScratch fresh;
    const auto result = Sample(row.Input(), reused);
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_EQ(result->token, Sample(row.Input(), fresh)->token);
    const std::vector<float> logits = OracleLogits(row);
    if (row.params.temperature == 0) {
      ASSERT_EQ(result->token, std::max_element(logits.begin(), logits.end()) - logits.begin());
      continue;
    }
    bool close = false;
    const auto survivors = OracleSurvivors(logits, row.params, &close);
    too_close += close ? 1 : 0;
    if (close) continue;
    const double u = UniformDraw(row.params.seed, row.choice, row.position);
    const std::set<int32_t> allowed = OracleDraws(survivors, u);
    ASSERT_TRUE(allowed.contains(result->token)) << "token " << result->token << ", u " << u;
    ASSERT_LE(allowed.size(), 2u);
  }
  // Ties meet a boundary by design (min_p 1, and sums of equal weights), everything else hardly.
  EXPECT_LT(too_close, kRounds / 4);
}

// Pearson's statistic of `num_draws` tokens against their probabilities.
double ChiSquare(const std::vector<double>& probabilities, const std::vector<int>& observed,
                 int num_draws) {
  double statistic = 0;
  for (size_t i = 0; i < probabilities.size(); ++i) {
    const double expected = probabilities[i] * num_draws;
    statistic += (observed[i] - expected) * (observed[i] - expected) / expected;
  }
  return statistic;
}

// The value that a chi-square variable exceeds with probability 1e-6 (Wilson and Hilferty's
// approximation, 1931; 4.7534 is that quantile of the normal distribution).
double ChiSquareLimit(int degrees_of_freedom) {
  const double v = 2.0 / (9.0 * degrees_of_freedom);
  return degrees_of_freedom * std::pow(1 - v + 4.7534 * std::sqrt(v), 3);
}

// Draws along the seed, the choice or the position follow the distribution: they are independent.
class SampleDistribution : public testing::TestWithParam<int> {};

TEST_P(SampleDistribution, FollowsTheProbabilities) {
  constexpr int kVocabSize = 64;
  constexpr int kDraws = 100'000;
  Row row;
  std::vector<double> probabilities;
  for (int i = 0; i < kVocabSize; ++i) {
    row.logits.push_back(0.05f * static_cast<float>(i * 37 % kVocabSize));
    probabilities.push_back(std::exp(double{row.logits.back()} / 0.8));
  }
  const double sum = std::accumulate(probabilities.begin(), probabilities.end(), 0.0);
  for (double& p : probabilities) p /= sum;
  row.params = {.temperature = 0.8f, .seed = 99};
  SamplingScratch scratch;
  std::vector<int> observed(kVocabSize);
  for (int i = 0; i < kDraws; ++i) {
    if (GetParam() == 0) row.params.seed = static_cast<uint64_t>(i);
    if (GetParam() == 1) row.choice = i;
    if (GetParam() == 2) row.position = i;
    ++observed[Sample(row.Input(), scratch)->token];
  }
  EXPECT_LT(ChiSquare(probabilities, observed, kDraws), ChiSquareLimit(kVocabSize - 1));
}

INSTANTIATE_TEST_SUITE_P(AlongSeedChoicePosition, SampleDistribution, testing::Values(0, 1, 2));

}  // namespace
}  // namespace aril::kernels
