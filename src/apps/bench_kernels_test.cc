#include "apps/bench_kernels.h"

#include <sstream>

#include "base/file.h"
#include "base/json.h"
#include "base/test_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

BenchKernelsOptions SmallOptions() {
  return {.shapes = {"tiny"},
          .threads = 2,
          .rows = {1, 7},
          .lora_rows = {4},
          .ranks = {8, 3},
          .contexts = {33},
          .sequences = 2,
          .prefill_tokens = 20,
          .passes = 1,
          .duration = Duration(1),
          .cold_bytes = size_t{1} << 20,
          .probe_bytes = size_t{64} << 20};
}

double Number(const Json& json, const char* key) {
  double value = -1;
  const Json* found = json.Find(key);
  EXPECT_TRUE(found != nullptr && found->AsNumber(&value)) << key;
  return value;
}

// Its experts' down has 176 inputs.
TEST(BenchKernels, LeavesOutProductsThatHaveNoWholeGroups) {
  BenchKernelsOptions options = SmallOptions();
  options.shapes = {"tiny-moe"};
  options.kernels = {"gemm-codebook4"};
  std::ostringstream out;
  const Status status = BenchKernels(options, out, RealClock());
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(out.str(),
              AllOf(HasSubstr("gemm codebook4"), HasSubstr("gate_up"), Not(HasSubstr("down"))));
}

TEST(BenchKernels, ComparesEachWithItsLimit) {
  const TestDir dir;
  BenchKernelsOptions options = SmallOptions();
  options.json_path = dir / "kernels.json";
  std::ostringstream out;
  const Status status = BenchKernels(options, out, RealClock());
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(out.str(), AllOf(HasSubstr("gemm int8"), HasSubstr("gemm int4"),
                               HasSubstr("gemm fp8"), HasSubstr("gemm codebook4 "),
                               HasSubstr("gemm codebook4-by-32"), HasSubstr("gate_up 256 to 1408"),
                               HasSubstr("lora, gather and batch"), HasSubstr("prefill")));
  const auto text = ReadFile(options.json_path, 1 << 20);
  ASSERT_TRUE(text.ok()) << text.status();
  const auto json = Json::Parse(*text);
  ASSERT_TRUE(json.ok()) << json.status();
  const Json::Array& results = *json->Find("results")->AsArray();
  // Four products of six kinds at two numbers of rows; three operators at four popularities; two
  // of attention.
  constexpr size_t kProducts = 4 * 6 * 2, kWithAdapters = 3 * 4;
  ASSERT_EQ(results.size(), kProducts + kWithAdapters + 2);
  for (const Json& result : results) {
    EXPECT_GT(Number(result, "seconds"), 0);
    EXPECT_GT(Number(result, "of_limit"), 0);
  }
  EXPECT_EQ(Number(results[0], "bytes"), 2 * 256 * (256 + 2 * 128)) << "of qkv";
  // The four rows of `distinct` have four adapters, of ranks 8 and 3 in turns.
  EXPECT_EQ(Number(results[kProducts], "bytes"), 4 * 5.5 * (256 + 256) * 2);
  EXPECT_EQ(Number(results[kProducts], "operations"), 4 * 5.5 * 2 * (256 + 256));
  EXPECT_EQ(Number(results[kProducts + kWithAdapters], "bytes"), 2 * 33 * 2 * 128 * 2)
      << "K and V of two sequences";
}

TEST(BenchKernels, MeasuresLinearAttentionWhereThereIsSome) {
  const TestDir dir;
  BenchKernelsOptions options = SmallOptions();
  options.shapes = {"tiny", "qwen3.5-0.8b"};
  options.kernels = {"gated-delta"};
  options.json_path = dir / "kernels.json";
  std::ostringstream out;
  const Status status = BenchKernels(options, out, RealClock());
  ASSERT_TRUE(status.ok()) << status;
  const auto text = ReadFile(options.json_path, 1 << 20);
  ASSERT_TRUE(text.ok()) << text.status();
  const auto json = Json::Parse(*text);
  ASSERT_TRUE(json.ok()) << json.status();
  const Json::Array& results = *json->Find("results")->AsArray();
  ASSERT_EQ(results.size(), 2u) << "decodes and a prompt, of one shape";
  EXPECT_EQ(Number(results[0], "bytes"), 2 * 2 * 16 * 128 * 128 * 4) << "of two sequences";
  options.device = "cuda";
  EXPECT_THAT(Message(BenchKernels(options, out, RealClock())),
              HasSubstr("--kernel gated-delta: there is none for --device cuda"));
}

TEST(BenchKernels, CutsBatchesOfAdaptersAsAsked) {
  const TestDir dir;
  BenchKernelsOptions options = SmallOptions();
  options.kernels = {"lora"};
  options.lora_rows = {7};
  options.lora_segment_rows = {3, 8};
  options.lora_projections = {"down"};
  options.ranks = {8};
  options.json_path = dir / "kernels.json";
  std::ostringstream out;
  const Status status = BenchKernels(options, out, RealClock());
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(out.str(),
              AllOf(HasSubstr("704 to 256 rank 8 3 rows each"), Not(HasSubstr("distinct"))));
  const auto text = ReadFile(options.json_path, 1 << 20);
  ASSERT_TRUE(text.ok()) << text.status();
  const auto json = Json::Parse(*text);
  ASSERT_TRUE(json.ok()) << json.status();
  const Json::Array& results = *json->Find("results")->AsArray();
  ASSERT_EQ(results.size(), 2u * 3);
  EXPECT_EQ(Number(results[0], "bytes"), 3 * 8 * (704 + 256) * 2) << "of 3, 3 and 1 rows";
  EXPECT_EQ(Number(results[3], "bytes"), 8 * (704 + 256) * 2) << "of 7 rows";
}

TEST(BenchKernels, RefusesWhatIsNone) {
  std::ostringstream out;
  BenchKernelsOptions options = SmallOptions();
  options.kernels = {"conv"};
  EXPECT_THAT(
      Message(BenchKernels(options, out, RealClock())),
      HasSubstr("--kernel conv: kernels are gemm, gemm-int8, gemm-int4, gemm-fp8, gemm-codebook4, "
                "gemm-codebook4-by-32, lora, "
                "attention, gated-delta, experts"));
  options = SmallOptions();
  options.device = "cuda";
  options.kernels = {"gemm-int8"};
  EXPECT_THAT(Message(BenchKernels(options, out, RealClock())),
              HasSubstr("--kernel gemm-int8: there is none for --device cuda"));
  options.kernels = {"gemm-int4"};
  EXPECT_THAT(Message(BenchKernels(options, out, RealClock())),
              HasSubstr("--kernel gemm-int4: there is none for --device cuda"));
  options = SmallOptions();
  options.kernels = {"experts"};
  EXPECT_THAT(Message(BenchKernels(options, out, RealClock())),
              HasSubstr("--kernel experts: there is none for --device cpu"));
  options = SmallOptions();
  options.lora_projections = {"query"};
  EXPECT_THAT(Message(BenchKernels(options, out, RealClock())),
              HasSubstr("--lora-projection query: projections are q, o, gate, down"));
  options = SmallOptions();
  options.shapes = {"gpt-5"};
  EXPECT_THAT(Message(BenchKernels(options, out, RealClock())), HasSubstr("gpt-5"));
}

}  // namespace
}  // namespace aril
