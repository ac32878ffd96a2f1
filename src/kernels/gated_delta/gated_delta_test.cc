#include "kernels/gated_delta/gated_delta.h"

#include <cstring>

#include "gtest/gtest.h"
#include "kernels/gated_delta/gated_delta_test_support.h"

namespace aril::kernels {
namespace {

constexpr uint64_t kSeed = 5;
// And a sequence's pages.
class Case : public DeltaOperands {
 public:
  using DeltaOperands::DeltaOperands;

  // In chunks of so many rows, the last one what is left.
  std::vector<std::byte> Run(Isa isa, DType dtype, int64_t chunk, bool repeats_last = false) const {
    std::mt19937_64 random(kSeed);
    const TestMatrix out(dtype, rows(), layout().shape.value_size(), 1.0, random, 0);
    Pages pages(layout());
    ThreadPool threads(2);
    CpuContext context(threads, isa);
    for (int64_t first = 0; first < rows(); first += chunk) {
      const int64_t count = std::min(chunk, rows() - first);
      const MatrixView<float> all = in().floats();
      const MatrixView<const float> in{all.row(first), count, all.cols, all.stride};
      const AttentionSequence sequence{.first_row = 0,
                                       .num_rows = static_cast<int32_t>(count),
                                       .first_position = first,
                                       .pages = {},
                                       .state = pages.addresses};
      GatedDelta(context, in, call(), layout(), {&sequence, 1}, out.view().Rows(first, count));
    }
    if (repeats_last) {
      const std::vector<std::byte> before(pages.buffer.data(),
                                          pages.buffer.data() + pages.buffer.size_bytes());
      const MatrixView<float> all = in().floats();
      const AttentionSequence sequence{.first_row = 0,
                                       .num_rows = 1,
                                       .first_position = rows() - 1,
                                       .pages = {},
                                       .state = pages.addresses,
                                       .repeats = true};
      std::memset(out.view().row(rows() - 1), 0xFF,
                  static_cast<size_t>(layout().shape.value_size()) * SizeOf(dtype));
      GatedDelta(context, {all.row(rows() - 1), 1, all.cols, all.stride}, call(), layout(),
                 {&sequence, 1}, out.view().Rows(rows() - 1, 1));
      EXPECT_TRUE(BitwiseEqual(before.data(), pages.buffer.data(), before.size()));
    }
    const std::byte* const data = out.view().data;
    return {data,
            data + rows() * layout().shape.value_size() * static_cast<int64_t>(SizeOf(dtype))};
  }

  // Poisoned, and in no order.
  struct Pages {
    explicit Pages(const StateLayout& layout)
        : buffer(static_cast<size_t>(layout.num_pages() * layout.page_bytes)) {
      std::memset(buffer.data(), 0xFF, buffer.size_bytes());
      for (int64_t i = layout.num_pages(); i-- > 0;) {
        addresses.push_back(buffer.data() + i * layout.page_bytes);
      }
    }
    Buffer buffer;
    std::vector<std::byte*> addresses;
  };
};

TEST(GatedDelta, MatchesTheReference) {
  std::mt19937_64 random(kSeed);
  for (const DeltaShape& shape : kDeltaShapes) {
    const int64_t rows = 37;
    const Case operands(shape, rows, random);
    const DeltaReference reference = operands.Reference();
    for (const auto& [isa, dtype] : KernelCases()) {
      const std::vector<std::byte> got = operands.Run(isa, dtype, rows);
      const ConstMatrix out{got.data(), dtype, rows, shape.value_size(), shape.value_size()};
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < shape.value_size(); ++c) {
          const auto i = static_cast<size_t>(r * shape.value_size() + c);
          const double e = reference.out[i];
          const double rounded = dtype == DType::kF32 ? kFloatEps : 2 * kBf16Eps;
          ASSERT_NEAR(out.At(r, c), e, reference.tolerance[i] + std::fabs(e) * rounded)
              << isa << " " << dtype << " " << Describe(shape) << " seed " << kSeed << " row " << r
              << " col " << c;
        }
      }
    }
  }
}

