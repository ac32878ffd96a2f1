// Choosing tokens on CUDA, in the emulator and on a GPU: what the sampler chooses on the CPU.

#include "kernels/sampling/sampling_cuda.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/test_support.h"
#include "kernels/sampling/sampling.h"

namespace aril::kernels {
namespace {

constexpr uint64_t kSeed = 47;

// Rows of logits, and how the token of each is chosen.
struct Rows {
  explicit Rows(int64_t vocab_size) : vocab(vocab_size) {}

  // A row may have fewer tokens: what is behind them counts for nothing.
  void Add(std::vector<float> row, const wire::SamplingParams& how) {
    sizes.push_back(row.size());
    row.resize(static_cast<size_t>(vocab), INFINITY);
    logits.insert(logits.end(), row.begin(), row.end());
    params.push_back(how);
  }
  SampleInput Input(size_t i) const {
    return {.logits = std::span(logits).subspan(i * static_cast<size_t>(vocab), sizes[i]),
            .params = &params[i],
            .choice = 1,
            .position = static_cast<int64_t>(i)};
  }

  int64_t vocab;
  std::vector<size_t> sizes;
  std::vector<float> logits;
  std::vector<wire::SamplingParams> params;
};

class CudaSampling : public CudaTest {
 protected:
  static std::vector<int32_t> Choose(CudaDevice& device, const Rows& rows) {
    const auto count = static_cast<int32_t>(rows.params.size());
    std::vector<SampleRow> how;
    for (size_t i = 0; i < rows.params.size(); ++i) {
      how.push_back(DescribeForDevice(rows.Input(i), static_cast<int64_t>(rows.sizes[i])));
    }
    const DeviceBuffer logits = Upload(device, rows.logits), on_device = Upload(device, how),
                       tokens = Allocate(device, how.size() * sizeof(int32_t));
    Require(
        device.Check(device.kernels().sample(device.context(), {.logits = logits.as<float>(),
                                                                .stride = rows.vocab,
                                                                .rows = count,
                                                                .how = on_device.as<SampleRow>(),
                                                                .tokens = tokens.as<int32_t>()}),
                     "sample"));
    return Download<int32_t>(device, tokens);
  }

