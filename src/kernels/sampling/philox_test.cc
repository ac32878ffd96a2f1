#include "gtest/gtest.h"
#include "kernels/sampling/sampling.h"

namespace aril::kernels {
namespace {

using Words4 = std::array<uint32_t, 4>;

// The known-answer vectors of Random123's kat_vectors, philox4x32 with 10 rounds.
TEST(Philox, GivesTheKnownAnswers) {
  constexpr uint32_t kOnes = 0xFFFFFFFF;
  EXPECT_EQ(Philox({0, 0, 0, 0}, {0, 0}), (Words4{0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8}));
  EXPECT_EQ(Philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Words4{0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD}));
  EXPECT_EQ(Philox({0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344}, {0xA4093822, 0x299F31D0}),
            (Words4{0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1}));
}

// Fixed for ever: a change would give every stored seed a different text.
TEST(UniformDraw, IsFixed) {
  EXPECT_EQ(UniformDraw(0, 0, 0), static_cast<double>(0x6627E8D5E169C58D >> 11) * 0x1p-53);
  const auto words = Philox({0x89ABCDEF, 0x01234567, 42, 0}, {0x76543210, 0xFEDCBA98});
  const uint64_t bits = uint64_t{words[0]} << 32 | words[1];
  EXPECT_EQ(UniformDraw(0xFEDCBA9876543210, 42, 0x0123456789ABCDEF),
            static_cast<double>(bits >> 11) * 0x1p-53);
}

TEST(UniformDraw, DependsOnSeedChoiceAndPosition) {
  const double draw = UniformDraw(1, 2, 3);
  EXPECT_NE(draw, UniformDraw(2, 2, 3));
  EXPECT_NE(draw, UniformDraw(1 | uint64_t{1} << 32, 2, 3));
  EXPECT_NE(draw, UniformDraw(1, 3, 3));
  EXPECT_NE(draw, UniformDraw(1, 2, 4));
  EXPECT_NE(draw, UniformDraw(1, 2, 3 | int64_t{1} << 32));
}

}  // namespace
}  // namespace aril::kernels
