#include "sources/adapter_fetcher.h"

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/hostile_inputs.h"
#include "base/test_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sources/test_support.h"

namespace aril {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const std::string kCommit(40, 'a');
const std::vector<WantedFile> kWanted = {{"adapter_config.json", true, 100},
                                         {"adapter_model.safetensors", true, 100},
                                         {"extra/tool.jinja", false, 100},
                                         {"more.json", false, 100, [](const std::string& dir) {
                                            return FileExists(dir + "/extra/tool.jinja");
                                          }}};

class AdapterFetcherTest : public ::testing::Test {
 protected:
  AdapterFetcherTest() {
    policy_.https_origins = {*ParseOrigin("https://a.example:8443", false)};
    policy_.s3 = S3Store{.endpoint = *ParseOrigin("http://s3.example:9000", true),
                         .buckets = {"bucket"},
                         .credentials = AwsCredentials{.access_key_id = "id"}};
    policy_.hub = Hub{.endpoint = *ParseOrigin("https://hub.example", false), .token = "secret"};
  }
  Status Fetch(const std::string& source) {
    const AdapterFetcher fetcher(policy_, clock_, [this](const SourcePolicy&) {
      return std::make_unique<FakeTransport>(
          [this](const HttpGet& get) -> FakeReply {
            if (const auto reply = replies_.find(get.url); reply != replies_.end()) {
              return reply->second;
            }
            const auto found = served_.find(get.url);
            if (found == served_.end()) return {.head = {.status = 404}};
            return {.head = {.status = 200}, .body = found->second};
          },
          &asked_);
    });
    return fetcher.Fetch(source, kWanted, dir_.path(), monitor_);
  }
  void Serve(const std::string& folder) {
    served_[folder + "/adapter_config.json"] = "config";
    served_[folder + "/adapter_model.safetensors"] = "weights";
  }
  std::string Read(const std::string& name) {
    return ReadFile(dir_ / name, 100).value_or("(nothing)");
  }

  TestDir dir_;
  ManualClock clock_;
  FakeMonitor monitor_{&clock_};
  SourcePolicy policy_;
  std::map<std::string, std::string> served_;
  std::map<std::string, FakeReply> replies_;  // in place of what is served
  std::vector<HttpGet> asked_;
};

TEST_F(AdapterFetcherTest, FetchesTheFilesThatThereAre) {
  Serve("https://a.example:8443/team/sql");
  ASSERT_TRUE(Fetch("https://a.example:8443/team/sql/").ok());
  EXPECT_EQ(Read("adapter_config.json"), "config");
  EXPECT_EQ(Read("adapter_model.safetensors"), "weights");
  EXPECT_FALSE(FileExists(dir_ / "extra/tool.jinja"));
  EXPECT_EQ(asked_[0].sign, nullptr);
}

TEST_F(AdapterFetcherTest, FoldersInAnAdapterAreMade) {
  Serve("https://a.example:8443");
  served_["https://a.example:8443/extra/tool.jinja"] = "template";
  ASSERT_TRUE(Fetch("https://a.example:8443").ok());
  EXPECT_EQ(Read("extra/tool.jinja"), "template");
}

TEST_F(AdapterFetcherTest, WhatIsNotWantedIsNotAskedFor) {
  Serve("https://a.example:8443");
  served_["https://a.example:8443/more.json"] = "more";
  ASSERT_TRUE(Fetch("https://a.example:8443").ok());
  EXPECT_EQ(Read("more.json"), "(nothing)");
  EXPECT_EQ(asked_.size(), 3u);
}

TEST_F(AdapterFetcherTest, WhatIsWantedIsSaidByWhatIsThere) {
  Serve("https://a.example:8443");
  served_["https://a.example:8443/more.json"] = "more";
  served_["https://a.example:8443/extra/tool.jinja"] = "template";
  ASSERT_TRUE(Fetch("https://a.example:8443").ok());
  EXPECT_EQ(Read("more.json"), "more");
}

TEST_F(AdapterFetcherTest, AMissingFileIsNamed) {
  served_["https://a.example:8443/x/adapter_config.json"] = "config";
  const Status status = Fetch("https://a.example:8443/x");
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(Message(status), HasSubstr("has no adapter_model.safetensors"));
}

TEST_F(AdapterFetcherTest, S3IsAskedPathStyleAndSigned) {
  Serve("http://s3.example:9000/bucket/team/sql");
  ASSERT_TRUE(Fetch("s3://bucket/team/sql").ok());
  for (const HttpGet& get : asked_) {
    ASSERT_NE(get.sign, nullptr);
    EXPECT_EQ(get.sign->access_key_id, "id");
  }
}

// Where the operator's stores are is no business of clients.
TEST_F(AdapterFetcherTest, ErrorsNameTheSourceNotTheEndpoint) {
  const std::string hub = "https://hub.example/api/models/org/name/revision/main";
  const std::string s3 = "http://s3.example:9000/bucket/sql/adapter_config.json";
  const std::string detail = "Failed to connect to s3.example port 9000 (10.1.2.3)";
  const std::vector<std::pair<FakeReply, std::string>> cases = {
      {{.end = Unavailable(detail)}, "cannot be reached, or breaks off"},
      {{.end = InvalidArgument(detail)}, "the log says why"},
      {{.head = {.status = 403}}, "the server answers 403"},
      {{.head = {.status = 503}}, "the server answers 503"},
      {{.head = {.status = 302, .location = "https://elsewhere.example/x"}}, ""},
      {{.head = {.status = 200}, .body = std::string(200, 'x')}, "larger than the 100 bytes"},
      {{.head = {.status = 200}, .body = "x", .end = Unavailable(detail)}, "breaks off"}};
  for (const auto& [reply, expected] : cases) {
    replies_ = {{hub, reply}, {s3, reply}};
    for (const auto& [source, shown] :
         {std::pair("s3://bucket/sql", "s3://bucket/sql/adapter_config.json: "),
          {"hf://org/name", ""}}) {
      std::filesystem::remove(dir_ / "adapter_config.json");
      const std::string message = Message(Fetch(source));
      EXPECT_THAT(message, StartsWith(shown));
      if (source == std::string_view("s3://bucket/sql")) {
        EXPECT_THAT(message, HasSubstr(expected));
      }
      for (const char* secret : {"s3.example", "hub.example", "elsewhere", "10.1.2.3", "9000"}) {
        EXPECT_THAT(message, Not(HasSubstr(secret))) << source;
      }
    }
  }
}

TEST_F(AdapterFetcherTest, AHubsRevisionIsLookedUpOnce) {
  served_["https://hub.example/api/models/org/name/revision/v2"] =
      R"({"sha":")" + kCommit +
      R"(","siblings":[{"rfilename":"adapter_config.json"},{"rfilename":"adapter_model.safetensors"},{}]})";
  Serve("https://hub.example/org/name/resolve/" + kCommit);
  ASSERT_TRUE(Fetch("hf://org/name@v2").ok());
  EXPECT_EQ(Read("adapter_model.safetensors"), "weights");
  EXPECT_EQ(asked_.size(), 3u) << "what is not listed is not asked for";
  for (const HttpGet& get : asked_) {
    EXPECT_THAT(get.headers, ::testing::ElementsAre("Authorization: Bearer secret"));
  }
}