  // On every device.
  void ExpectTheChoicesOfTheCpu(const Rows& rows) {
    for (const auto& device : devices()) {
      const std::vector<int32_t> chosen = Choose(*device, rows);
      SamplingScratch scratch;
      for (size_t i = 0; i < chosen.size(); ++i) {
        const auto expected = Sample(rows.Input(i), scratch);
        const wire::SamplingParams& how = rows.params[i];
        SCOPED_TRACE(testing::Message()
                     << device->name() << " row " << i << " temperature " << how.temperature
                     << " top_k " << how.top_k << " top_p " << how.top_p << " min_p " << how.min_p
                     << " seed " << kSeed);
        EXPECT_TRUE(expected.ok()) << expected.status();
        EXPECT_EQ(chosen[i], expected.ok() ? expected->token : kTokenOfNone);
      }
    }
  }
};

std::vector<float> RandomLogits(int64_t vocab, double spread, std::mt19937_64& random) {
  std::normal_distribution<double> normal(0, spread);
  std::vector<float> logits(static_cast<size_t>(vocab));
  for (float& logit : logits) logit = static_cast<float>(normal(random));
  return logits;
}

// A quarter of a unit apart: many tokens of one row are equal, those at the ends of cuts, too.
std::vector<float> WithTies(std::vector<float> logits) {
  for (float& logit : logits) logit = std::round(logit * 4) / 4;
  return logits;
}

TEST_P(CudaSampling, TakesTheLargestAtTemperatureZero) {
  std::mt19937_64 random(kSeed);
  constexpr int64_t kVocab = 1300;
  const wire::SamplingParams greedy = {
      .temperature = 0, .top_k = 3, .top_p = 0.5F, .min_p = 0.5F};  // which change nothing
  Rows rows(kVocab);
  std::vector<float> logits = RandomLogits(kVocab, 1, random);
  rows.Add(logits, greedy);
  logits[700] = logits[1299] = logits[33] = 50;  // ties: the lowest id
  rows.Add(logits, greedy);
  rows.Add(std::vector<float>(kVocab, 2.0F), greedy);
  std::vector<float> one(kVocab, -INFINITY);
  one[1298] = -3;
  rows.Add(one, greedy);
  ExpectTheChoicesOfTheCpu(rows);
}

TEST_P(CudaSampling, SaysWhereNoTokenCanBeChosen) {
  constexpr int64_t kVocab = 700;
  for (const float temperature : {0.0F, 1.0F}) {
    const wire::SamplingParams how = {.temperature = temperature, .top_p = 0.9F};
    Rows rows(kVocab);
    std::vector<float> logits(kVocab, 1.0F);
    logits[5] = NAN;
    rows.Add(logits, how);
    logits[5] = INFINITY;
    rows.Add(logits, how);
    rows.Add(std::vector<float>(kVocab, -INFINITY), how);
    for (const auto& device : devices()) {
      EXPECT_EQ(Choose(*device, rows),
                (std::vector<int32_t>{kTokenOfNaN, kTokenOfNaN, kTokenOfNone}));
    }
  }
}

// Vocabularies that end inside a tile, a part of one, and a warp.
TEST_P(CudaSampling, DrawsWhatTheSamplerDraws) {
  std::mt19937_64 random(kSeed);
  for (const int64_t vocab : {1, 31, 257, 2111}) {
    Rows rows(vocab);
    for (const int32_t top_k : {0, 1, 2, 40, 5000}) {
      for (const float top_p : {0.0F, 0.3F, 0.95F, 1.0F}) {
        for (const float min_p : {0.0F, 0.05F, 1.5F}) {
          const wire::SamplingParams how = {.temperature = top_k == 2 ? 0.3F : 1.1F,
                                            .top_k = top_k,
                                            .top_p = top_p,
                                            .min_p = min_p,
                                            .seed = random()};
          const std::vector<float> logits = RandomLogits(vocab, 2, random);
          rows.Add(logits, how);
          rows.Add(WithTies(logits), how);
        }
      }
    }
    ExpectTheChoicesOfTheCpu(rows);
  }
}

TEST_P(CudaSampling, RowsMayHaveVocabulariesOfTheirOwn) {
  std::mt19937_64 random(kSeed);
  Rows rows(600);
  for (const int64_t vocab : {600, 597, 1, 300}) {
    for (const float temperature : {0.0F, 1.1F}) {
      for (const int32_t top_k : {0, 40, 599}) {
        rows.Add(RandomLogits(vocab, 2, random), {.temperature = temperature,
                                                  .top_k = top_k,
                                                  .top_p = top_k == 40 ? 0.9F : 1.0F,
                                                  .seed = random()});
      }
    }
  }
  ExpectTheChoicesOfTheCpu(rows);
}

// More tiles than a block has warps; on a device, as many tokens as there may be.
TEST_P(CudaSampling, DrawsFromLargeVocabularies) {
  std::mt19937_64 random(kSeed);
  const int64_t vocab = emulated() ? 40'000 : kMaxDeviceVocab;
  Rows rows(vocab);
  for (const wire::SamplingParams& filter : std::vector<wire::SamplingParams>{
           {}, {.top_k = 3000, .top_p = 0.9F}, {.temperature = 3, .top_p = 0.99F}}) {
    wire::SamplingParams how = filter;
    how.seed = random();
    rows.Add(RandomLogits(vocab, 2, random), how);
    rows.Add(std::vector<float>(static_cast<size_t>(vocab), 1.5F), how);
  }
  ExpectTheChoicesOfTheCpu(rows);
}

// All tokens alike, all but one far away, some that cannot be chosen, zeros of both signs.
TEST_P(CudaSampling, DrawsFromRowsThatAreUnlikeAny) {
  std::mt19937_64 random(kSeed);
  constexpr int64_t kVocab = 1500;
  Rows rows(kVocab);
  for (const wire::SamplingParams& filter : std::vector<wire::SamplingParams>{
           {}, {.top_k = 700}, {.top_p = 0.5F}, {.min_p = 0.2F}, {.top_k = 9, .top_p = 0.5F}}) {
    const auto add = [&](const std::vector<float>& logits) {
      wire::SamplingParams how = filter;
      how.seed = random();
      how.temperature = 0.7F;
      rows.Add(logits, how);
    };
    add(std::vector<float>(kVocab, -7.5F));
    std::vector<float> far(kVocab, -3e38F);
    far[1033] = 3e38F;
    add(far);
    std::vector<float> few(kVocab, -INFINITY);
    for (const size_t i : {3UL, 900UL, 1499UL}) few[i] = 0.25F;
    add(few);
    std::vector<float> zeros(kVocab, 0.0F);
    for (size_t i = 0; i < zeros.size(); i += 2) zeros[i] = -0.0F;
    add(zeros);
  }
  ExpectTheChoicesOfTheCpu(rows);
}

TEST_P(CudaSampling, TakesTokensFromThoseThatWereChosen) {
  for (const auto& device : devices()) {
    const DeviceBuffer tokens = Upload(*device, std::vector<int32_t>{7, -1, 9, -3, -2}),
                       chosen = Upload(*device, std::vector<int32_t>{100, kTokenOfNaN, 102});
    Require(device->Check(
        device->kernels().take_chosen(
            device->context(),
            {.tokens = tokens.as<int32_t>(), .rows = 5, .chosen = chosen.as<int32_t>()}),
        "take_chosen"));
    EXPECT_EQ(Download<int32_t>(*device, tokens), (std::vector<int32_t>{7, 100, 9, 102, 0}));
  }
}

ARIL_INSTANTIATE_CUDA_TEST(CudaSampling);

}  // namespace
}  // namespace aril::kernels
