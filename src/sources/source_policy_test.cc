#include "sources/source_policy.h"

#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::HasSubstr;

SourceUrl Parse(const std::string& text) { return *ParseSourceUrl(text); }

TEST(SourcePolicy, AllowsWhatIsListedAndNothingElse) {
  SourcePolicy policy;
  EXPECT_FALSE(policy.allows_any());
  for (const auto& [source, flag] :
       std::map<std::string, std::string>{{"https://a.example/x", "--adapter-origin"},
                                          {"s3://bucket/x", "--s3-endpoint"},
                                          {"hf://a/b", "--hub-endpoint"}}) {
    const Status status = policy.Check(Parse(source));
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << source;
    EXPECT_THAT(Message(status), HasSubstr(flag)) << source;
  }
  policy.https_origins = {*ParseOrigin("https://a.example", false)};
  policy.s3 = {.endpoint = *ParseOrigin("https://s3.example", false), .buckets = {"bucket"}};
  policy.hub = {.endpoint = *ParseOrigin("https://hub.example", false)};
  EXPECT_TRUE(policy.allows_any());
  for (const char* source :
       {"https://a.example/x", "https://a.example:443/", "s3://bucket", "hf://a/b"}) {
    EXPECT_TRUE(policy.Check(Parse(source)).ok()) << source;
  }
  for (const char* source :
       {"https://a.example:444/x", "https://b.a.example/x", "https://a.example.b/x",
        "https://hub.example/a", "https://s3.example/bucket", "s3://bucket2/x"}) {
    EXPECT_EQ(policy.Check(Parse(source)).code(), StatusCode::kInvalidArgument) << source;
  }
  EXPECT_THAT(Message(policy.Check(Parse("s3://bucket2/x"))), HasSubstr("--s3-bucket"));
}

StatusOr<std::optional<AwsCredentials>> Read(
    const std::map<std::string, std::string>& environment) {
  return ReadAwsCredentials([&](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

TEST(AwsCredentials, ComeFromTheUsualVariables) {
  EXPECT_FALSE(Read({})->has_value());
  const auto read = Read({{"AWS_ACCESS_KEY_ID", "AKID"},
                          {"AWS_SECRET_ACCESS_KEY", "a/b+c:d"},
                          {"AWS_SESSION_TOKEN", "t"},
                          {"AWS_DEFAULT_REGION", "eu-west-1"}});
  ASSERT_TRUE(read.ok() && read->has_value()) << read.status();
  EXPECT_EQ((*read)->access_key_id, "AKID");
  EXPECT_EQ((*read)->secret_access_key, "a/b+c:d");
  EXPECT_EQ((*read)->session_token, "t");
  EXPECT_EQ((*read)->region, "eu-west-1");
  EXPECT_EQ((*Read({{"AWS_ACCESS_KEY_ID", "a"},
                    {"AWS_SECRET_ACCESS_KEY", "b"},
                    {"AWS_DEFAULT_REGION", "x"},
                    {"AWS_REGION", "y"}}))
                ->region,
            "y");
}

TEST(AwsCredentials, HalfOfThemOrWhatCannotBeSentIsRefused) {
  EXPECT_THAT(Message(Read({{"AWS_ACCESS_KEY_ID", "a"}}).status()), HasSubstr("belong together"));
  EXPECT_FALSE(Read({{"AWS_SECRET_ACCESS_KEY", "a"}}).ok());
  const std::map<std::string, std::string> good = {{"AWS_ACCESS_KEY_ID", "a"},
                                                   {"AWS_SECRET_ACCESS_KEY", "b"}};
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"AWS_ACCESS_KEY_ID", "a:b"},
                                                        {"AWS_SECRET_ACCESS_KEY", "a\nb"},
                                                        {"AWS_SESSION_TOKEN", "a\r\nX: y"},
                                                        {"AWS_REGION", "a:b"},
                                                        {"AWS_REGION", "a b"}}) {
    auto environment = good;
    environment[name] = value;
    EXPECT_THAT(Message(Read(environment).status()), HasSubstr(name)) << value;
  }
}

}  // namespace
}  // namespace aril
