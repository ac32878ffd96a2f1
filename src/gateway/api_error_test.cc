#include "gateway/api_error.h"

#include "base/json.h"
#include "gtest/gtest.h"

namespace aril::gateway {
namespace {

TEST(ApiErrors, AreInTheWordsOfTheirEndpoint) {
  const ApiError error = InvalidField("n", "must be 1");
  EXPECT_EQ(ErrorJson(error),
            R"({"error":{"message":"must be 1","type":"invalid_request_error","param":"n",)"
            R"("code":null}})");
  EXPECT_EQ(ErrorJson(error, ErrorStyle::kAnthropic),
            R"({"type":"error","error":{"message":"must be 1","type":"invalid_request_error",)"
            R"("param":"n","code":null}})");
}

TEST(ApiErrors, HaveAnthropicsNamesByTheirStatus) {
  const auto type = [](int status) {
    const auto json = Json::Parse(
        ErrorJson({.status = status, .message = "", .code = ""}, ErrorStyle::kAnthropic));
    return *json->Find("error")->Find("type")->AsString();
  };
  EXPECT_EQ(type(400), "invalid_request_error");
  EXPECT_EQ(type(401), "authentication_error");
  EXPECT_EQ(type(403), "permission_error");
  EXPECT_EQ(type(404), "not_found_error");
  EXPECT_EQ(type(405), "invalid_request_error");
  EXPECT_EQ(type(408), "timeout_error");
  EXPECT_EQ(type(413), "request_too_large");
  EXPECT_EQ(type(429), "rate_limit_error");
  EXPECT_EQ(type(500), "api_error");
  EXPECT_EQ(type(501), "api_error");
  EXPECT_EQ(type(503), "overloaded_error");
}

TEST(ApiErrors, FollowThePath) {
  for (const char* path : {"/v1/messages", "/v1/messages/", "/v1/messages/count_tokens"}) {
    EXPECT_EQ(ErrorStyleOf(path), ErrorStyle::kAnthropic) << path;
  }
  for (const char* path : {"", "/", "/v1/models", "/v1/message", "/v1/messages2"}) {
    EXPECT_EQ(ErrorStyleOf(path), ErrorStyle::kOpenAi) << path;
  }
}

}  // namespace
}  // namespace aril::gateway
