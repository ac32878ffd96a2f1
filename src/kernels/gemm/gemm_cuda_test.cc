// Matrix products by cuBLASLt against the oracle: on a GPU only, but for what happens without the
// library.

#include "kernels/gemm/gemm_cuda.h"

#include <utility>

#include "base/sanitizers.h"
#include "gtest/gtest.h"
#include "kernels/cuda/test_support.h"
#include "kernels/gemm/gemm.h"

namespace aril::kernels {
namespace {

constexpr uint64_t kSeed = 29;

class CudaMatrixProduct : public CudaTest {
 protected:
  // Of one product, on the device.
  struct Operands {
    DeviceBuffer x, w, bias, y;
    CudaGemmArgs args;
  };

  Operands Place(CudaDevice& device, const TestMatrix& x, const TestMatrix& w,
                 const TestMatrix& bias) {
    const DType dtype = x.view().dtype;
    const auto upload = [&](const Matrix& m) {
      const auto bytes = static_cast<size_t>(m.rows * m.stride) * SizeOf(m.dtype);
      return Upload(device, std::vector<std::byte>(m.data, m.data + bytes));
    };
    const int64_t rows = x.view().rows, n = w.view().rows;
    Operands placed = {upload(x.view()),
                       upload(w.view()),
                       upload(bias.view()),
                       Allocate(device, static_cast<size_t>(rows * n) * sizeof(float)),
                       {}};
    placed.args = {.dtype = dtype,
                   .rows = rows,
                   .n = n,
                   .k = x.view().cols,
                   .x = placed.x.data(),
                   .x_stride = x.view().stride,
                   .w = placed.w.data(),
                   .bias = placed.bias.as<float>(),
                   .y = placed.y.as<float>(),
                   .y_stride = n};
    return placed;
  }

  // y [rows, n] of one call.
  std::vector<float> Run(CudaGemm& gemm, CudaDevice& device, const TestMatrix& x,
                         const TestMatrix& w, const TestMatrix& bias) {
    const Operands placed = Place(device, x, w, bias);
    Require(gemm.Run(placed.args));
    return Download<float>(device, placed.y);
  }

