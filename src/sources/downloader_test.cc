#include "sources/downloader.h"

#include <sys/resource.h>

#include <csignal>
#include <functional>
#include <optional>

#include "base/clock.h"
#include "base/file.h"
#include "base/test_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sources/test_support.h"

namespace aril {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::Not;

const std::string kBytes = "0123456789abcdefghij";
constexpr char kUrl[] = "https://a.example/x/file";

Status Broken() { return Unavailable("the connection broke"); }

FakeReply Whole(const std::string& body = kBytes) {
  return {.head = {.status = 200,
                   .content_length = static_cast<int64_t>(body.size()),
                   .etag = "\"v1\""},
          .body = body};
}
// What arrives of `reply` before the connection breaks.
FakeReply Cut(FakeReply reply, size_t num_bytes) {
  reply.body.resize(num_bytes);
  reply.end = Broken();
  return reply;
}
FakeReply Answer(int status, const std::string& retry_after = "") {
  return {.head = {.status = status, .retry_after = retry_after}, .body = "no"};
}
FakeReply Redirect(const std::string& location, int status = 302) {
  return {.head = {.status = status, .location = location}, .body = "see there"};
}
FakeReply From(size_t begin, const std::string& body = kBytes) {
  return {.head = {.status = 206,
                   .content_length = static_cast<int64_t>(body.size() - begin),
                   .content_range = StrCat("bytes ", begin, "-", body.size() - 1, "/", body.size()),
                   .etag = "\"v1\""},
          .body = body.substr(begin)};
}

class DownloaderTest : public ::testing::Test {
 protected:
  // Downloads with these answers, in order; the last one is given again and again.
  StatusOr<std::string> Run(std::vector<FakeReply> replies) {
    FakeTransport transport(
        [&](const HttpGet&) { return replies[std::min(asked_.size(), replies.size()) - 1]; },
        &asked_);
    Downloader downloader(transport, clock_, policy_, monitor_);
    return downloader.DownloadText(file_);
  }
  std::string RangeOf(size_t request) {
    for (const std::string& header : asked_[request].headers) {
      if (header.starts_with("Range: ")) return header.substr(7);
    }
    return "";
  }

