// The tables of a step, without a device.

#include "model/cuda_step.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "gtest/gtest.h"
#include "model/cuda_experts.h"

namespace aril {
namespace {

constexpr std::byte kUntouched{0xAB};
constexpr int kMultiprocessors = 132;

ModelSpec LargeModel() {
  ModelSpec spec;
  spec.hidden_size = 4096;
  spec.intermediate_size = 11008;
  spec.num_layers = 32;
  spec.num_heads = 32;
  spec.num_kv_heads = 32;
  spec.head_dim = 128;
  spec.vocab_size = 32000;
  return spec;
}

// With memory for all results of splits.
kernels::AttentionPlanShape LargeAttention() {
  const ModelSpec spec = LargeModel();
  return {.dtype = DType::kBF16,
          .num_heads = spec.num_heads,
          .num_kv_heads = spec.num_kv_heads,
          .head_dim = spec.head_dim,
          .num_multiprocessors = kMultiprocessors,
          .max_partials = INT32_MAX};
}

// `num_rows` sequences of one row, each with an adapter of its own.
struct Decodes {
  explicit Decodes(int32_t num_rows) : tokens(static_cast<size_t>(num_rows), 1) {
    CudaAdapters::Table table{.weights = &weights};
    table.ranks.fill(16);
    tables.assign(tokens.size(), table);
    for (int32_t row = 0; row < num_rows; ++row) {
      sequences.push_back({row, 1, 511, pages});
      segments.push_back({.first_row = row, .num_rows = 1});
    }
  }
  ForwardBatch batch() const { return {tokens, sequences, segments}; }