TEST(GatedDelta, DoesNotDependOnChunks) {
  std::mt19937_64 random(kSeed);
  for (const DeltaShape& shape : kDeltaShapes) {
    const Case operands(shape, 37, random);
    for (const auto& [isa, dtype] : KernelCases()) {
      const std::vector<std::byte> whole = operands.Run(isa, dtype, 37);
      for (const int64_t chunk : {1, 2, 5, 20}) {
        ASSERT_EQ(operands.Run(isa, dtype, chunk), whole)
            << isa << " " << dtype << " " << Describe(shape) << " seed " << kSeed << " chunk "
            << chunk;
      }
    }
  }
}

TEST(GatedDelta, RepeatsTheLastRow) {
  std::mt19937_64 random(kSeed);
  for (const DeltaShape& shape : kDeltaShapes) {
    for (const int64_t rows : {1, 2, 19}) {
      const Case operands(shape, rows, random);
      for (const auto& [isa, dtype] : KernelCases()) {
        ASSERT_EQ(operands.Run(isa, dtype, 4, true), operands.Run(isa, dtype, rows))
            << isa << " " << dtype << " " << Describe(shape) << " seed " << kSeed << " rows "
            << rows;
      }
    }
  }
}

TEST(GatedDelta, SequencesOfABatchDoNotKnowOfEachOther) {
  std::mt19937_64 random(kSeed);
  const Case a(kDeltaShapes[0], 9, random);
  const StateLayout& layout = a.layout();
  const int64_t width = layout.shape.value_size();
  for (const auto& [isa, dtype] : KernelCases()) {
    ThreadPool threads(2);
    CpuContext context(threads, isa);
    // Rows [1, 5) and [6, 9) begin two sequences; rows 0 and 5 are nobody's.
    const TestMatrix out(dtype, 9, width, 1.0, random, 0), alone(dtype, 4, width, 1.0, random, 0);
    const std::vector<std::byte> rows_before(out.view().row(0), out.view().row(6));
    const Case::Pages first(layout), second(layout), third(layout);
    const AttentionSequence both[] = {
        {.first_row = 1, .num_rows = 4, .first_position = 0, .pages = {}, .state = first.addresses},
        {.first_row = 6,
         .num_rows = 3,
         .first_position = 0,
         .pages = {},
         .state = second.addresses}};
    GatedDelta(context, a.in().floats(), a.call(), layout, both, out.view());
    const AttentionSequence one{
        .first_row = 0, .num_rows = 3, .first_position = 0, .pages = {}, .state = third.addresses};
    const MatrixView<float> in = a.in().floats();
    GatedDelta(context, {in.row(6), 4, in.cols, in.stride}, a.call(), layout, {&one, 1},
               alone.view());
    const auto bytes = static_cast<size_t>(width) * SizeOf(dtype);
    EXPECT_TRUE(BitwiseEqual(out.view().row(6), alone.view().row(0), 3 * bytes)) << isa << dtype;
    for (const size_t row : {0, 5}) {
      EXPECT_TRUE(BitwiseEqual(out.view().row(static_cast<int64_t>(row)),
                               rows_before.data() + row * bytes, bytes))
          << isa << dtype << " row " << row;
    }
    EXPECT_TRUE(BitwiseEqual(second.buffer.data(), third.buffer.data(), third.buffer.size_bytes()));
  }
}

TEST(StateLayout, HasAPlaceForEverything) {
  const StateLayout layout{.num_layers = 18,
                           .shape = {.num_key_heads = 16,
                                     .num_value_heads = 16,
                                     .key_dim = 128,
                                     .value_dim = 128,
                                     .conv_size = 4},
                           .page_bytes = 49152};
  EXPECT_EQ(layout.rows_per_page(), 96);
  EXPECT_EQ(layout.rows_per_layer(), 16 * 128 + 4 * 48);
  EXPECT_EQ(layout.num_pages(), 18 * 2240 / 96);
  EXPECT_EQ(layout.MatrixRow(17, 15) + 128, 17 * 2240 + 2048);
  EXPECT_EQ(layout.InputRow(17, 7) + 48, 18 * 2240);
  EXPECT_EQ(layout.InputRow(0, 4), 2048);
  EXPECT_EQ(StateLayout{}.num_pages(), 0);
}

}  // namespace
}  // namespace aril::kernels
