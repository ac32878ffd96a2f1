#include "sources/source_url.h"

#include <set>
#include <string>
#include <vector>

#include "base/hostile_inputs.h"
#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::HasSubstr;

SourceUrl Parse(const std::string& text) {
  auto url = ParseSourceUrl(text);
  EXPECT_TRUE(url.ok()) << text << ": " << url.status();
  return url.ok() ? *std::move(url) : SourceUrl();
}

TEST(SourceUrl, HttpsIsAFolder) {
  const SourceUrl url = Parse("https://files.example/adapters/sql-v2.1_x~");
  EXPECT_EQ(url.kind, SourceUrl::Kind::kHttps);
  EXPECT_EQ(url.origin, (Origin{.scheme = "https", .host = "files.example", .port = 443}));
  EXPECT_EQ(url.path, "/adapters/sql-v2.1_x~");
  EXPECT_EQ(Parse("https://files.example/a/").path, "/a");
  EXPECT_EQ(Parse("https://files.example").path, "");
  EXPECT_EQ(Parse("https://files.example/").path, "");
  EXPECT_EQ(Parse("https://a-1.b2.example:8443/x").origin.port, 8443);
  EXPECT_EQ(Parse("https://127.0.0.1:9/x").origin.host, "127.0.0.1");
  EXPECT_EQ(Parse("https://[::1]:9/x").origin.host, "[::1]");
  EXPECT_EQ(Parse("https://[2001:db8::1]/x").origin.Text(), "https://[2001:db8::1]");
}

TEST(SourceUrl, S3IsABucketAndAPrefix) {
  const SourceUrl url = Parse("s3://my-bucket.eu/team/sql");
  EXPECT_EQ(url.kind, SourceUrl::Kind::kS3);
  EXPECT_EQ(url.bucket, "my-bucket.eu");
  EXPECT_EQ(url.path, "/team/sql");
  EXPECT_EQ(Parse("s3://bucket").path, "");
}

TEST(SourceUrl, AHubsIsARepositoryAndARevision) {
  const SourceUrl url = Parse("hf://Org/Name-7B_v0.1@refs.pr-1");
  EXPECT_EQ(url.kind, SourceUrl::Kind::kHub);
  EXPECT_EQ(url.repo, "Org/Name-7B_v0.1");
  EXPECT_EQ(url.revision, "refs.pr-1");
  EXPECT_EQ(Parse("hf://a/b").revision, "main");
}

