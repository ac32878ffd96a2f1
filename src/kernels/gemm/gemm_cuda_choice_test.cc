// Which algorithms of cuBLASLt compute which products, by a library in its place whose algorithms
// are made up here: what they get wrong, and what time they take, is known.

#include <dlfcn.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/gemm/cublas_lt_test_support.h"
#include "kernels/gemm/gemm_cuda.h"

namespace aril::kernels {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

constexpr uint64_t kSeed = 31;

// Advised first, and so the reference: right for any number of rows, and slow.
const StandInAlgorithm kReference = {.name = "reference", .call_us = 100, .row_us = 10};

class CudaGemmChoice : public ::testing::Test {
 protected:
  CudaGemmChoice() : library_(IsThere() ? Load() : nothing_), device_(library_) { library_ = {}; }

  void SetUp() override {
    if (!IsThere()) GTEST_SKIP() << ARIL_CUBLAS_LT_STAND_IN << " is absent";
  }

  CublasLtStandIn& library() { return library_; }
  CudaDevice& device() { return device_; }

  StatusOr<std::unique_ptr<CudaGemm>> TryToOpen(GemmChoice choice) {
    return OpenCudaGemm(device_, choice, ARIL_CUBLAS_LT_STAND_IN);
  }
  std::unique_ptr<CudaGemm> Open(GemmChoice choice = GemmChoice::kInvariant) {
    auto gemm = TryToOpen(choice);
    Require(gemm.status());
    return std::move(gemm).value();
  }
  ProductOperands Random(const ProductShape& shape) {
    return ProductOperands::Random(device_, shape, random_);
  }
  ProductOperands Whole(const ProductShape& shape) {
    return ProductOperands::Whole(device_, shape, random_);
  }

  // y [rows, n].
  std::vector<float> Run(CudaGemm& gemm, const ProductOperands& operands, int64_t rows) {
    const CudaGemmArgs args = operands.Call(rows);
    Require(device_.Set(args.y, 0xFF, operands.y().size_bytes()));
    Require(gemm.Run(args));
    std::vector<float> y = Download<float>(device_, operands.y());
    y.resize(static_cast<size_t>(rows * args.n));
    return y;
  }
  // The names of the algorithms that compute products of so many rows.
  std::vector<std::string> ChosenFor(CudaGemm& gemm, const ProductOperands& operands,
                                     const std::vector<int64_t>& numbers_of_rows) {
    std::vector<std::string> chosen;
    for (const int64_t rows : numbers_of_rows) {
      (void)Run(gemm, operands, rows);
      chosen.push_back(library_.products.back());
    }
    return chosen;
  }

 private:
  // Not where tests were carried to, for a GPU.
  static bool IsThere() { return std::filesystem::exists(ARIL_CUBLAS_LT_STAND_IN); }
  static CublasLtStandIn& Load() {
    void* const library = dlopen(ARIL_CUBLAS_LT_STAND_IN, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) internal::CheckFailed(__FILE__, __LINE__, "dlopen", dlerror());
    return *reinterpret_cast<decltype(&ArilCublasLtStandIn)>(
        dlsym(library, "ArilCublasLtStandIn"))();
  }

