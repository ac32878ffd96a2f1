// The cases that are timed on a GPU, in the emulator: that each is right, and that what is not is
// found.

#include "apps/bench_cuda_cases.h"

#include "apps/bench_kernels.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/test_support.h"
#include "kernels/gemm/gemm_emulated.h"

namespace aril {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr size_t kColdBytes = size_t{1} << 20;

class BenchCudaCases : public ::testing::Test {
 protected:
  // Every case is right, and can be captured after that.
  void ExpectRight(const StatusOr<std::vector<CudaKernelCase>>& cases) {
    ASSERT_TRUE(cases.ok()) << cases.status();
    for (const CudaKernelCase& which : *cases) {
      SCOPED_TRACE(which.work.kernel + ", " + which.work.operands);
      const Status checked = which.check();
      EXPECT_TRUE(checked.ok()) << checked;
      const auto graph = device_->Capture([&] { return which.enqueue(0); });
      ASSERT_TRUE(graph.ok()) << graph.status();
      EXPECT_TRUE((*graph)->Replay().ok());
      EXPECT_TRUE(device_->Synchronize().ok());
    }
  }

  const std::unique_ptr<kernels::CudaDevice> device_ =
      kernels::MakeEmulatedDevice(kernels::emulator::Order::kForward, 2);
  const ModelSpec spec_ = *SpecOfShape("tiny");
};

TEST_F(BenchCudaCases, ProductsAreRight) {
  const auto fastest = kernels::MakeEmulatedGemm(*device_),
             invariant = kernels::MakeEmulatedGemm(*device_);
  const auto cases = CudaGemmCases(*device_, {.fastest = *fastest, .invariant = *invariant},
                                   LayerProducts(spec_)[0], {1, 7}, kColdBytes);
  ExpectRight(cases);
  ASSERT_EQ(cases->size(), 2u * 2);
  EXPECT_EQ((*cases)[3].work.kernel, "gemm, invariant");
  EXPECT_EQ((*cases)[3].work.rows, 7);
  EXPECT_EQ((*cases)[3].work.compared_to, 2u) << "the fastest, of as many rows";
}

TEST_F(BenchCudaCases, ProductsWithQuantizedWeightsAreRight) {
  const MatrixSize size = LayerProducts(spec_)[0];
  const auto cases = CudaQuantizedCases(*device_, size, {1, 40}, kColdBytes);
  ExpectRight(cases);
  ASSERT_EQ(cases->size(), 4u * 2);
  EXPECT_EQ((*cases)[3].work.kernel, "gemm int4");
  EXPECT_EQ((*cases)[5].work.kernel, "gemm fp8");
  EXPECT_EQ((*cases)[7].work.kernel, "gemm codebook4");
  EXPECT_EQ((*cases)[3].work.bytes, static_cast<double>(size.in * size.out) * 19 / 32);
}

TEST_F(BenchCudaCases, ExpertsAreRight) {
  const auto gemm = kernels::MakeEmulatedGemm(*device_);
  const ModelSpec spec = *SpecOfShape("tiny-moe");
  for (const MatrixSize& size : MlpProducts(spec)) {
    const auto cases = CudaExpertsCases(*device_, *gemm, *spec.experts, size, {1, 9}, kColdBytes);
    ExpectRight(cases);
    ASSERT_EQ(cases->size(), 2u * 2);
    EXPECT_EQ((*cases)[0].num_kernels, 1);
    const KernelWork& one_by_one = (*cases)[1].work;
    EXPECT_EQ((*cases)[1].num_kernels, spec.experts->per_token) << "of one row";
    EXPECT_EQ(one_by_one.compared_to, 0u);
    const auto elements = static_cast<double>(spec.experts->per_token * size.in * size.out);
    EXPECT_EQ(one_by_one.operations, 2 * elements);
    EXPECT_EQ(one_by_one.bytes, 2 * elements + static_cast<double>(spec.experts->per_token *
                                                                   (2 * size.in + 4 * size.out)));
  }
}

TEST_F(BenchCudaCases, AdaptersOfAllRanksAreRight) {
  const MatrixSize size = AdaptedProjection(spec_, "gate");
  const auto cases =
      CudaLoraCases(*device_, size,
                    {.ranks = {8, 3},
                     .rows = {6},
                     .popularities = {PopularityKind::kDistinct, PopularityKind::kSkewed},
                     .segment_rows = {4}},
                    kColdBytes);
  ExpectRight(cases);
  ASSERT_EQ(cases->size(), 3u * 2);
  const KernelWork& distinct = (*cases)[0].work;
  EXPECT_EQ(distinct.operands, "256 to 704 rank 8/3 distinct");
  EXPECT_EQ(distinct.bytes, 6 * 5.5 * (256 + 704) * 2 + 6 * 256 * 2 + 2 * 6 * 704 * 4);
  EXPECT_EQ(distinct.operations, 6 * 5.5 * 2 * (256 + 704));
  EXPECT_EQ((*cases)[0].num_kernels, 2);
  EXPECT_EQ((*cases)[1].num_kernels, 2 * 6) << "one adapter after the other";
  EXPECT_EQ((*cases)[1].work.compared_to, 0u);
}

TEST_F(BenchCudaCases, DecodesAndPrefillsAreRight) {
  const auto cases =
      CudaAttentionCases(*device_, spec_, AttentionBatches({33, 700}, 2, 70), kColdBytes);
  ExpectRight(cases);
  EXPECT_EQ(cases->back().work.operations, 4 * 0.5 * 70 * 71 * static_cast<double>(spec_.q_size()));
}

TEST_F(BenchCudaCases, HeadsThatTheKernelsDoNotHaveAreRefused) {
  ModelSpec spec = spec_;
  spec.head_dim = 512;
  const auto cases = CudaAttentionCases(*device_, spec, AttentionBatches({33}, 1, 0), kColdBytes);
  EXPECT_THAT(Message(cases.status()), HasSubstr("up to 256, not 512"));
}

// Leaves y as it was.
class NoGemm final : public kernels::CudaGemm {
 public:
  Status Run(const kernels::CudaGemmArgs&) override { return OkStatus(); }
  Status Prepare(std::span<const kernels::CudaGemmArgs>) override { return OkStatus(); }
};

TEST_F(BenchCudaCases, WrongResultsAreFound) {
  const auto right = kernels::MakeEmulatedGemm(*device_);
  NoGemm wrong;
  const auto cases = CudaGemmCases(*device_, {.fastest = *right, .invariant = wrong},
                                   LayerProducts(spec_)[0], {1}, kColdBytes);
  ASSERT_TRUE(cases.ok()) << cases.status();
  EXPECT_TRUE((*cases)[0].check().ok());
  const Status checked = (*cases)[1].check();
  EXPECT_EQ(checked.code(), StatusCode::kInternal);
  EXPECT_THAT(Message(checked), AllOf(HasSubstr("a wrong result"), HasSubstr("seed 1")));
}

}  // namespace
}  // namespace aril
