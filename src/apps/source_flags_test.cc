#include "apps/source_flags.h"

#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::HasSubstr;

StatusOr<SourcePolicy> Make(const SourceFlags& flags,
                            const std::map<std::string, std::string>& environment = {}) {
  return MakeSourcePolicy(flags, [&](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

TEST(SourceFlags, WithoutAnyNothingIsFetched) {
  const auto policy = Make({}, {{"AWS_ACCESS_KEY_ID", "a"}, {"HF_TOKEN", "t"}});
  ASSERT_TRUE(policy.ok()) << policy.status();
  EXPECT_FALSE(policy->allows_any());
  EXPECT_FALSE(policy->allow_private);
}

TEST(SourceFlags, SayWhatIsFetchedAndHow) {
  const auto policy = Make({.adapter_origins = {"https://a.example", "https://b.example:8443"},
                            .s3_endpoint = "http://minio.example:9000",
                            .s3_buckets = {"loras"},
                            .hub_endpoint = "https://hub.example",
                            .hub_redirect_origins = {"https://cdn.example"},
                            .allow_private = true,
                            .max_bytes = 1000,
                            .timeout = std::chrono::seconds(5)},
                           {{"AWS_ACCESS_KEY_ID", "id"},
                            {"AWS_SECRET_ACCESS_KEY", "secret"},
                            {"HF_TOKEN", "token"},
                            {"SSL_CERT_FILE", "/ca.pem"}});
  ASSERT_TRUE(policy.ok()) << policy.status();
  EXPECT_EQ(policy->https_origins[1].Text(), "https://b.example:8443");
  EXPECT_EQ(policy->s3->endpoint.Text(), "http://minio.example:9000");
  EXPECT_EQ(policy->s3->credentials->access_key_id, "id");
  EXPECT_EQ(policy->hub->token, "token");
  EXPECT_EQ(policy->hub->redirect_origins[0].Text(), "https://cdn.example");
  EXPECT_TRUE(policy->allow_private);
  EXPECT_EQ(policy->max_bytes, 1000);
  EXPECT_EQ(policy->timeout, std::chrono::seconds(5));
  EXPECT_EQ(policy->ca_file, "/ca.pem");
}

TEST(SourceFlags, WhatIsWrongIsNamed) {
  const std::vector<std::pair<SourceFlags, std::string>> cases = {
      {{.adapter_origins = {"http://a.example"}}, "--adapter-origin"},
      {{.adapter_origins = {"https://a.example/x"}}, "--adapter-origin"},
      {{.s3_endpoint = "https://s3.example"}, "--s3-bucket"},
      {{.s3_buckets = {"loras"}}, "--s3-endpoint"},
      {{.s3_endpoint = "s3.example", .s3_buckets = {"loras"}}, "--s3-endpoint"},
      {{.s3_endpoint = "https://s3.example", .s3_buckets = {"loras/x"}}, "--s3-bucket loras/x"},
      {{.hub_redirect_origins = {"https://cdn.example"}}, "--hub-endpoint"},
      {{.hub_endpoint = "hub"}, "--hub-endpoint"},
      {{.hub_endpoint = "https://hub.example", .hub_redirect_origins = {"*"}},
       "--hub-redirect-origin"},
      {{.max_bytes = 0}, "--source-max-bytes"}};
  for (const auto& [flags, flag] : cases) {
    const auto policy = Make(flags);
    EXPECT_EQ(policy.status().code(), StatusCode::kInvalidArgument) << flag;
    EXPECT_THAT(Message(policy.status()), HasSubstr(flag));
  }
  EXPECT_THAT(
      Message(Make({.hub_endpoint = "https://hub.example"}, {{"HF_TOKEN", "a\nb"}}).status()),
      HasSubstr("HF_TOKEN"));
}

}  // namespace
}  // namespace aril