  CublasLtStandIn nothing_;
  CublasLtStandIn& library_;
  TimedDevice device_;
  std::mt19937_64 random_{kSeed};
};

TEST_F(CudaGemmChoice, TakesTheFastestForEachNumberOfRows) {
  library().algorithms = {kReference,
                          {.name = "of few", .call_us = 10, .row_us = 20},
                          {.name = "of some", .call_us = 160, .row_us = 5},
                          {.name = "of many", .call_us = 280, .row_us = 2}};
  const auto gemm = Open();
  const ProductOperands operands = Random({.rows = 70});
  Require(gemm->Prepare(operands.Calls()));
  EXPECT_THAT(ChosenFor(*gemm, operands, {1, 8}), Each("of few"));
  EXPECT_THAT(ChosenFor(*gemm, operands, {9, 16, 17, 32}), Each("of some"));
  EXPECT_THAT(ChosenFor(*gemm, operands, {33, 64, 65, 70}), Each("of many"));
}

TEST_F(CudaGemmChoice, TakesTheReferenceWherePrepareWasNotCalled) {
  library().algorithms = {kReference, {.name = "fast", .call_us = 1, .row_us = 1}};
  const auto gemm = Open();
  const ProductOperands operands = Random({.rows = 20});
  EXPECT_THAT(ChosenFor(*gemm, operands, {1, 9, 20}), Each("reference"));
  for (const ProductShape& other :
       {ProductShape{.rows = 20, .n = 12}, {.rows = 20, .k = 40}, {.rows = 20, .has_bias = true}}) {
    const ProductOperands prepared = Random(other);
    Require(gemm->Prepare(prepared.Calls()));
    EXPECT_THAT(ChosenFor(*gemm, prepared, {1, 9, 20}), Each("fast"));
    EXPECT_THAT(ChosenFor(*gemm, operands, {1, 9, 20}), Each("reference"));
  }
}

TEST_F(CudaGemmChoice, TakesTheReferenceForMoreRowsThanWerePrepared) {
  library().algorithms = {kReference,
                          {.name = "up to 12",
                           .call_us = 1,
                           .row_us = 1,
                           .checked = {.last = 12},
                           .other_order = {13}}};
  const auto gemm = Open();
  const ProductOperands operands = Random({.rows = 40});
  const CudaGemmArgs prepared = operands.Call(12);
  Require(gemm->Prepare({&prepared, 1}));
  EXPECT_THAT(ChosenFor(*gemm, operands, {8, 9, 12}), Each("up to 12"));
  EXPECT_THAT(ChosenFor(*gemm, operands, {13, 16, 17, 40}), Each("reference"));
}

// What is asked for with 64 rows is to compute a prompt, too.
TEST_F(CudaGemmChoice, ReferenceIsTheFirstThatCanComputeAnyNumberOfRows) {
  library().algorithms = {{.name = "not one", .checked = {.first = 2}},
                          {.name = "not 8192", .checked = {.last = 8191}},
                          {.name = "much workspace", .workspace_bytes = size_t{33} << 20},
                          {.name = "with splits", .splits = 2},
                          {.name = "not asked for", .advised = {.last = 63}},
                          kReference,
                          {.name = "another"}};
  const auto gemm = Open();
  const ProductOperands operands = Random({.rows = 3});
  EXPECT_THAT(ChosenFor(*gemm, operands, {3}), ElementsAre("reference"));
  const auto of_fewer = Open();
  const ProductOperands fewer = Random({.rows = 3, .max_rows = 8191});
  EXPECT_THAT(ChosenFor(*of_fewer, fewer, {3}), ElementsAre("not 8192"));
}

// Who does not ask for the same bits has them to the next power of two of rows.
TEST_F(CudaGemmChoice, FastestIsWhatTheLibraryAdvises) {
  library().algorithms = {{.name = "up to 4", .advised = {.last = 4}},
                          {.name = "with splits", .splits = 2},
                          kReference};
  const auto gemm = Open(GemmChoice::kFastest);
  const ProductOperands operands = Random({.rows = 20});
  Require(gemm->Prepare(operands.Calls()));
  EXPECT_THAT(library().products, ElementsAre());
  EXPECT_THAT(ChosenFor(*gemm, operands, {1, 3, 4}), Each("up to 4"));
  EXPECT_THAT(ChosenFor(*gemm, operands, {5, 16, 20}), Each("with splits"));
}

// An algorithm that is faster than all others, and the numbers of rows for which it must not be
// taken: one is chosen for 1 to 8, for 9 to 16, and for 17 to 28.
struct WrongAlgorithm {
  std::string what;
  StandInAlgorithm algorithm;
  RowRange rows;
};
std::ostream& operator<<(std::ostream& out, const WrongAlgorithm& wrong) {
  return out << wrong.what;
}

class CudaGemmChoiceWithout : public CudaGemmChoice,
                              public ::testing::WithParamInterface<WrongAlgorithm> {};

TEST_P(CudaGemmChoiceWithout, WhatIsWrongForSomeRows) {
  StandInAlgorithm wrong = GetParam().algorithm;
  wrong.name = "wrong";
  wrong.call_us = wrong.row_us = 1;
  library().algorithms = {kReference, wrong, {.name = "right", .call_us = 50, .row_us = 5}};
  const auto reference = Open(), prepared = Open();
  constexpr int64_t kRows = 28;
  const ProductOperands operands = Random({.rows = kRows});
  Require(prepared->Prepare(operands.Calls()));
  const std::vector<float> all = Run(*reference, operands, kRows);
  for (int64_t rows = 1; rows <= kRows; ++rows) {
    const std::vector<float> some = Run(*prepared, operands, rows);
    ASSERT_TRUE(BitwiseEqual(some.data(), all.data(), some.size() * sizeof(float))) << rows;
    ASSERT_EQ(library().products.back(), GetParam().rows.Has(rows) ? "right" : "wrong") << rows;
  }
}

INSTANTIATE_TEST_SUITE_P(
    , CudaGemmChoiceWithout,
    ::testing::Values(
        WrongAlgorithm{"OtherBits", {.other_order = {}}, {1, 28}},
        WrongAlgorithm{"OtherBitsOfOneRow", {.other_order = {1, 1}}, {1, 8}},
        WrongAlgorithm{"OtherBitsOfSomeRows", {.other_order = {4, 4}}, {1, 8}},
        WrongAlgorithm{"OtherBitsOfMostRows", {.other_order = {8, 8}}, {1, 8}},
        WrongAlgorithm{"OtherBitsOfMoreThanOneRow", {.other_order = {2, 14}}, {1, 16}},
        WrongAlgorithm{"OtherBitsOfTheFewestOfAChoice", {.other_order = {9, 9}}, {9, 16}},
        WrongAlgorithm{"OtherBitsOfTheMostOfAChoice", {.other_order = {16, 16}}, {9, 16}},
        WrongAlgorithm{"OtherBitsOfTheFewestOfTheLastChoice", {.other_order = {17, 17}}, {17, 28}},
        WrongAlgorithm{"OtherBitsOfTheMostOfAll", {.other_order = {28, 28}}, {17, 28}},
        WrongAlgorithm{
            "OtherBitsInTheFirstRow", {.other_order = {}, .other_rows = {0, 0}}, {1, 28}},
        WrongAlgorithm{
            "OtherBitsInTheLastRow", {.other_order = {}, .other_rows = {27, 27}}, {17, 28}},
        WrongAlgorithm{"OtherBitsInRowsThatFewHaveNot",
                       {.other_order = {9, 14}, .other_rows = {8, 15}},
                       {9, 16}},
        WrongAlgorithm{"LastRowNotComputed", {.rows_left_out = 1}, {1, 28}},
        WrongAlgorithm{"SaysThatItCannotComputeFew", {.checked = {.first = 9}}, {1, 8}},
        WrongAlgorithm{"SaysThatItCannotComputeMany", {.checked = {.last = 16}}, {17, 28}},
        WrongAlgorithm{"RefusesFew", {.computed = {.first = 9}}, {1, 8}},
        WrongAlgorithm{"RefusesMany", {.computed = {.last = 27}}, {17, 28}},
        WrongAlgorithm{"Splits", {.splits = 2}, {1, 28}},
        WrongAlgorithm{"TakesMuchWorkspace", {.workspace_bytes = size_t{33} << 20}, {1, 28}}),
    [](const auto& wrong) { return wrong.param.what; });

// W of whole numbers, whose sums are exact in any order, in all layers but one.
TEST_F(CudaGemmChoice, ComparesTheFirstAndTheLastW) {
  library().algorithms = {kReference,
                          {.name = "wrong", .call_us = 1, .row_us = 1, .other_order = {}}};
  const ProductOperands random = Random({.rows = 16, .num_layers = 1});
  const ProductOperands whole = Whole({.rows = 16, .num_layers = 1});
  const CudaGemmArgs exact = whole.Call(16);
  CudaGemmArgs inexact = exact;
  inexact.x = random.Call(16).x;
  inexact.w = random.Call(16).w;
  const auto chosen_by = [&](const std::vector<CudaGemmArgs>& calls) {
    const auto gemm = Open();
    Require(gemm->Prepare(calls));
    return ChosenFor(*gemm, whole, {16}).front();
  };
  EXPECT_EQ(chosen_by({exact, exact, exact}), "wrong");
  EXPECT_EQ(chosen_by({inexact, exact, exact}), "reference");
  EXPECT_EQ(chosen_by({exact, exact, inexact}), "reference");
}

TEST_F(CudaGemmChoice, TakesTheReferenceWhereThereIsNothingToCompare) {
  library().algorithms = {kReference,
                          {.name = "wrong", .call_us = 1, .row_us = 1, .other_order = {}}};
  const ProductOperands operands = Random({.rows = 16, .num_layers = 1});
  for (const float value : {0.0f, NAN, INFINITY}) {
    const DeviceBuffer w = Upload(device(), std::vector<float>(16 * 32, value));
    CudaGemmArgs call = operands.Call(16);
    call.w = w.data();
    const auto gemm = Open();
    Require(gemm->Prepare({&call, 1}));
    EXPECT_THAT(ChosenFor(*gemm, operands, {1, 16}), Each("reference")) << value;
  }
}

// y holds what is right from the calls before, where they have the same W.
TEST_F(CudaGemmChoice, SeesWhatIsNotComputed) {
  library().algorithms = {kReference,
                          {.name = "wrong", .call_us = 1, .row_us = 1, .rows_left_out = 1}};
  const auto gemm = Open();
  const ProductOperands operands = Random({.rows = 28, .num_layers = 1});
  Require(gemm->Prepare(operands.Calls()));
  EXPECT_THAT(ChosenFor(*gemm, operands, {1, 8, 9, 28}), Each("reference"));
}

TEST_F(CudaGemmChoice, TriesWhatIsAdvisedForFewerRowsAndForMore) {
  library().algorithms = {kReference,
                          {.name = "of 16", .call_us = 50, .row_us = 1, .advised = {16, 16}},
                          {.name = "of 256", .call_us = 60, .row_us = 1, .advised = {256, 256}}};
  const auto gemm = Open();
  const ProductOperands operands = Random({.rows = 64});
  Require(gemm->Prepare(operands.Calls()));
  EXPECT_THAT(ChosenFor(*gemm, operands, {1, 8, 9, 16, 17, 32}), Each("of 16"));
  EXPECT_THAT(ChosenFor(*gemm, operands, {33, 64}), Each("of 256"));
}

// Of more of k the library advises it not, but it can compute that.
TEST_F(CudaGemmChoice, TriesForALargeKWhatIsAdvisedForLessOfIt) {
  library().algorithms = {kReference,
                          {.name = "of less", .call_us = 1, .row_us = 1, .advised_k = 4096}};
  const auto gemm = Open();
  const ProductOperands operands = Random({.rows = 8, .n = 3, .k = 4104, .num_layers = 1});
  Require(gemm->Prepare(operands.Calls()));
  EXPECT_THAT(ChosenFor(*gemm, operands, {1, 8}), Each("of less"));
}

// n and k as they may be, with bias and without, in each dtype.
class CudaGemmChoiceOf : public CudaGemmChoice,
                         public ::testing::WithParamInterface<std::tuple<TestDType, bool>> {};

TEST_P(CudaGemmChoiceOf, ARowHasTheSameBitsAmongAnyNumberOfThem) {
  const auto& [dtype, has_bias] = GetParam();
  library().algorithms = {kReference,
                          {.name = "wrong", .call_us = 1, .row_us = 1, .other_order = {5}},
                          {.name = "right", .call_us = 1, .row_us = 5}};
  constexpr int64_t kRows = 20;
  for (const auto& [n, k] : {std::pair<int64_t, int64_t>{5, 40}, {16, 24}, {33, 200}}) {
    const ProductOperands operands =
        Random({.dtype = dtype, .rows = kRows, .n = n, .k = k, .has_bias = has_bias});
    const auto reference = Open(), prepared = Open();
    Require(prepared->Prepare(operands.Calls()));
    const std::vector<float> all = Run(*reference, operands, kRows);
    const std::vector<double> expected = operands.Expected();
    for (size_t i = 0; i < all.size(); ++i) {
      // Sums of k products of unit normals in fp32, as in gemm_test.cc.
      ASSERT_NEAR(all[i], expected[i], 4 * k * kFloatEps * 40) << "seed " << kSeed;
    }
    for (int64_t rows = 1; rows <= kRows; ++rows) {
      const std::vector<float> some = Run(*prepared, operands, rows);
      EXPECT_TRUE(BitwiseEqual(some.data(), all.data(), some.size() * sizeof(float)))
          << k << " to " << n << ", " << rows << " rows, seed " << kSeed;
      EXPECT_NE(library().products.back(), "reference");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, CudaGemmChoiceOf,
                         ::testing::Combine(::testing::ValuesIn(kDTypes), ::testing::Bool()),
                         [](const auto& param) {
                           return std::string(Name(std::get<0>(param.param).device)) +
                                  (std::get<1>(param.param) ? "WithBias" : "");
                         });

// As a decode's are: what was chosen is not asked for again.
TEST_F(CudaGemmChoice, ProductsOfKnownRowsCanBeCaptured) {
  library().algorithms = {kReference, {.name = "fast", .call_us = 1, .row_us = 1}};
  const auto gemm = Open();
  const ProductOperands operands = Random({.rows = 8});
  Require(gemm->Prepare(operands.Calls()));
  const std::vector<float> expected = Run(*gemm, operands, 8);
  library().failing = "cublasLtMatmulAlgoGetHeuristic";
  auto graph = device().Capture([&] { return gemm->Run(operands.Call(8)); });
  Require(graph.status());
  Require(device().Set(operands.y().data(), 0xFF, operands.y().size_bytes()));
  Require((*graph)->Replay());
  EXPECT_EQ(Download<float>(device(), operands.y()), expected);
}

TEST_F(CudaGemmChoice, NoRowsAreNoProduct) {
  const auto gemm = Open();
  const ProductOperands operands = Random({.rows = 1});
  Require(gemm->Run(operands.Call(0)));
  const CudaGemmArgs none = operands.Call(0);
  Require(gemm->Prepare({&none, 1}));
  Require(device().Synchronize());
  EXPECT_THAT(library().products, ElementsAre());
}

TEST_F(CudaGemmChoice, SaysIfNotEvenTheReferenceGivesTheSameBits) {
  library().algorithms = {{.name = "reference", .other_order = {.first = 9}},
                          {.name = "another", .other_order = {.first = 9}}};
  const auto gemm = Open();
  const Status prepared = gemm->Prepare(Random({.rows = 16}).Calls());
  EXPECT_EQ(prepared.code(), StatusCode::kInternal);
  EXPECT_EQ(Message(prepared),
            "no algorithm gives a row the same bits among any number of rows (use --device cpu): "
            "cublasLtMatmul (16 rows, 32 → 16, F32): not supported");
}

TEST_F(CudaGemmChoice, SaysIfTheLibraryHasNoAlgorithm) {
  library().algorithms = {{.name = "with splits", .splits = 2}};
  const Status run = Open()->Run(Random({.rows = 3}).Call(3));
  EXPECT_EQ(Message(run), "no algorithm (3 rows, 32 → 16, F32): not supported");
  library().algorithms = {};
  EXPECT_EQ(Open(GemmChoice::kFastest)->Run(Random({.rows = 3}).Call(3)), run);
  library().algorithms = {kReference};
  library().failing = "cublasLtMatmulAlgoCheck";
  EXPECT_EQ(Open()->Run(Random({.rows = 3}).Call(3)), run);
}

TEST_F(CudaGemmChoice, SaysIfTheLibraryCannotBeUsed) {
  library().failing = "cublasLtCreate";
  const auto gemm = TryToOpen(GemmChoice::kInvariant);
  EXPECT_EQ(gemm.status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(Message(gemm.status()), "cuBLASLt cannot be used: failed as it was told to");
}

class CudaGemmChoiceFailing : public CudaGemmChoice,
                              public ::testing::WithParamInterface<const char*> {};

TEST_P(CudaGemmChoiceFailing, SaysWhichFunctionDoes) {
  library().algorithms = {kReference};
  library().failing = GetParam();
  const ProductOperands operands = Random({.rows = 1});
  const auto gemm = Open();
  for (const Status& status : {gemm->Run(operands.Call(1)), gemm->Prepare(operands.Calls())}) {
    EXPECT_EQ(status.code(), StatusCode::kInternal);
    EXPECT_EQ(Message(status),
              std::string(GetParam()) + " (1 rows, 32 → 16, F32): failed as it was told to");
  }
  // It may do better the next time.
  library().failing.clear();
  Require(gemm->Run(operands.Call(1)));
}

INSTANTIATE_TEST_SUITE_P(, CudaGemmChoiceFailing,
                         ::testing::Values("cublasLtMatmulDescCreate",
                                           "cublasLtMatmulDescSetAttribute",
                                           "cublasLtMatrixLayoutCreate",
                                           "cublasLtMatmulPreferenceCreate",
                                           "cublasLtMatmulPreferenceSetAttribute",
                                           "cublasLtMatmulAlgoGetHeuristic", "cublasLtMatmul"),
                         [](const auto& name) { return std::string(name.param); });

}  // namespace
}  // namespace aril::kernels
