// The gated delta rule on CUDA, in the emulator and on a GPU, against its oracle.

#include "kernels/gated_delta/gated_delta_cuda.h"

#include "gtest/gtest.h"
#include "kernels/activation/activation_cuda.h"
#include "kernels/cuda/test_support.h"
#include "kernels/gated_delta/gated_delta_test_support.h"

namespace aril::kernels {
namespace {

constexpr uint64_t kSeed = 31;

class CudaGatedDelta : public CudaTest {
 protected:
  // The operands and a sequence's pages, poisoned and in no order, on a device.
  class Run {
   public:
    Run(CudaDevice& device, const DeltaOperands& operands, DType dtype)
        : device_(device),
          operands_(operands),
          dtype_(dtype),
          in_(Upload(device, Floats(operands.in()))),
          conv_(Upload(device, Floats(operands.conv()))),
          heads_(Upload(device, Floats(operands.heads()))),
          norm_(Upload(device, Floats(operands.norm()))),
          pool_(Upload(device, std::vector<std::byte>(PoolBytes(), std::byte{0xFF}))),
          scratch_(Allocate(
              device, static_cast<size_t>(DeltaScratchFloats(layout().shape, operands.rows() + 1)) *
                          sizeof(float))),
          out_(Allocate(device, static_cast<size_t>(operands.rows() * width()) * SizeOf(dtype))) {
      std::vector<std::byte*> pages;
      for (int64_t i = layout().num_pages(); i-- > 0;) {
        pages.push_back(pool_.data() + i * layout().page_bytes);
      }
      pages_ = Upload(device, pages);
    }

    // Rows [first, first + count), behind a row of no sequence; with one sequence too many.
    void Compute(int64_t first, int64_t count, bool repeats = false) {
      std::vector<int32_t> sequence_of_row(static_cast<size_t>(count + 1), 1);
      sequence_of_row.front() = -1;
      const std::vector<DeltaSequence> sequences = {{},
                                                    {.state = pages_.as<std::byte*>(),
                                                     .first_position = first,
                                                     .first_row = 1,
                                                     .num_rows = static_cast<int32_t>(count),
                                                     .repeats = repeats ? 1 : 0}};
      const DeviceBuffer rows = Upload(device_, sequence_of_row);
      const DeviceBuffer table = Upload(device_, sequences);
      const int64_t stride = operands_.in().view().stride;
      Require(device_.Check(
          device_.kernels().gated_delta(
              device_.context(), dtype_,
              {.in = in_.as<float>() + (first - 1) * stride,
               .in_stride = stride,
               .sequences = table.as<DeltaSequence>(),
               .sequence_of_row = rows.as<int32_t>(),
               .rows = static_cast<int32_t>(count + 1),
               .num_sequences = 2,
               .layer = DeltaLayerOf(layout(), 1),
               .conv = conv_.as<float>(),
               .decay = heads_.as<float>(),
               .dt_bias = heads_.as<float>() + layout().shape.num_value_heads,
               .norm = norm_.as<float>(),
               .norm_eps = 1e-6f,
               .scratch = scratch_.as<float>(),
               .out = out_.data() + (first - 1) * width() * static_cast<int64_t>(SizeOf(dtype_)),
               .out_stride = width()}),
          "gated delta"));
    }
    void ComputeAll(int64_t chunk) {
      for (int64_t first = 0; first < operands_.rows(); first += chunk) {
        Compute(first, std::min(chunk, operands_.rows() - first));
      }
    }
    void ForgetRow(int64_t row) {
      const size_t bytes = static_cast<size_t>(width()) * SizeOf(dtype_);
      const std::vector<std::byte> nothing(bytes, std::byte{0xFF});
      Require(device_.CopyToDevice(out_.data() + static_cast<size_t>(row) * bytes, nothing.data(),
                                   bytes));
      Require(device_.Synchronize());
    }
    std::vector<std::byte> Out() const { return Download<std::byte>(device_, out_); }
    std::vector<std::byte> Pool() const { return Download<std::byte>(device_, pool_); }

   private:
    const StateLayout& layout() const { return operands_.layout(); }
    int64_t width() const { return layout().shape.value_size(); }
    size_t PoolBytes() const {
      return static_cast<size_t>(layout().num_pages() * layout().page_bytes);
    }

    CudaDevice& device_;
    const DeltaOperands& operands_;
    DType dtype_;
    DeviceBuffer in_, conv_, heads_, norm_, pool_, scratch_, out_, pages_;
  };
};

TEST_P(CudaGatedDelta, MatchesTheReferenceInAnyChunks) {
  std::mt19937_64 random(kSeed);
  for (const DeltaShape& shape : kDeltaShapes) {
    constexpr int64_t kRows = 21;
    const DeltaOperands operands(shape, kRows, random);
    const DeltaReference reference = operands.Reference();
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      std::vector<std::byte> first, pool;
      for (const auto& device : devices()) {
        for (const int64_t chunk : {kRows, int64_t{1}, int64_t{6}}) {
          Run run(*device, operands, dtype);
          run.ComputeAll(chunk);
          const std::vector<std::byte> got = run.Out();
          if (first.empty()) {
            first = got;
            pool = run.Pool();
          }
          ASSERT_EQ(got, first) << Describe(shape) << " chunk " << chunk << " seed " << kSeed;
          ASSERT_EQ(run.Pool(), pool) << Describe(shape) << " chunk " << chunk;
        }
      }
      for (size_t i = 0; i < reference.out.size(); ++i) {
        const double e = reference.out[i];
        const double rounded = 2 * EpsOf(dtype) * std::fabs(e) + 0x1p-24;
        ASSERT_NEAR(ElementOf(first, i, dtype), e, reference.tolerance[i] + rounded)
            << dtype << " " << Describe(shape) << " element " << i << " seed " << kSeed;
      }
    }
  }
}

TEST_P(CudaGatedDelta, RepeatsTheLastRow) {
  std::mt19937_64 random(kSeed);
  for (const DeltaShape& shape : kDeltaShapes) {
    for (const int64_t rows : {1, 7}) {
      const DeltaOperands operands(shape, rows, random);
      for (const auto& device : devices()) {
        Run run(*device, operands, DType::kF32);
        run.ComputeAll(rows);
        const std::vector<std::byte> out = run.Out(), pool = run.Pool();
        run.ForgetRow(rows - 1);
        run.Compute(rows - 1, 1, true);
        ASSERT_EQ(run.Out(), out) << Describe(shape) << " seed " << kSeed;
        ASSERT_EQ(run.Pool(), pool) << Describe(shape) << " seed " << kSeed;
      }
    }
  }
}

ARIL_INSTANTIATE_CUDA_TEST(CudaGatedDelta);

}  // namespace
}  // namespace aril::kernels
