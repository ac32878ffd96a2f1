#include "model/pool_layout.h"

#include <filesystem>

#include "adapters/resident_adapter.h"
#include "base/test_paths.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::HasSubstr;

struct ModelShape {
  const char* name;
  int64_t hidden_size;
  int64_t intermediate_size;
  int64_t num_layers;
  int64_t num_heads;
  int64_t num_kv_heads;
  int64_t head_dim;

  ModelSpec Spec() const {
    ModelSpec spec;
    spec.hidden_size = hidden_size;
    spec.intermediate_size = intermediate_size;
    spec.num_layers = num_layers;
    spec.num_heads = num_heads;
    spec.num_kv_heads = num_kv_heads;
    spec.head_dim = head_dim;
    return spec;
  }
};

constexpr ModelShape kShapes[] = {
    {"qwen2.5-0.5b", 896, 4864, 24, 14, 2, 64},    {"qwen3-0.6b", 1024, 3072, 28, 16, 8, 128},
    {"tinyllama-1.1b", 2048, 5632, 22, 32, 4, 64}, {"llama-3.2-1b", 2048, 8192, 16, 32, 8, 64},
    {"llama-3.2-3b", 3072, 8192, 28, 24, 8, 128},  {"llama-2-7b", 4096, 11008, 32, 32, 32, 128},
    {"mistral-7b", 4096, 14336, 32, 32, 8, 128},   {"qwen2.5-7b", 3584, 18944, 28, 28, 4, 128},
    {"llama-3.1-8b", 4096, 14336, 32, 32, 8, 128}, {"qwen3-8b", 4096, 12288, 36, 32, 8, 128},
};

bool IsPowerOfTwo(int64_t n) { return n > 0 && (n & (n - 1)) == 0; }

// The bytes of the pages that an adapter of rank 8 on q and v takes, and its exact bytes.
struct Footprint {
  int64_t page_bytes = 0;
  int64_t exact_bytes = 0;
};

Footprint SmallAdapter(const ModelSpec& spec, const kernels::KvLayout& layout) {
  Footprint footprint{.page_bytes = layout.page_bytes()};
  int64_t left = layout.page_bytes();
  const auto place = [&](int64_t width) {
    const int64_t row_bytes = width * static_cast<int64_t>(SizeOf(layout.dtype));
    for (int row = 0; row < 8; ++row) {
      if (row_bytes > left) {
        footprint.page_bytes += layout.page_bytes();
        left = layout.page_bytes();
      }
      left -= row_bytes;
      footprint.exact_bytes += row_bytes;
    }
  };
  for (int64_t layer = 0; layer < spec.num_layers; ++layer) {
    for (const Projection projection : {Projection::kQ, Projection::kV}) {
      place(spec.InFeatures(projection));
      place(spec.OutFeatures(projection));
    }
  }
  return footprint;
}

TEST(ChooseKvLayout, ASmallAdapterWastesAtMost15Percent) {
  for (const ModelShape& shape : kShapes) {
    for (const DType dtype : {DType::kBF16, DType::kF32}) {
      SCOPED_TRACE(testing::Message() << shape.name << " " << dtype);
      const ModelSpec spec = shape.Spec();
      const auto layout = ChooseKvLayout(spec, dtype);
      ASSERT_TRUE(layout.ok()) << layout.status();
      const Footprint footprint = SmallAdapter(spec, *layout);
      EXPECT_LE(static_cast<double>(footprint.page_bytes),
                1.15 * static_cast<double>(footprint.exact_bytes));
      EXPECT_TRUE(IsPowerOfTwo(layout->page_tokens)) << layout->page_tokens;
      EXPECT_LE(layout->page_tokens, 16);
      EXPECT_GE(layout->page_bytes(), LongestAdapterRowBytes(spec, dtype));
      EXPECT_EQ(layout->num_layers, spec.num_layers);
      EXPECT_EQ(layout->num_kv_heads, spec.num_kv_heads);
      EXPECT_EQ(layout->head_dim, spec.head_dim);
      EXPECT_EQ(layout->dtype, dtype);
    }
  }
}