  ManualClock clock_;
  FakeMonitor monitor_{&clock_};
  SourcePolicy policy_;
  std::vector<HttpGet> asked_;
  RemoteFile file_ = {.url = kUrl,
                      .origin = *ParseOrigin("https://a.example", false),
                      .headers = {"Authorization: Bearer key"},
                      .max_bytes = 1000};
};

TEST_F(DownloaderTest, WhatArrivesIsTheFile) {
  EXPECT_EQ(*Run({Whole()}), kBytes);
  ASSERT_EQ(asked_.size(), 1u);
  EXPECT_EQ(asked_[0].url, kUrl);
  EXPECT_THAT(asked_[0].headers, ElementsAre("Authorization: Bearer key"));
  EXPECT_EQ(monitor_.progress.back(), (std::pair<int64_t, int64_t>(20, 20)));
  EXPECT_TRUE(monitor_.waits.empty());
}

TEST_F(DownloaderTest, ABrokenTransferGoesOnWhereItBroke) {
  FakeReply second = From(7);
  second.body.resize(5);
  second.end = Broken();
  EXPECT_EQ(*Run({Cut(Whole(), 7), second, From(12)}), kBytes);
  EXPECT_EQ(RangeOf(0), "");
  EXPECT_EQ(RangeOf(1), "bytes=7-");
  EXPECT_EQ(RangeOf(2), "bytes=12-");
  EXPECT_THAT(asked_[1].headers, ::testing::Contains("If-Range: \"v1\""));
}

TEST_F(DownloaderTest, AnotherFileOrAServerWithoutRangesStartsOver) {
  EXPECT_EQ(*Run({Cut(Whole(), 7), Whole("another one")}), "another one");
  for (const std::string& etag : {std::string(), std::string("W/\"v1\""), std::string("v1")}) {
    asked_.clear();
    FakeReply first = Cut(Whole(), 7);
    first.head.etag = etag;
    EXPECT_EQ(*Run({first, Whole()}), kBytes);
    EXPECT_EQ(RangeOf(1), "") << "cannot tell whether it is the same: " << etag;
  }
}

TEST_F(DownloaderTest, ARangeThatWasNotAskedForIsNotTaken) {
  for (const char* range : {"bytes 6-19/20", "bytes 8-19/20", "bytes */20", "", "items 7-19/20",
                            "bytes -7-19/20", "bytes 99999999999999999999-1/2"}) {
    asked_.clear();
    FakeReply wrong = From(7);
    wrong.head.content_range = range;
    EXPECT_EQ(*Run({Cut(Whole(), 7), wrong, Whole()}), kBytes) << range;
    EXPECT_EQ(RangeOf(2), "") << range;
  }
  asked_.clear();
  EXPECT_EQ(Run({From(7)}).status().code(), StatusCode::kInvalidArgument)
      << "nothing was asked for";
  asked_.clear();
  EXPECT_EQ(*Run({Cut(Whole(), 7), Answer(416), Whole()}), kBytes);
}

TEST_F(DownloaderTest, AttemptsThatBringNothingAreFew) {
  const Status status = Run({Answer(503)}).status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(Message(status),
              HasSubstr("https://a.example/x/file: the server answers 503 (5 attempts)"));
  EXPECT_EQ(asked_.size(), 5u);
  EXPECT_THAT(monitor_.waits, ElementsAre(milliseconds(250), milliseconds(500), milliseconds(1000),
                                          milliseconds(2000)));
  for (const int code : {408, 429, 500, 502, 504}) {
    asked_.clear();
    EXPECT_EQ(*Run({Answer(code), Whole()}), kBytes) << code;
  }
}

TEST_F(DownloaderTest, AttemptsThatBringSomethingDoNotCount) {
  std::vector<FakeReply> replies = {Cut(Whole(), 1)};
  for (size_t at = 1; at < kBytes.size(); ++at) {
    FakeReply piece = From(at);
    piece.body.resize(1);
    piece.end = Broken();
    replies.push_back(piece);
    if (at % 3 == 0) replies.push_back({.end = Broken()});
  }
  replies.back().end = OkStatus();
  EXPECT_EQ(*Run(replies), kBytes);
}

TEST_F(DownloaderTest, TheServerMayAskForMoreTimeButNotForever) {
  EXPECT_EQ(*Run({Answer(503, "3"), Answer(429, "100000"), Answer(503, "soon"), Whole()}), kBytes);
  EXPECT_THAT(monitor_.waits, ElementsAre(seconds(3), seconds(8), seconds(1)));
}

TEST_F(DownloaderTest, TimeIsBounded) {
  policy_.timeout = seconds(2);
  const Status status = Run({Answer(503)}).status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(Message(status), HasSubstr("--source-timeout"));
  EXPECT_THAT(asked_.size(), Le(4u));
  for (const HttpGet& get : asked_) EXPECT_LE(get.timeout, seconds(2));
}

TEST_F(DownloaderTest, WhatNobodyCanMendIsFinal) {
  for (const int code : {204, 206, 300, 304, 400, 401, 403, 405, 451, 501, 101}) {
    asked_.clear();
    EXPECT_EQ(Run({Answer(code)}).status().code(), StatusCode::kInvalidArgument) << code;
    EXPECT_EQ(asked_.size(), 1u) << code;
  }
  for (const int code : {404, 410}) {
    EXPECT_EQ(Run({Answer(code)}).status().code(), StatusCode::kNotFound) << code;
  }
  FakeReply zipped = Whole();
  zipped.head.content_encoding = "gzip";
  EXPECT_THAT(Message(Run({zipped}).status()), HasSubstr("Content-Encoding"));
}

TEST_F(DownloaderTest, BytesAreBounded) {
  file_.max_bytes = 20;
  EXPECT_EQ(*Run({Whole()}), kBytes);
  file_.max_bytes = 19;
  asked_.clear();
  const Status told = Run({Whole()}).status();
  EXPECT_EQ(told.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(told), HasSubstr("larger than the 19 bytes"));
  FakeReply untold = Whole();
  untold.head.content_length = std::nullopt;
  asked_.clear();
  EXPECT_THAT(Message(Run({untold}).status()), HasSubstr("larger than the 19 bytes"));
  file_.max_bytes = 1000;
  policy_.max_bytes = 19;
  asked_.clear();
  EXPECT_THAT(Message(Run({Whole()}).status()), HasSubstr("--source-max-bytes"));
  FakeReply huge = From(7);
  huge.head.content_length = INT64_MAX;
  policy_.max_bytes = 1000;
  asked_.clear();
  EXPECT_THAT(Message(Run({Cut(Whole(), 7), huge}).status()), HasSubstr("larger than"));
}

TEST_F(DownloaderTest, TheFilesOfASourceAreBoundedTogether) {
  policy_.max_bytes = 39;
  FakeTransport transport([](const HttpGet&) { return Whole(); }, &asked_);
  Downloader downloader(transport, clock_, policy_, monitor_);
  EXPECT_TRUE(downloader.DownloadText(file_).ok());
  EXPECT_FALSE(downloader.DownloadText(file_).ok());
}

TEST_F(DownloaderTest, RedirectsStayWhereTheyMay) {
  for (const char* location :
       {"/y", "y", "https://a.example/z?sig=1", "https://A.EXAMPLE:443/z", "//a.example/z"}) {
    for (const int code : {301, 302, 303, 307, 308}) {
      asked_.clear();
      EXPECT_EQ(*Run({Redirect(location, code), Whole()}), kBytes) << location;
      EXPECT_THAT(asked_[1].headers, ElementsAre("Authorization: Bearer key"));
    }
  }
  for (const char* location :
       {"https://b.example/x", "http://a.example/x", "https://a.example:444/x", "//b.example/x",
        "https://a.example@b.example/", "https://@a.example/", "https://u:p@a.example/",
        "file:///etc/passwd", "ftp://a.example/", "https://169.254.169.254/", "https://[::1]/",
        "gopher://a.example/", "\\\\b.example\\x", "https://a.example.b.example/x", "https:///x",
        "https://", "javascript:1"}) {
    asked_.clear();
    const Status status = Run({Redirect(location), Whole()}).status();
    if (asked_.size() > 1) {
      // Read as a path: asked of the same host, or not at all.
      EXPECT_TRUE(asked_[1].url.starts_with("https://a.example/")) << location << asked_[1].url;
      continue;
    }
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << location;
    EXPECT_THAT(Message(status), HasSubstr("redirected")) << location;
  }
}

TEST_F(DownloaderTest, CredentialsStayWithTheirOrigin) {
  const AwsCredentials credentials = {.access_key_id = "a"};
  file_.sign = &credentials;
  file_.redirect_origins = {*ParseOrigin("https://cdn.example", false)};
  EXPECT_EQ(*Run({Redirect("https://cdn.example/x?sig=1"), Whole()}), kBytes);
  EXPECT_EQ(asked_[1].url, "https://cdn.example/x?sig=1");
  EXPECT_TRUE(asked_[1].headers.empty());
  EXPECT_EQ(asked_[1].sign, nullptr);
  asked_.clear();
  EXPECT_EQ(*Run({Redirect("https://cdn.example/x"), Cut(Whole(), 7),
                  Redirect("https://cdn.example/x2"), From(7)}),
            kBytes);
  EXPECT_EQ(asked_[2].url, kUrl) << "each attempt begins where the file is";
  EXPECT_EQ(RangeOf(3), "bytes=7-");
}

// The path of an S3 store says whose an object is, and the same host has others' as well.
TEST_F(DownloaderTest, WhatMayNotBeRedirectedIsNot) {
  file_.may_be_redirected = false;
  for (const char* location : {"/..", "/x", "https://a.example/x"}) {
    asked_.clear();
    EXPECT_THAT(Message(Run({Redirect(location), Whole()}).status()),
                HasSubstr("objects of a bucket must not be"));
    EXPECT_EQ(asked_.size(), 1u);
  }
}

TEST_F(DownloaderTest, RedirectsAreFew) {
  EXPECT_THAT(Message(Run({Redirect("/again")}).status()), HasSubstr("more than 5 times"));
  EXPECT_EQ(asked_.size(), 6u);
}

TEST_F(DownloaderTest, CancellingEndsIt) {
  monitor_.cancel_after_bytes = 8;
  EXPECT_EQ(Run({Whole()}).status().code(), StatusCode::kCancelled);
  EXPECT_EQ(monitor_.progress.back().first, 8);
  asked_.clear();
  monitor_.cancelled = true;
  EXPECT_EQ(Run({Answer(503)}).status().code(), StatusCode::kCancelled);
  EXPECT_EQ(asked_.size(), 1u);
}

TEST_F(DownloaderTest, AFileIsWrittenOrSaysWhyNot) {
  const TestDir dir;
  FakeTransport transport(
      [](const HttpGet& get) { return get.url == kUrl ? Whole() : Answer(404); }, &asked_);
  Downloader downloader(transport, clock_, policy_, monitor_);
  EXPECT_TRUE(downloader.DownloadTo(dir / "a", file_).ok());
  EXPECT_EQ(*ReadFile(dir / "a", 100), kBytes);
  EXPECT_EQ(downloader.DownloadTo(dir / "a", file_).code(), StatusCode::kResourceExhausted)
      << "is there";
  file_.url += "0";
  EXPECT_EQ(downloader.DownloadTo(dir / "b", file_).code(), StatusCode::kNotFound);
  EXPECT_FALSE(FileExists(dir / "b"));
  file_.url = kUrl;
}

TEST_F(DownloaderTest, AFullDiskIsSaidAtOnce) {
  const TestDir dir;
  FakeTransport transport([](const HttpGet&) { return Whole(); }, &asked_);
  Downloader downloader(transport, clock_, policy_, monitor_);
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {.rlim_cur = 6, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status status = downloader.DownloadTo(dir / "a", file_);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(Message(status), HasSubstr("cannot write a here"));
  EXPECT_THAT(Message(status), Not(HasSubstr(dir.path())));
  EXPECT_EQ(asked_.size(), 1u) << "fetching again would not help";
}

}  // namespace
}  // namespace aril
