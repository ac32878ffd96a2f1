#include "apps/bench_generate.h"

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

BenchGenerateOptions SmallOptions() {
  return {.shape = "tiny",
          .threads = 2,
          .max_batch = 4,
          .lengths = "punica:40",
          .num_requests = 12,
          .num_restricted = 6,
          .num_adapters = 8,
          .rank = 4,
          .popularities = {"distinct", "identical", "base"},
          .probe_bytes = size_t{64} << 20};
}

TEST(BenchGenerate, GeneratesTheSameTokensHoweverAdaptersAreBatched) {
  const TestDir dir;
  BenchGenerateOptions options = SmallOptions();
  options.json_path = dir / "generate.json";
  std::ostringstream out, progress;
  const Status status = BenchGenerate(options, out, progress, RealClock());
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(out.str(), AllOf(HasSubstr("one adapter in a batch"), HasSubstr("distinct"),
                               HasSubstr("identical")));
  const auto text = ReadFile(options.json_path, 1 << 20);
  ASSERT_TRUE(text.ok()) << text.status();
  const auto json = Json::Parse(*text);
  ASSERT_TRUE(json.ok()) << json.status();
  const Json::Array& results = *json->Find("results")->AsArray();
  ASSERT_EQ(results.size(), 3u);
  const auto number = [&](size_t i, const char* key) {
    double value = -1;
    EXPECT_TRUE(results[i].Find(key) != nullptr && results[i].Find(key)->AsNumber(&value)) << key;
    return value;
  };
  for (size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(number(i, "tokens"), number(0, "tokens"));
    // The batches are as full, whoever is in them.
    EXPECT_EQ(number(i, "steps"), number(0, "steps"));
    EXPECT_GT(number(i, "of_roofline"), 0);
    EXPECT_GT(number(i, "one_adapter_tokens_per_s"), 0);
  }
}

TEST(BenchGenerate, SaysWhatItCannotRun) {
  const auto error_with = [](const std::function<void(BenchGenerateOptions&)>& change) {
    BenchGenerateOptions options = SmallOptions();
    change(options);
    std::ostringstream out, progress;
    return Message(BenchGenerate(options, out, progress, RealClock()));
  };
  EXPECT_THAT(error_with([](auto& o) { o.lengths = "long"; }),
              AllOf(HasSubstr("punica:MAX"), HasSubstr("punica-short")));
  EXPECT_THAT(error_with([](auto& o) { o.popularities = {"odd"}; }), HasSubstr("distinct"));
  EXPECT_THAT(error_with([](auto& o) { o.num_adapters = 3; }), HasSubstr("adapters"));
}

}  // namespace
}  // namespace aril