// Small pages where the KV of a token is large (no GQA), large ones where it is small.
TEST(ChooseKvLayout, FollowsTheModel) {
  const auto page_tokens = [](const ModelShape& shape) {
    return ChooseKvLayout(shape.Spec(), DType::kBF16)->page_tokens;
  };
  EXPECT_EQ(page_tokens({"llama-2-7b", 4096, 11008, 32, 32, 32, 128}), 2);
  EXPECT_EQ(page_tokens({"llama-3.1-8b", 4096, 14336, 32, 32, 8, 128}), 4);
  EXPECT_EQ(page_tokens({"tinyllama-1.1b", 2048, 5632, 22, 32, 4, 64}), 8);
}

TEST(ChooseKvLayout, APageHoldsTheLongestRowOfAnyAdapter) {
  // One token takes 2 · 2 · 4 bytes, a row of down_proj 40,000.
  const ModelShape narrow{"narrow", 8, 10'000, 1, 4, 1, 2};
  const auto layout = ChooseKvLayout(narrow.Spec(), DType::kF32);
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->page_tokens, 4096);
  EXPECT_EQ(layout->page_bytes(), 4096 * 16);
}

// Qwen3.5-0.8B's, of which a quarter of the layers has K and V.
TEST(ChooseKvLayout, ASequencesStateLiesInPagesToo) {
  const ModelShape shape{"qwen3.5-0.8b", 1024, 3584, 24, 8, 2, 256};
  ModelSpec spec = shape.Spec();
  spec.gated_queries = true;
  spec.linear_attention = {
      .num_key_heads = 16, .num_value_heads = 16, .key_dim = 128, .value_dim = 128, .conv_size = 4};
  for (int64_t layer = 0; layer < spec.num_layers; ++layer) {
    spec.linear_layers.push_back((layer + 1) % 4 != 0);
  }
  const auto layout = ChooseKvLayout(spec, DType::kBF16);
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->num_layers, 6);
  EXPECT_EQ(layout->page_tokens, 4);
  EXPECT_EQ(layout->page_bytes(), 49152);
  EXPECT_EQ(layout->state.page_bytes, 49152);
  EXPECT_EQ(layout->pages(), (SequencePages{.page_tokens = 4, .state_pages = 420}));
  EXPECT_EQ(layout->pages().For(9), 423);
  EXPECT_EQ(layout->pages().TokensIn(423), 12);
}

TEST(ChooseKvLayout, APageHoldsARowOfAState) {
  const ModelShape narrow{"narrow", 8, 8, 2, 4, 1, 2};
  ModelSpec spec = narrow.Spec();
  spec.linear_attention = {
      .num_key_heads = 1, .num_value_heads = 1, .key_dim = 2, .value_dim = 1000, .conv_size = 1};
  spec.linear_layers = {true, false};
  const auto layout = ChooseKvLayout(spec, DType::kBF16);
  ASSERT_TRUE(layout.ok());
  EXPECT_GE(layout->page_bytes(), layout->state.row_bytes());
  EXPECT_EQ(layout->state.page_bytes, layout->page_bytes());
}

TEST(ChooseKvLayout, ServesTheGoldens) {
  for (const auto& model : std::filesystem::directory_iterator(SourcePath("tests/goldens"))) {
    const auto spec = LoadModelSpec(model.path());
    ASSERT_TRUE(spec.ok()) << spec.status();
    for (const DType dtype : {DType::kBF16, DType::kF32}) {
      const auto layout = ChooseKvLayout(*spec, dtype);
      ASSERT_TRUE(layout.ok()) << layout.status();
      EXPECT_TRUE(IsPowerOfTwo(layout->page_tokens));
      EXPECT_GE(layout->page_bytes(), LongestAdapterRowBytes(*spec, dtype));
    }
  }
}

TEST(ChooseKvLayout, RefusesHeadsThatTheKernelsDoNotServe) {
  for (const int64_t head_dim : {3, 258}) {
    ModelSpec spec = kShapes[0].Spec();
    spec.head_dim = head_dim;
    const auto layout = ChooseKvLayout(spec, DType::kF32);
    ASSERT_FALSE(layout.ok());
    EXPECT_THAT(Message(layout.status()), HasSubstr("head_dim is " + std::to_string(head_dim)));
  }
}

}  // namespace
}  // namespace aril
