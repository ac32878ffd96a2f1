// Against inv_freq of transformers 5.23.0's LlamaRotaryEmbedding.

#include "model/rope_frequencies.h"

#include <cmath>
#include <utility>

#include "gtest/gtest.h"

namespace aril {
namespace {

struct Case {
  const char* name;
  RopeSpec rope;
  int64_t head_dim;
  std::vector<std::pair<size_t, double>> expected;  // (index, frequency)
};

// transformers computes in float32: powf is off by at most a few half-ulps, and its exponent's
// rounding is magnified by ln(theta). Where llama3 or yarn interpolates, the difference that gives
// the share of the unscaled frequency magnifies the error by as much as the factor.
double Tolerance(const Case& c) { return (std::log(c.rope.theta) + 4) * 0x1p-24 * c.rope.factor; }

TEST(RopeInverseFrequencies, AreThoseOfTransformers) {
  using Scaling = RopeSpec::Scaling;
  const RopeSpec llama32{.theta = 500000,
                         .scaling = Scaling::kLlama3,
                         .factor = 32,
                         .low_freq_factor = 1,
                         .high_freq_factor = 4,
                         .original_max_position_embeddings = 8192};
  RopeSpec llama31 = llama32;
  llama31.factor = 8;
  const RopeSpec yarn{.theta = 1e6,
                      .scaling = Scaling::kYarn,
                      .factor = 4,
                      .original_max_position_embeddings = 32768};
  RopeSpec untruncated = yarn;
  untruncated.beta_fast = 16;
  untruncated.beta_slow = 2;
  untruncated.truncate = false;
  const Case cases[] = {
      {"default",
       {.theta = 10000},
       128,
       {{0, 1.0},
        {1, 0.8659643530845642},
        {16, 0.10000000149011612},
        {35, 0.006493816617876291},
        {63, 0.00011547819303814322}}},
      {"linear",
       {.theta = 10000, .scaling = Scaling::kLinear, .factor = 4},
       64,
       {{0, 0.25},
        {1, 0.18747355043888092},
        {16, 0.0024999999441206455},
        {31, 3.333803761051968e-05}}},
      // Kept at index 8, interpolated at 15 and 16, divided by the factor at 19 and 31.
      {"Llama-3.2-1B",
       llama32,
       64,
       {{0, 1.0},
        {1, 0.663601279258728},
        {8, 0.03760603070259094},
        {15, 0.0012905480107292533},
        {16, 0.000429556705057621},
        {19, 1.291476746700937e-05},
        {31, 9.418306490260875e-08}}},
      {"Llama-3.1-8B",
       llama31,
       128,
       {{1, 0.8146172165870667},
        {31, 0.0008567514596506953},
        {32, 0.0005248460220173001},
        {35, 9.556212171446532e-05},
        {63, 3.068925877869333e-07}}},
      // Kept at index 20, interpolated at 25, 30 and 35, divided by the factor at 40 and 63.
      {"Qwen2.5-7B with YaRN",
       yarn,
       128,
       {{0, 1.0},
        {1, 0.8058422207832336},
        {20, 0.01333521492779255},
        {25, 0.004131738096475601},
        {30, 0.0010643609566614032},
        {35, 0.0002462583943270147},
        {40, 4.4456985051510856e-05},
        {63, 3.102344408034696e-07}}},
      {"YaRN between other bounds",
       untruncated,
       128,
       {{20, 0.01333521492779255},
        {25, 0.004531583748757839},
        {30, 0.0011570935603231192},
        {35, 0.0001894901943160221},
        {40, 4.4456985051510856e-05}}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const std::vector<double> frequencies = RopeInverseFrequencies(c.rope, c.head_dim);
    ASSERT_EQ(frequencies.size(), static_cast<size_t>(c.head_dim / 2));
    for (const auto& [index, expected] : c.expected) {
      EXPECT_NEAR(frequencies[index], expected, expected * Tolerance(c)) << "index " << index;
    }
  }
}

TEST(RopeInverseFrequencies, LongRopeHasAFactorForEach) {
  const std::vector<double> plain = RopeInverseFrequencies({.theta = 10000}, 6);
  const std::vector<double> scaled =
      RopeInverseFrequencies({.theta = 10000,
                              .scaling = RopeSpec::Scaling::kLongRope,
                              .num_pairs = 3,
                              .wavelength_factors = {1, 2, 4.5}},
                             6);
  EXPECT_EQ(scaled, (std::vector<double>{plain[0], plain[1] / 2, plain[2] / 4.5}));
  // Where it is over a part of the head, that is all that counts.
  EXPECT_EQ(RopeInverseFrequencies({.theta = 10000,
                                    .scaling = RopeSpec::Scaling::kLongRope,
                                    .num_pairs = 3,
                                    .wavelength_factors = {1, 2, 4.5}},
                                   16),
            scaled);
}

TEST(RopeInverseFrequencies, OfAPartOfTheHeadAreThoseOfAShorterOne) {
  const RopeSpec whole{.theta = 1e7,
                       .scaling = RopeSpec::Scaling::kYarn,
                       .factor = 4,
                       .original_max_position_embeddings = 128};
  RopeSpec part = whole;
  part.num_pairs = 32;
  EXPECT_EQ(RopeInverseFrequencies(part, 256), RopeInverseFrequencies(whole, 64));
  EXPECT_EQ(MakeRopeTable(part, 256, 2).num_pairs(), 32);
}

TEST(MakeRopeTable, MayRotateNothing) {
  const auto table = MakeRopeTable({.scaling = RopeSpec::Scaling::kNoRotation}, 4, 100);
  EXPECT_EQ(table.num_pairs(), 2);
  EXPECT_EQ(table.Cos(99)[1], 1);
  EXPECT_EQ(table.Sin(99)[0], 0);
}

TEST(MakeRopeTable, HasTheFactorOfQueriesAndKeys) {
  const auto table = MakeRopeTable({.theta = 10000, .attention_factor = 1.25}, 4, 3);
  EXPECT_EQ(table.num_pairs(), 2);
  EXPECT_EQ(table.Cos(2)[0], static_cast<float>(1.25 * std::cos(2.0)));
  EXPECT_EQ(table.Sin(2)[1], static_cast<float>(1.25 * std::sin(0.02)));
}

TEST(RopeInverseFrequencies, FallFromOne) {
  const std::vector<double> frequencies = RopeInverseFrequencies({.theta = 10000}, 16);
  EXPECT_EQ(frequencies.front(), 1.0);
  for (size_t i = 1; i < frequencies.size(); ++i) EXPECT_LT(frequencies[i], frequencies[i - 1]);
}

}  // namespace
}  // namespace aril