TEST(SourceUrl, WhatIsReadInMoreThanOneWayIsRefused) {
  for (const char* text : {"https://",
                           "https:///x",
                           "https://FILES.example/x",
                           "https://user@files.example/x",
                           "https://files.example@evil.example/x",
                           "https://files.example:/x",
                           "https://files.example:0/x",
                           "https://files.example:080/x",
                           "https://files.example:65536/x",
                           "https://files.example:1:2/x",
                           "https://files.example/x?y",
                           "https://files.example?y",
                           "https://files.example/x#y",
                           "https://files.example#@evil.example/",
                           "https://files.example/../x",
                           "https://files.example/./x",
                           "https://files.example/a//b",
                           "https://files.example//",
                           "https://files.example/%2e%2e/x",
                           "https://files.example/a%2fb",
                           "https://files.example/a\\b",
                           "https://files.example\\@evil.example/x",
                           "https://files.example/a b",
                           "https://files.example/a;b",
                           "https://files..example/x",
                           "https://.example/x",
                           "https://files.example./x",
                           "https://-a.example/x",
                           "https://a_b.example/x",
                           "https://127.1/x",
                           "https://2130706433/x",
                           "https://0x7f.0.0.1/x",
                           "https://0x7f000001/x",
                           "https://0177.0.0.1/x",
                           "https://127.0.0.01/x",
                           "https://[::1/x",
                           "https://::1/x",
                           "https://[::0001]/x",
                           "https://[::1%25lo]/x",
                           "https://[]/x",
                           "https://[::ffff:1.2.3.4]x/",
                           "https://ex\u00E4mple/x",
                           "https://files.example/\u00E4",
                           "https://files.example\n/x",
                           "HTTPS://files.example/x",
                           "http://files.example/x",
                           "file:///etc/passwd",
                           "ftp://files.example/x",
                           "s3://",
                           "s3:///x",
                           "s3://ab/x",
                           "s3://Bucket/x",
                           "s3://bucket/../x",
                           "s3://bucket//x",
                           "s3://bucket/a%2f",
                           "s3://bucket/x?versionId=1",
                           "s3://user:key@bucket/x",
                           "s3://bucket:80/x",
                           "s3://a..b/x",
                           "s3://-ab/x",
                           "hf://",
                           "hf://a",
                           "hf://a/",
                           "hf:///b",
                           "hf://a/b/c",
                           "hf://a/b@",
                           "hf://a/b@x/y",
                           "hf://a/b@..",
                           "hf://../b",
                           "hf://a/..",
                           "hf://a/b@x@y",
                           "hf://a/b?x",
                           "hf://a/b%20",
                           "hf://a/b c"}) {
    EXPECT_TRUE(IsSourceUrl(text)) << text;
    const auto url = ParseSourceUrl(text);
    EXPECT_EQ(url.status().code(), StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(Message(url.status()), HasSubstr("must be ")) << text;
  }
  EXPECT_FALSE(ParseSourceUrl("https://a.example/" + std::string(3000, 'a')).ok());
  EXPECT_FALSE(ParseSourceUrl(std::string("https://a.example\0.b/x", 22)).ok());
}

// Whatever is parsed is of the listed characters, so that no later reader can differ.
TEST(SourceUrl, HostileTextsYieldNothingButPlainParts) {
  std::set<std::string> corpus;
  const std::vector<std::string> prefixes = {
      "", "https://files.example/", "https://", "s3://bucket/", "s3://", "hf://a/", "hf://"};
  for (const auto& inputs : {HostileTraversals(1, "x"), HostileTraversals(4, "etc/passwd"),
                             HostileUrls(), HostileStrings()}) {
    for (const std::string& input : inputs) {
      for (const std::string& prefix : prefixes) corpus.insert(prefix + input);
    }
  }
  EXPECT_GE(corpus.size(), 2000u);
  for (const std::string& text : corpus) {
    const auto url = ParseSourceUrl(text);
    if (!url.ok()) continue;
    for (const std::string* part : {&url->path, &url->bucket, &url->repo, &url->revision}) {
      const std::string framed = "/" + *part + "/";
      EXPECT_EQ(framed.find("/../"), std::string::npos) << text;
      EXPECT_EQ(framed.find("/./"), std::string::npos) << text;
      EXPECT_EQ(
          part->find_first_not_of("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "-._~/"),
          std::string::npos)
          << text;
    }
    EXPECT_EQ(url->origin.host.find_first_not_of("0123456789abcdefghijklmnopqrstuvwxyz-.[]:"),
              std::string::npos)
        << text;
  }
}

TEST(SourceUrl, FoldersAreNoUrls) {
  for (const char* text : {"", "sql", "/lora/sql", "a:b", "://x", "1a://x", "a b://x", "./a://x"}) {
    EXPECT_FALSE(IsSourceUrl(text)) << text;
  }
}

TEST(Origin, IsReadAndWritten) {
  for (const char* text : {"https://a.example", "https://a.example:8443", "https://10.0.0.1"}) {
    const auto origin = ParseOrigin(text, false);
    ASSERT_TRUE(origin.ok()) << origin.status();
    EXPECT_EQ(origin->Text(), text);
  }
  EXPECT_EQ(ParseOrigin("https://a.example:443", false)->Text(), "https://a.example");
  EXPECT_EQ(ParseOrigin("http://a.example:80", true)->Text(), "http://a.example");
  EXPECT_NE(*ParseOrigin("http://a.example:443", true), *ParseOrigin("https://a.example", true));
  for (const char* text : {"http://a.example", "a.example", "https://a.example/", "https://*",
                           "https://a.example/x", "https://A.example", ""}) {
    EXPECT_THAT(Message(ParseOrigin(text, false).status()), HasSubstr("must be an origin")) << text;
  }
}

}  // namespace
}  // namespace aril
