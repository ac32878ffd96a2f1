// RMSNorm, gated activations, the soft cap, gates of heads and the rotary embedding against their
// oracles.

#include "gtest/gtest.h"
#include "kernels/activation/activation.h"
#include "kernels/activation/activation_test_support.h"
#include "kernels/norm/norm.h"
#include "kernels/rope/rope.h"
#include "kernels/rope/test_support.h"
#include "kernels/test_support.h"

namespace aril::kernels {
namespace {

constexpr uint64_t kSeed = 3;

// Rounding of the result to its dtype, on top of `fp32_steps` rounded fp32 operations.
double Tolerance(DType dtype, double magnitude, double fp32_steps) {
  const double result = dtype == DType::kF32 ? kFloatEps : kBf16Eps;
  return std::fabs(magnitude) * (result + fp32_steps * kFloatEps) * 2 + 1e-30;
}

TEST(Norm, AddsNormalizesAndMatchesTheReference) {
  std::mt19937_64 random(kSeed);
  for (const auto& [isa, dtype] : KernelCases()) {
    ThreadPool threads(2);
    CpuContext context(threads, isa);
    for (const int64_t size : {1, 8, 17, 64, 200}) {
      const TestMatrix residual(DType::kF32, 5, size, 2.0, random),
          add(DType::kF32, 5, size, 1.0, random);
      const TestMatrix weight(DType::kF32, 1, size, 1.0, random), out(dtype, 5, size, 1.0, random);
      std::vector<float> sum(static_cast<size_t>(5 * size));
      for (int64_t i = 0; i < 5 * size; ++i) {
        sum[static_cast<size_t>(i)] =
            residual.floats().row(i / size)[i % size] + add.floats().row(i / size)[i % size];
      }
      AddRmsNorm(context, residual.floats(), add.floats(),
                 {.weight = weight.floats().data, .eps = 1e-5f}, out.view());
      for (int64_t r = 0; r < 5; ++r) {
        std::vector<double> expected(static_cast<size_t>(size));
        RmsNormRef(&sum[static_cast<size_t>(r * size)], weight.floats().data, 1e-5, size,
                   expected.data());
        for (int64_t c = 0; c < size; ++c) {
          ASSERT_EQ(residual.floats().row(r)[c], sum[static_cast<size_t>(r * size + c)]);
          const double e = expected[static_cast<size_t>(c)];
          ASSERT_NEAR(out.view().At(r, c), e, Tolerance(dtype, e, static_cast<double>(size) + 6))
              << isa << " " << dtype << " size " << size;
        }
      }
    }
  }
}

TEST(Norm, NormsWhatItAddsWhereAModelDoes) {
  std::mt19937_64 random(kSeed);
  for (const auto& [isa, dtype] : KernelCases()) {
    ThreadPool threads(2);
    CpuContext context(threads, isa);
    for (const int64_t size : {1, 8, 17, 64, 200}) {
      const TestMatrix residual(DType::kF32, 3, size, 2.0, random),
          add(DType::kF32, 3, size, 30.0, random), weights(DType::kF32, 2, size, 1.0, random),
          out(dtype, 3, size, 1.0, random);
      const std::vector<float> before = Floats(residual);
      AddRmsNorm(
          context, residual.floats(), add.floats(),
          {.weight = weights.floats().row(0), .add_weight = weights.floats().row(1), .eps = 1e-5f},
          out.view());
      for (int64_t r = 0; r < 3; ++r) {
        std::vector<double> added(static_cast<size_t>(size)), expected(added);
        RmsNormRef(add.floats().row(r), weights.floats().row(1), 1e-5, size, added.data());
        // Of the sum as it was rounded: where a sum is small, its error is not.
        RmsNormRef(residual.floats().row(r), weights.floats().row(0), 1e-5, size, expected.data());
        for (int64_t c = 0; c < size; ++c) {
          const double a = added[static_cast<size_t>(c)], e = expected[static_cast<size_t>(c)];
          const double x = before[static_cast<size_t>(r * residual.view().stride + c)];
          ASSERT_NEAR(residual.floats().row(r)[c], x + a,
                      Tolerance(DType::kF32, a, static_cast<double>(size) + 6) +
                          std::fabs(x + a) * kFloatEps)
              << isa << " size " << size << " seed " << kSeed;
          ASSERT_NEAR(out.view().At(r, c), e, Tolerance(dtype, e, static_cast<double>(size) + 6))
              << isa << " " << dtype << " size " << size << " seed " << kSeed;
        }
      }
    }
  }
}

TEST(Activation, MatchesTheReferenceFromDeepNegativeToLarge) {
  std::mt19937_64 random(kSeed);
  for (const auto& [isa, dtype] : KernelCases()) {
    ThreadPool threads(2);
    CpuContext context(threads, isa);
    for (const Activation f :
         {Activation::kSilu, Activation::kGeluTanh, Activation::kClampedSwiglu}) {
      for (const int64_t size : {1, 15, 64, 173}) {
        const TestMatrix in(DType::kF32, 4, 2 * size, 20.0, random),
            out(dtype, 4, size, 1.0, random);
        Glu(context, f, in.floats(), out.view());
        for (int64_t r = 0; r < 4; ++r) {
          for (int64_t c = 0; c < size; ++c) {
            const float gate = in.floats().row(r)[c];
            const double e = GluRef(f, gate, in.floats().row(r)[size + c]);
            // The exponent of e^x, but SiLU's, errs by up to 4 roundings of its own size; below
            // -87.3 e^x becomes zero: what is lost is below 1e-34.
            const double exponent = RoundedExponent(f, gate);
            ASSERT_NEAR(out.view().At(r, c), e, Tolerance(dtype, e, 6 + 4 * exponent) + 1e-34)
                << isa << " " << dtype << " gate " << gate << " seed " << kSeed;
          }
        }
      }
    }
  }
}

TEST(Softcap, MatchesTheReferenceFromSmallToFarBeyondTheCap) {
  std::mt19937_64 random(kSeed);
  for (const Isa isa : AvailableIsas()) {
    ThreadPool threads(2);
    CpuContext context(threads, isa);
    for (const double spread : {1e-3, 1.0, 30.0, 1e4}) {
      for (const int64_t size : {1, 15, 64, 173}) {
        const TestMatrix values(DType::kF32, 3, size, spread, random);
        const std::vector<float> before = Floats(values);
        Softcap(context, 30.0f, values.floats());
        for (int64_t r = 0; r < 3; ++r) {
          for (int64_t c = 0; c < size; ++c) {
            const float x = before[static_cast<size_t>(r * values.view().stride + c)];
            const double e = SoftcapRef(30, x);
            ASSERT_NEAR(values.floats().row(r)[c], e, Tolerance(DType::kF32, e, 8))
                << isa << " of " << x << " seed " << kSeed;
          }
        }
      }
    }
    const TestMatrix values(DType::kF32, 1, 3, 1.0, random);
    values.floats().row(0)[0] = INFINITY;
    values.floats().row(0)[1] = -INFINITY;
    values.floats().row(0)[2] = NAN;
    Softcap(context, 30.0f, values.floats());
    EXPECT_EQ(values.floats().row(0)[0], 30) << isa;
    EXPECT_EQ(values.floats().row(0)[1], -30) << isa;
    EXPECT_TRUE(std::isnan(values.floats().row(0)[2])) << isa;
  }
}

TEST(GateHeads, MatchesTheReferenceAndLeavesQueriesAlone) {
  std::mt19937_64 random(kSeed);
  for (const auto& [isa, dtype] : KernelCases()) {
    ThreadPool threads(2);
    CpuContext context(threads, isa);
    for (const int64_t head_dim : {1, 8, 30, 256}) {
      constexpr int64_t kHeads = 3;
      const TestMatrix gated(DType::kF32, 4, 2 * kHeads * head_dim + 5, 20.0, random),
          values(dtype, 4, kHeads * head_dim, 1.0, random);
      std::vector<float> before;
      for (int64_t r = 0; r < 4; ++r) {
        for (int64_t c = 0; c < kHeads * head_dim; ++c) before.push_back(values.view().At(r, c));
      }
      GateHeads(context, gated.floats(), head_dim, values.view());
      for (int64_t r = 0; r < 4; ++r) {
        for (int64_t c = 0; c < kHeads * head_dim; ++c) {
          const float gate =
              gated.floats().row(r)[c / head_dim * 2 * head_dim + head_dim + c % head_dim];
          const double e = GateRef(gate, before[static_cast<size_t>(r * kHeads * head_dim + c)]);
          // As of a gated activation.
          ASSERT_NEAR(values.view().At(r, c), e, Tolerance(dtype, e, 6) + 1e-34)
              << isa << " " << dtype << " gate " << gate << " seed " << kSeed;
        }
      }
    }
  }
}

class RopeTest : public ::testing::Test {
 protected:
  static constexpr int64_t kHeads = 4, kKvHeads = 2, kRows = 40, kStart = 21;