  void Prepare(CudaGemm& gemm, CudaDevice& device, const TestMatrix& x, const TestMatrix& w,
               const TestMatrix& bias) {
    const Operands placed = Place(device, x, w, bias);
    Require(gemm.Prepare({&placed.args, 1}));
  }
};

TEST_P(CudaMatrixProduct, MatchesTheReferenceAndIsInvariantIfAskedTo) {
  if (emulated()) GTEST_SKIP() << "cuBLASLt has no emulator";
  std::mt19937_64 random(kSeed);
  CudaDevice& device = *devices()[0];
  auto fastest = OpenCudaGemm(device, GemmChoice::kFastest);
  if (fastest.status().code() == StatusCode::kUnavailable) {
    GTEST_SKIP() << Message(fastest.status());
  }
  auto invariant = OpenCudaGemm(device, GemmChoice::kInvariant);
  Require(fastest.status());
  Require(invariant.status());
  constexpr int64_t kN = 256, kK = 512, kRows = 70;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const TestMatrix x(dtype, kRows, kK, 1.0, random, 0), w(dtype, kN, kK, 1.0, random, 0),
        bias(DType::kF32, 1, kN, 1.0, random, 0);
    std::vector<double> expected(static_cast<size_t>(kRows * kN));
    GemmRef(x.view(), {w.view().data, dtype, {kN, kK}}, bias.floats().data,
            {expected.data(), kRows, kN, kN});
    const std::vector<float> all = Run(**invariant, device, x, w, bias);
    for (const std::vector<float>& y : {all, Run(**fastest, device, x, w, bias)}) {
      for (size_t i = 0; i < y.size(); ++i) {
        // Sums of kK products of unit normals in fp32: as in gemm_test.cc, with a tensor core's
        // truncation.
        ASSERT_NEAR(y[i], expected[i], 4 * kK * kFloatEps * 40) << dtype << " seed " << kSeed;
      }
    }
    // One row alone.
    const TestMatrix first(dtype, 1, kK, 1.0, random, 0);
    std::memcpy(first.view().data, x.view().data, static_cast<size_t>(kK) * SizeOf(dtype));
    const std::vector<float> alone = Run(**invariant, device, first, w, bias);
    EXPECT_TRUE(BitwiseEqual(alone.data(), all.data(), kN * sizeof(float))) << dtype;
  }
}

// Of the sizes that a model has, where an algorithm might split or specialize: by the reference
// alone, and by what Prepare chose for each number of rows.
TEST_P(CudaMatrixProduct, ARowOfAModelIsBitwiseTheSameInAnyNumberOfRows) {
  if (emulated()) GTEST_SKIP() << "cuBLASLt has no emulator";
  std::mt19937_64 random(kSeed);
  CudaDevice& device = *devices()[0];
  auto reference = OpenCudaGemm(device, GemmChoice::kInvariant);
  if (reference.status().code() == StatusCode::kUnavailable) {
    GTEST_SKIP() << Message(reference.status());
  }
  Require(reference.status());
  auto prepared = OpenCudaGemm(device, GemmChoice::kInvariant);
  Require(prepared.status());
  constexpr int64_t kMaxRows = 600;
  for (const auto& [n, k] :
       {std::pair<int64_t, int64_t>{4096, 4096}, {4096, 11008}, {1000, 4104}}) {
    const TestMatrix w(DType::kBF16, n, k, 1.0, random, 0), bias(DType::kF32, 1, n, 1.0, random, 0),
        x(DType::kBF16, kMaxRows, k, 1.0, random, 0);
    const std::vector<float> all = Run(**reference, device, x, w, bias);
    Prepare(**prepared, device, x, w, bias);
    for (const int64_t rows : {1, 2, 8, 31, 33, 64, 65, 200, 600}) {
      const TestMatrix first(DType::kBF16, rows, k, 1.0, random, 0);
      std::memcpy(first.view().data, x.view().data,
                  static_cast<size_t>(rows * k) * SizeOf(DType::kBF16));
      for (CudaGemm* const gemm : {reference->get(), prepared->get()}) {
        const std::vector<float> some = Run(*gemm, device, first, w, bias);
        EXPECT_TRUE(BitwiseEqual(some.data(), all.data(), some.size() * sizeof(float)))
            << rows << " rows, " << k << " to " << n
            << (gemm == prepared->get() ? ", prepared" : "");
      }
    }
  }
}

ARIL_INSTANTIATE_CUDA_TEST(CudaMatrixProduct);

TEST(CudaGemm, SaysWhichLibraryIsMissing) {
  const auto device = MakeEmulatedDevice(emulator::Order::kForward, 1);
  const auto gemm = OpenCudaGemm(*device, GemmChoice::kFastest, "libno-such-library.so");
  ASSERT_FALSE(gemm.ok());
  EXPECT_EQ(gemm.status().code(), StatusCode::kUnavailable);
  EXPECT_NE(Message(gemm.status()).find("libno-such-library.so"), std::string::npos)
      << Message(gemm.status());
}

// A library of that name that is something else.
TEST(CudaGemm, SaysWhatALibraryLacks) {
  const auto device = MakeEmulatedDevice(emulator::Order::kForward, 1);
  const auto gemm = OpenCudaGemm(*device, GemmChoice::kFastest, "libc.so.6");
  ASSERT_FALSE(gemm.ok());
  EXPECT_EQ(Message(gemm.status()), "cuBLASLt has no cublasLtCreate");
}

#if !ARIL_ASAN  // the library leaks when it fails
// Where the library is installed without a device: every function that is wanted is there.
TEST(CudaGemm, SaysThatTheLibraryCannotBeUsedWithoutADevice) {
  if (OpenCudaDevice().ok()) GTEST_SKIP() << "there is a device";
  const auto device = MakeEmulatedDevice(emulator::Order::kForward, 1);
  const auto gemm = OpenCudaGemm(*device, GemmChoice::kFastest);
  ASSERT_FALSE(gemm.ok());
  if (Message(gemm.status()).find("cannot be loaded") != std::string::npos) {
    GTEST_SKIP() << Message(gemm.status());
  }
  EXPECT_NE(Message(gemm.status()).find("cuBLASLt cannot be used: "), std::string::npos)
      << Message(gemm.status());
}
#endif

}  // namespace
}  // namespace aril::kernels
