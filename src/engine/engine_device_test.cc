// What becomes of an engine whose device fails.

#include <cstdlib>
#include <memory>

#include "engine/engine.h"
#include "engine/test_support.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

// A device that is lost in the first step.
class LostDevice final : public Backend {
 public:
  const Checkpoint& checkpoint() const override { return checkpoint_; }
  Status Begin(const ForwardBatch&) override { return Lost(); }
  Status Embed() override { return Lost(); }
  Status AddNorm(int64_t, LayerNorm) override { return Lost(); }
  Status Project(int64_t, ProjectionGroup) override { return Lost(); }
  Status RopeAppend(int64_t) override { return Lost(); }
  Status Attention(int64_t) override { return Lost(); }
  Status GateHeads() override { return Lost(); }
  Status GatedDelta(int64_t) override { return Lost(); }
  Status Glu() override { return Lost(); }
  Status Experts(int64_t /*layer*/) override { return Lost(); }
  StatusOr<MatrixView<const float>> Logits(std::span<const int32_t>) override { return Lost(); }
  StatusOr<MatrixView<const float>> HiddenStates(std::span<const int32_t>) override {
    return Lost();
  }
  Status End() override { return Lost(); }
  StatusOr<std::span<const int32_t>> Wait() override { return Lost(); }

 private:
  static Status Lost() { return Internal("embedding (GPU 0): cudaErrorLaunchFailure"); }

  Checkpoint checkpoint_;
};

TEST(EngineDeathTest, ADeviceThatFailsEndsTheProcessWithTheCause) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto spec = LoadModelSpec(kEngineTestModel);
  ASSERT_TRUE(spec.ok()) << spec.status();
  const auto layout = ChooseKvLayout(*spec, DType::kF32);
  ASSERT_TRUE(layout.ok()) << layout.status();
  Model model(*spec, *layout, std::make_unique<LostDevice>());
  ThreadPool threads(1);
  kernels::CpuContext context(threads, kernels::AvailableIsas().back());
  const AdapterSet adapters;
  const ManualClock clock;
  const EngineOptions options = {.num_pages = 40};
  Engine engine(options, model,
                std::make_unique<HostArena>(options.num_pages, layout->page_bytes()), adapters,
                context, clock);
  auto accepted = engine.Accept(GreedyRequest(0, {1, 2, 3}, 1));
  ASSERT_TRUE(accepted.ok()) << accepted.status();
  engine.Add(*std::move(accepted));
  EXPECT_EXIT(engine.Step(), ::testing::ExitedWithCode(EXIT_FAILURE),
              "this process ends: .*cudaErrorLaunchFailure");
}

}  // namespace
}  // namespace aril