TEST_F(AdapterFetcherTest, WhatAHubSaysIsNotTrusted) {
  const std::string url = "https://hub.example/api/models/org/name/revision/main";
  for (const std::string& answer :
       {std::string("nonsense"), std::string("[]"), std::string("{}"),
        std::string("{\"sha\":1,\"siblings\":[]}"), R"({"sha":")" + kCommit + R"("})",
        R"({"sha":")" + kCommit + R"(","siblings":{}})",
        std::string(R"({"sha":"main","siblings":[]})"),
        std::string(R"({"sha":"../../x","siblings":[]})"),
        R"({"sha":")" + std::string(40, 'A') + R"(","siblings":[]})"}) {
    asked_.clear();
    served_[url] = answer;
    EXPECT_EQ(Fetch("hf://org/name").code(), StatusCode::kInvalidArgument) << answer;
    EXPECT_EQ(asked_.size(), 1u) << answer;
  }
  served_[url] = R"({"sha":")" + kCommit + R"(","siblings":[]})";
  EXPECT_THAT(Message(Fetch("hf://org/name")), HasSubstr("has no adapter_config.json"));
  served_.clear();
  EXPECT_EQ(Fetch("hf://org/name").code(), StatusCode::kNotFound);
}

// Nothing off the list is contacted, whatever the source is written like.
TEST_F(AdapterFetcherTest, HostileSourcesContactNobodyElse) {
  size_t num_tried = 0;
  for (const auto& inputs : {HostileTraversals(1, "x"), HostileTraversals(3, "etc/passwd"),
                             HostileUrls(), HostileStrings()}) {
    for (const std::string& input : inputs) {
      for (const char* prefix :
           {"", "https://a.example:8443/", "https://a.example:8443", "https://", "s3://bucket/",
            "s3://", "hf://org/name@", "hf://org/", "hf://"}) {
        EXPECT_FALSE(Fetch(prefix + input).ok()) << prefix << input;
        ++num_tried;
      }
    }
  }
  EXPECT_GE(num_tried, 3000u);
  for (const HttpGet& get : asked_) {
    const bool is_listed = get.url.starts_with("https://a.example:8443/") ||
                           get.url.starts_with("http://s3.example:9000/bucket/") ||
                           get.url.starts_with("https://hub.example/api/models/");
    EXPECT_TRUE(is_listed) << get.url;
    EXPECT_EQ(get.url.find("/../"), std::string::npos) << get.url;
    EXPECT_EQ(get.url.find_first_of("%?#@\\ "), std::string::npos) << get.url;
  }
  EXPECT_FALSE(FileExists(dir_ / "adapter_config.json"));
}

}  // namespace
}  // namespace aril