  static constexpr double kFactor = 1.19;

  void Check(Isa isa, DType dtype, int64_t head_dim, int64_t num_pairs, bool norms, bool gated,
             std::mt19937_64& random) {
    const std::vector<double> frequencies = RopeTestFrequencies(num_pairs);
    const RopeTable table(frequencies, kStart + kRows, kFactor);
    const KvLayout layout{.num_layers = 2,
                          .num_kv_heads = kKvHeads,
                          .page_tokens = 4,
                          .head_dim = head_dim,
                          .dtype = dtype};
    Buffer pool(static_cast<size_t>(layout.page_bytes() * 16));
    std::vector<std::byte*> pages;
    for (int64_t i = 0; i < 16; ++i) pages.push_back(pool.data() + (15 - i) * layout.page_bytes());
    const AttentionSequence sequence{0, kRows, kStart, pages};
    const int64_t num_gates = gated ? kHeads : 0;
    const TestMatrix qkv(DType::kF32, kRows, (kHeads + num_gates + 2 * kKvHeads) * head_dim, 1.0,
                         random);
    const TestMatrix q(dtype, kRows, kHeads * head_dim, 1.0, random),
        weight(DType::kF32, 2, head_dim, 1.0, random, 0);
    ThreadPool threads(2);
    CpuContext context(threads, isa);
    const RopeCall call{.table = &table,
                        .num_heads = kHeads,
                        .gated_queries = gated,
                        .q_norm = norms ? weight.floats().row(0) : nullptr,
                        .k_norm = norms ? weight.floats().row(1) : nullptr,
                        .norm_eps = 1e-6f,
                        .layer = 1};
    RopeAppend(context, qkv.floats(), call, layout, {&sequence, 1}, q.view());
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t head = 0; head < kHeads + 2 * kKvHeads; ++head) {
        const bool is_query = head < kHeads, is_value = head >= kHeads + kKvHeads;
        const int64_t place = head + (is_query && gated ? head : num_gates);
        const float* in = qkv.floats().row(r) + place * head_dim;
        std::vector<double> expected(in, in + head_dim);
        if (norms && !is_value)
          RmsNormRef(in, weight.floats().row(is_query ? 0 : 1), 1e-6, head_dim, expected.data());
        std::vector<double> rotated = expected;
        if (!is_value) RopeRef(expected.data(), frequencies, kStart + r, kFactor, rotated.data());
        const int64_t kv_head = (head - kHeads) % kKvHeads, position = kStart + r;
        const std::byte* block =
            pages[static_cast<size_t>(position / 4)] +
            (is_value ? layout.ValueOffset(1, kv_head) : layout.KeyOffset(1, kv_head)) +
            position % 4 * layout.row_bytes();
        const ConstMatrix stored{block, dtype, 1, head_dim, head_dim};
        for (int64_t d = 0; d < head_dim; ++d) {
          const float got = is_query ? q.view().At(r, head * head_dim + d) : stored.At(0, d);
          const double size = RopeTestSize(expected, num_pairs, d) * kFactor;
          ASSERT_NEAR(got, rotated[static_cast<size_t>(d)],
                      Tolerance(dtype, size, 5 + (norms ? static_cast<double>(head_dim) : 0)))
              << isa << " " << dtype << " head_dim " << head_dim << " pairs " << num_pairs
              << " head " << head << " row " << r;
        }
      }
    }
  }
};

TEST_F(RopeTest, RotatesNormalizesAndAppends) {
  std::mt19937_64 random(kSeed);
  for (const auto& [isa, dtype] : KernelCases()) {
    // The last ones rotate a part of the head.
    for (const auto& [head_dim, num_pairs] :
         {std::pair(8, 4), {16, 8}, {64, 32}, {80, 40}, {80, 30}, {128, 48}, {16, 1}}) {
      for (const bool norms : {false, true}) {
        for (const bool gated : {false, true})
          ASSERT_NO_FATAL_FAILURE(Check(isa, dtype, head_dim, num_pairs, norms, gated, random));
      }
    }
  }
}

}  // namespace
}  // namespace aril::kernels
