// Sources that are fetched into a store, through a transport that fails as it is told to.

#include "apps/remote_adapters.h"

#include <algorithm>

#include "apps/remote_adapters_test_fixture.h"
#include "base/hostile_inputs.h"

namespace aril {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(RemoteAdaptersTest, WhatIsFetchedIsTheSameGenerationAsAFolder) {
  const auto loaded = Load();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ((**loaded)->digest, *DigestOfAdapter(kAdapter));
  EXPECT_EQ((**loaded)->rank, 4);
  EXPECT_TRUE(store_.Has((**loaded)->digest));
  const auto again = Load();
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(*again, *loaded);
  EXPECT_EQ(store_.List()->size(), 1u);
}

TEST_F(RemoteAdaptersTest, WhatIsNotReadIsNotFetched) {
  const auto asks_for_tokenizer = [this] {
    return std::ranges::any_of(
        asked_, [](const HttpGet& get) { return get.url == StrCat(kSource, "/tokenizer.json"); });
  };
  Served("tokenizer.json") = "{}";
  ASSERT_TRUE(Load().ok());
  EXPECT_FALSE(asks_for_tokenizer());
  Served("tokenizer_config.json") = "{}";
  ASSERT_TRUE(Load().ok());
  EXPECT_TRUE(asks_for_tokenizer());
}

TEST_F(RemoteAdaptersTest, WhatIsNoAdapterIsRefused) {
  const std::string config = Served("adapter_config.json");
  Served("adapter_config.json") = "{}";
  ExpectFailure(StatusCode::kInvalidArgument, "peft_type");
  Served("adapter_config.json") = "<html>not found</html>";
  ExpectFailure(StatusCode::kInvalidArgument, kSource);
  Served("adapter_config.json") = config;
  std::string& weights = Served("adapter_model.safetensors");
  weights.resize(weights.size() / 2);
  ExpectFailure(StatusCode::kInvalidArgument, "adapter_model.safetensors");
  weights = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n";
  ExpectFailure(StatusCode::kInvalidArgument, "adapter_model.safetensors");
  weights.clear();
  ExpectFailure(StatusCode::kInvalidArgument, "adapter_model.safetensors");
  served_.erase(StrCat(kSource, "/adapter_model.safetensors"));
  ExpectFailure(StatusCode::kNotFound, "has no adapter_model.safetensors");
}

TEST_F(RemoteAdaptersTest, WhatIsTooLargeIsRefused) {
  Served("adapter_config.json") = std::string((size_t{4} << 20) + 1, ' ');
  ExpectFailure(StatusCode::kInvalidArgument, "larger than");
}

TEST_F(RemoteAdaptersTest, ACancelledLoadLeavesNothing) {
  monitor_.cancel_after_bytes = 100;
  ExpectFailure(StatusCode::kCancelled, "cancelled");
}

TEST_F(RemoteAdaptersTest, HostileSourcesAreRefusedAndNobodyIsAsked) {
  size_t num_tried = 0;
  for (const auto& inputs :
       {HostileTraversals(2, "outside/canary"), HostileUrls(), HostileStrings()}) {
    for (const std::string& source : inputs) {
      if (!remote_->IsRemote(source)) continue;
      EXPECT_FALSE(Load(source).ok()) << source;
      ++num_tried;
    }
  }
  EXPECT_GE(num_tried, 200u);
  EXPECT_TRUE(asked_.empty());
  EXPECT_TRUE(fs::is_empty(dir_ / "store"));
}

}  // namespace
}  // namespace aril