  kernels::LoraDeviceWeights weights;
  kernels::ExpertLoraLayer layer;
  std::vector<int32_t> tokens;
  std::vector<std::byte*> pages = std::vector<std::byte*>(256);
  std::vector<kernels::AttentionSequence> sequences;
  std::vector<BatchSegment> segments;
  std::vector<CudaAdapters::Table> tables;
};

// A rounded shape has room for the most that any step of it may need, of which most is not copied.
TEST(CudaStep, CopiesWhatItWritesAndLittleElse) {
  const Decodes decodes(64);
  const ForwardBatch batch = decodes.batch();
  const CudaStep step(LargeModel(), LargeAttention(), batch, decodes.tables);
  ASSERT_TRUE(step.shape().is_rounded);
  std::vector<std::byte> table(step.layout().size_bytes, kUntouched);
  step.Write(table.data(), table.data());
  size_t copied = 0, end = 0;
  const auto expect_untouched = [&](size_t from, size_t to) {
    EXPECT_TRUE(std::all_of(table.begin() + static_cast<std::ptrdiff_t>(from),
                            table.begin() + static_cast<std::ptrdiff_t>(to),
                            [](std::byte byte) { return byte == kUntouched; }))
        << from << " to " << to;
  };
  for (const CudaStep::Piece& piece : step.pieces()) {
    ASSERT_GE(piece.offset, end);
    expect_untouched(end, piece.offset);
    end = piece.offset + piece.size_bytes;
    copied += piece.size_bytes;
  }
  expect_untouched(end, table.size());
  EXPECT_LE(step.pieces().size(), kNumProjectionGroups + 1);
  EXPECT_LE(copied, table.size() / 4);
}

TEST(CudaStep, SaysWhereSequencesStatesLie) {
  ModelSpec spec = LargeModel();
  spec.linear_attention = {
      .num_key_heads = 16, .num_value_heads = 32, .key_dim = 128, .value_dim = 128, .conv_size = 4};
  spec.linear_layers.assign(32, true);
  spec.linear_layers.back() = false;
  Decodes decodes(3);
  std::vector<std::vector<std::byte*>> states;
  for (size_t s = 0; s < 3; ++s) {
    states.emplace_back(5);
    for (size_t page = 0; page < 5; ++page) {
      states.back()[page] = reinterpret_cast<std::byte*>(4096 * (s + 1) + 7 * page);
    }
    decodes.sequences[s].state = states[s];
  }
  decodes.sequences[1].repeats = true;
  const ForwardBatch batch = decodes.batch();
  const CudaStep step(spec, LargeAttention(), batch, decodes.tables);
  ASSERT_TRUE(step.shape().is_rounded);
  EXPECT_EQ(step.shape().rows, 4);
  EXPECT_EQ(step.shape().sequences, 4);
  EXPECT_TRUE(step.shape().Touches(ProjectionGroup::kDeltaGates));
  std::vector<std::byte> table(step.layout().size_bytes, kUntouched);
  step.Write(table.data(), table.data());
  const auto* const sequences =
      reinterpret_cast<const kernels::DeltaSequence*>(table.data() + step.layout().delta_sequences);
  const auto* const of_row =
      reinterpret_cast<const int32_t*>(table.data() + step.layout().sequence_of_row);
  EXPECT_EQ(std::vector<int32_t>(of_row, of_row + 4), (std::vector<int32_t>{0, 1, 2, -1}));
  for (size_t s = 0; s < 3; ++s) {
    EXPECT_EQ(std::vector<std::byte*>(sequences[s].state, sequences[s].state + 5), states[s]);
    EXPECT_EQ(sequences[s].first_position, 511);
    EXPECT_EQ(sequences[s].first_row, static_cast<int32_t>(s));
    EXPECT_EQ(sequences[s].num_rows, 1);
    EXPECT_EQ(sequences[s].repeats, s == 1 ? 1 : 0);
  }
  EXPECT_EQ(sequences[3].num_rows, 0);
  EXPECT_LE(
      step.size().table_bytes,
      CudaStep::LargestRounded(spec, {.page_tokens = 2, .state_pages = 5}, 8, 512).table_bytes);
}

TEST(CudaStep, ARoundedShapeIsNoLargerThanTheLargest) {
  for (const int32_t rows : {1, 7, 33, 64}) {
    const Decodes decodes(rows);
    const ForwardBatch batch = decodes.batch();
    const CudaStep step(LargeModel(), LargeAttention(), batch, decodes.tables);
    const CudaStep::Size most =
        CudaStep::LargestRounded(LargeModel(), {.page_tokens = 2}, rows, 512);
    ASSERT_TRUE(step.shape().is_rounded);
    EXPECT_LE(step.size().table_bytes, most.table_bytes) << rows;
    EXPECT_LE(step.size().v_floats, most.v_floats) << rows;
  }
}

// Of adapters that change all there is.
TEST(CudaStep, ARoundedShapeWithAnEmbeddingIsNoLargerThanTheLargest) {
  kernels::LoraDeviceMatrix own;
  for (const int32_t rows : {1, 7, 33, 64}) {
    Decodes decodes(rows);
    for (CudaAdapters::Table& table : decodes.tables) {
      table.ranks.fill(kernels::kLoraMaxExpandRank);
      table.embedding = &decodes.weights;
      table.embedding_rank = 16;
    }
    decodes.tables.front().own_embedding = &own;
    const ForwardBatch batch = decodes.batch();
    const CudaStep step(LargeModel(), LargeAttention(), batch, decodes.tables);
    const CudaStep::Size most =
        CudaStep::LargestRounded(LargeModel(), {.page_tokens = 2}, rows, 512);
    ASSERT_TRUE(step.shape().is_rounded);
    ASSERT_TRUE(step.shape().has_own_embeddings && step.shape().Touches(kEmbeddingPlan));
    EXPECT_LE(step.size().table_bytes, most.table_bytes) << rows;
    EXPECT_LE(step.size().v_floats, most.v_floats) << rows;
    EXPECT_LE(step.pieces().size(), kNumStepPlans + 1);
  }
}

// A mixture, with adapters of the largest rank at all that a layer has.
TEST(CudaStep, ARoundedShapeOfAMixtureIsNoLargerThanTheLargest) {
  ModelSpec spec = LargeModel();
  spec.experts = {.count = 128, .per_token = 8};
  for (const int32_t rows : {1, 7, 33, 64}) {
    Decodes decodes(rows);
    for (CudaAdapters::Table& table : decodes.tables) {
      table.ranks.fill(kernels::kLoraMaxExpandRank);
      table.experts = &decodes.layer;
      table.expert_rank = kernels::kLoraMaxExpandRank;
    }
    const ForwardBatch batch = decodes.batch();
    const CudaStep step(spec, LargeAttention(), batch, decodes.tables);
    const CudaStep::Size most = CudaStep::LargestRounded(spec, {.page_tokens = 2}, rows, 512);
    ASSERT_TRUE(step.shape().is_rounded);
    ASSERT_TRUE(step.shape().expert_chunk_rows > 0 && step.shape().Touches(kRouterPlan));
    EXPECT_FALSE(step.shape().Touches(ProjectionGroup::kDown));
    EXPECT_LE(step.size().table_bytes, most.table_bytes) << rows;
    EXPECT_LE(step.size().v_floats, most.v_floats) << rows;
    std::vector<std::byte> table(step.layout().size_bytes);
    step.Write(table.data(), table.data());
    EXPECT_EQ(*reinterpret_cast<const int32_t*>(&table[step.layout().num_rows]), rows);
  }
}

// A row's adapters come one after the other, for some rows or all of them. What they take is
// bounded by itself, and stands before the addresses of pages.
TEST(CudaStep, RowsWithSeveralAdaptersOfExpertsTakeNoOthersPlace) {
  ModelSpec spec = LargeModel();
  spec.experts = {.count = 128, .per_token = 8};
  std::byte page;
  for (const int32_t rows : {1, 2, 4, 8, 64}) {
    for (const size_t entries : {1, 2, 3, 4, 5}) {
      Decodes decodes(rows);
      std::ranges::fill(decodes.pages, &page);
      const std::vector<BatchSegment> each = decodes.segments;
      for (size_t e = 1; e < entries; ++e) {
        decodes.segments.insert(decodes.segments.end(), each.begin(), each.end());
      }
      decodes.tables.clear();
      decodes.tables.resize(decodes.segments.size(),
                            {.experts = &decodes.layer, .expert_rank = 16});
      const ForwardBatch batch = decodes.batch();
      const CudaStep step(spec, LargeAttention(), batch, decodes.tables);
      std::vector<std::byte> table(step.layout().size_bytes, kUntouched);
      step.Write(table.data(), table.data());
      EXPECT_EQ(step.shape().is_rounded, entries <= 4);
      EXPECT_LE(step.layout().expert_lora + step.layout().num_rows, step.layout().pages);
      const auto* const pages = reinterpret_cast<std::byte* const*>(&table[step.layout().pages]);
      for (size_t i = 0; i < decodes.pages.size() * static_cast<size_t>(rows); ++i) {
        ASSERT_EQ(pages[i], &page) << rows << " rows of " << entries << " adapters, page " << i;
      }
    }
  }
}

// V would have no room for what the shape's largest step may need.
TEST(CudaStep, ARowWithManyAdaptersOfExpertsIsNoRoundedShape) {
  ModelSpec spec = LargeModel();
  spec.experts = {.count = 128, .per_token = 8};
  for (const size_t adapters : {4, 5}) {
    Decodes decodes(8);
    decodes.segments.assign(adapters, decodes.segments.front());
    decodes.tables.resize(adapters);
    for (CudaAdapters::Table& table : decodes.tables) {
      table.experts = &decodes.layer;
      table.expert_rank = 16;
    }
    const ForwardBatch batch = decodes.batch();
    const CudaStep step(spec, LargeAttention(), batch, decodes.tables);
    EXPECT_EQ(step.shape().is_rounded, adapters == 4);
    EXPECT_GT(step.shape().expert_chunk_rows, 0);
    EXPECT_GE(step.size().v_floats,
              CudaExperts::VFloats(spec, 8, static_cast<int32_t>(adapters), 16));
  }
}

// Of two adapters of one row, in either order: a table of the one takes nothing from the other.
TEST(CudaStep, WhatIsAddedToAnEmbeddingStandsBesideAnOwnOne) {
  const kernels::LoraDeviceMatrix own;
  for (const size_t with_own : {0, 1}) {
    Decodes decodes(1);
    decodes.segments.push_back(decodes.segments[0]);
    decodes.tables.push_back(decodes.tables[0]);
    for (CudaAdapters::Table& table : decodes.tables) table.embedding = &decodes.weights;
    decodes.tables[with_own].own_embedding = &own;
    decodes.tables[1 - with_own].embedding_rank = 16;
    const ForwardBatch batch = decodes.batch();
    const CudaStep step(LargeModel(), LargeAttention(), batch, decodes.tables);
    EXPECT_TRUE(step.shape().has_own_embeddings) << with_own;
    EXPECT_TRUE(step.shape().Touches(kEmbeddingPlan)) << with_own;
    std::vector<std::byte> table(step.layout().size_bytes);
    step.Write(table.data(), table.data());
    const auto* const written = reinterpret_cast<const kernels::LoraDeviceMatrix* const*>(
        &table[step.layout().own_embeddings]);
    EXPECT_EQ(*written, &own);
  }
}

// Other kernels are launched for it.
TEST(CudaStep, AStepOfDecodesHasAnotherShapeThanOneWithAPrefill) {
  Decodes decodes(8);
  const ForwardBatch batch = decodes.batch();
  const CudaStepShape of_decodes =
      CudaStep(LargeModel(), LargeAttention(), batch, decodes.tables).shape();
  EXPECT_FALSE(of_decodes.attention[0].has_wide_tiles);
  decodes.sequences.pop_back();
  decodes.sequences.back().num_rows = 2;
  const ForwardBatch with_prefill = decodes.batch();
  const CudaStepShape shape =
      CudaStep(LargeModel(), LargeAttention(), with_prefill, decodes.tables).shape();
  EXPECT_TRUE(shape.attention[0].has_wide_tiles);
  EXPECT_NE(shape, of_decodes);
}

// A row at 511 sees 512 keys, and with a window of 100 those of one split.
TEST(CudaStep, LayersWithAWindowHaveAPlanOfTheirOwn) {
  const Decodes decodes(8);
  const ForwardBatch batch = decodes.batch();
  ModelSpec spec = LargeModel();
  spec.sliding_window = 100;
  const auto shape_of = [&](const std::vector<bool>& full_attention) {
    spec.full_attention = full_attention;
    const CudaStep step(spec, LargeAttention(), batch, decodes.tables);
    EXPECT_LE(step.size().table_bytes,
              CudaStep::LargestRounded(spec, {.page_tokens = 2}, 8, 512).table_bytes);
    return step.shape().attention;
  };
  std::vector<bool> mixed(32, false);
  mixed[5] = true;
  const auto both = shape_of(mixed), windowed = shape_of({}),
             full = shape_of(std::vector<bool>(32, true));
  EXPECT_GT(full[0].items, windowed[1].items);
  EXPECT_EQ(full[1], CudaStepShape::Attention());
  EXPECT_EQ(windowed[0], CudaStepShape::Attention());
  EXPECT_EQ(both[0], full[0]);
  EXPECT_EQ(both[1], windowed[1]);
}

TEST(CudaStep, AnotherStepIsOnePiece) {
  const Decodes decodes(65);
  const ForwardBatch batch = decodes.batch();
  const CudaStep step(LargeModel(), LargeAttention(), batch, decodes.tables);
  EXPECT_FALSE(step.shape().is_rounded);
  ASSERT_EQ(step.pieces().size(), 1u);
  EXPECT_EQ(step.pieces()[0].size_bytes, step.layout().size_bytes);
}

}  // namespace
}  // namespace aril
