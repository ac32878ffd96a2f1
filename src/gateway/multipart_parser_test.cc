#include "gateway/multipart_parser.h"

#include <random>
#include <string>
#include <vector>

#include "base/hostile_inputs.h"
#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril::gateway {
namespace {

using ::testing::HasSubstr;

// What it has seen, as text.
class Transcript final : public MultipartSink {
 public:
  Status OnPart(const std::string& name, const std::optional<std::string>& filename) override {
    text += StrCat("[", name, filename ? "|" + *filename : "", "]");
    return name == "refused" ? InvalidArgument("by the sink") : OkStatus();
  }
  Status OnData(std::string_view bytes) override {
    text += bytes;
    return OkStatus();
  }
  Status OnPartEnd() override {
    text += "[end]";
    return OkStatus();
  }
  std::string text;
};

struct Outcome {
  Status status;
  std::string text;
};
Outcome Parse(const std::string& body, size_t piece_bytes = SIZE_MAX) {
  Transcript transcript;
  MultipartParser parser("b0", transcript);
  Status status;
  for (size_t at = 0; at < body.size() && status.ok(); at += piece_bytes) {
    status = parser.Append(std::string_view(body).substr(at, piece_bytes));
    if (piece_bytes == SIZE_MAX) break;
  }
  if (status.ok()) status = parser.Finish();
  return {status, transcript.text};
}

std::string Part(const std::string& header, const std::string& data) {
  return StrCat("--b0\r\n", header, "\r\n\r\n", data, "\r\n");
}
std::string Named(const std::string& name, const std::string& data) {
  return Part(StrCat("Content-Disposition: form-data; name=\"", name, "\""), data);
}

TEST(MultipartParser, HandsOutThePartsHoweverTheyAreCut) {
  const std::string tricky = "\r\n--b\r\n--b1\r\n-\r\n\r\n--B0--\r\r\n-";
  const std::string body =
      Part(
          "Content-Disposition: form-data; name=\"a\"; filename=\"a b.json\"\r\n"
          "Content-Type: application/json",
          "{}") +
      Named("b", "") + Named("c", tricky) +
      Part("content-disposition:form-data;name=d\r\nContent-Transfer-Encoding: binary", "x") +
      "--b0--\r\n";
  const std::string expected = "[a|a b.json]{}[end][b][end][c]" + tricky + "[end][d]x[end]";
  for (size_t piece = 1; piece < body.size() + 1; ++piece) {
    const Outcome outcome = Parse(body, piece);
    ASSERT_TRUE(outcome.status.ok()) << piece << outcome.status;
    ASSERT_EQ(outcome.text, expected) << piece;
  }
  EXPECT_TRUE(Parse(Named("a", "x") + "--b0--").status.ok()) << "without a last line end";
}

TEST(MultipartParser, WhatIsReadInMoreThanOneWayIsRefused) {
  const std::string good = Named("a", "x");
  for (const std::string& body :
       {std::string("preamble\r\n") + good + "--b0--",
        "\r\n" + good + "--b0--",
        std::string("--b0--x"),
        std::string("--b0 \r\n"),
        std::string("--b1\r\n"),
        good + "--b0--\r\nepilogue",
        good + "--b0--\r\n\r\n",
        good + "--b0-",
        good + "--b0x",
        good,
        std::string("--b0\r\n\r\nx\r\n--b0--"),
        Part("Content-Disposition: attachment; name=\"a\"", "x"),
        Part("Content-Disposition: form-data", "x"),
        Part("Content-Disposition: form-data; filename=\"a\"", "x"),
        Part("Content-Disposition: form-data; name=\"a\"; name=\"b\"", "x"),
        Part("Content-Disposition: form-data; name=\"a\\\"b\"", "x"),
        Part("Content-Disposition: form-data; name=\"a", "x"),
        Part("Content-Disposition: form-data; name=\"a\"x", "x"),
        Part("Content-Disposition: form-data; name=\"a\"; filename*=UTF-8''x", "x"),
        Part("Content-Disposition: form-data; name=\"a\"\r\nContent-Disposition: form-data; "
             "name=\"b\"",
             "x"),
        Part("Content-Disposition: form-data; name=\"a\"\r\nContent-Transfer-Encoding: base64",
             "x"),
        Part("Content-Disposition: form-data; name=\"a\"\r\nContent-Encoding: gzip", "x"),
        Part("Content-Disposition: form-data; name=\"a\"\r\n folded", "x"),
        Part("nonsense", "x"),
        Part("Content-Disposition : form-data; name=\"a\"", "x"),
        std::string("")}) {
    for (const size_t piece : {size_t{1}, SIZE_MAX}) {
      const Outcome outcome = Parse(body, piece);
      EXPECT_EQ(outcome.status.code(), StatusCode::kInvalidArgument) << body;
      EXPECT_THAT(Message(outcome.status), HasSubstr("the multipart body ")) << body;
    }
  }
}

TEST(MultipartParser, AHeaderIsBounded) {
  const Outcome outcome = Parse("--b0\r\nX: " + std::string(8000, 'a'), 7);
  EXPECT_THAT(Message(outcome.status), HasSubstr("larger than 4096 bytes"));
}

TEST(MultipartParser, TheSinksErrorIsFinal) {
  Transcript transcript;
  MultipartParser parser("b0", transcript);
  EXPECT_EQ(Message(parser.Append(Named("refused", "x") + Named("a", "y"))), "by the sink");
  EXPECT_EQ(Message(parser.Append("z")), "by the sink");
  EXPECT_EQ(Message(parser.Finish()), "by the sink");
  EXPECT_EQ(transcript.text, "[refused]");
}

TEST(MultipartParser, HostileTextsAreDataOrRefused) {
  size_t num_tried = 0;
  for (const auto& inputs : {HostileTraversals(2, "x"), HostileUrls(), HostileStrings()}) {
    for (const std::string& input : inputs) {
      EXPECT_EQ(Parse(Named("a", input) + "--b0--").text, "[a]" + input + "[end]");
      // As a name it is what it is, or nothing.
      const Outcome named = Parse(Named(input, "x") + "--b0--");
      if (named.status.ok()) {
        EXPECT_EQ(named.text, "[" + input + "]x[end]");
      }
      EXPECT_FALSE(Parse(input).status.ok());
      ++num_tried;
    }
  }
  EXPECT_GE(num_tried, 500u);
}

TEST(FindMultipartBoundary, ReadsTheContentType) {
  EXPECT_EQ(*FindMultipartBoundary("multipart/form-data; boundary=b0"), "b0");
  EXPECT_EQ(*FindMultipartBoundary("Multipart/Form-Data; charset=utf-8; Boundary=\"b:0\""), "b:0");
  for (const char* other : {"", "application/json", "multipart/mixed; boundary=b", "x"}) {
    const auto boundary = FindMultipartBoundary(other);
    ASSERT_TRUE(boundary.ok());
    EXPECT_FALSE(boundary->has_value()) << other;
  }
  for (const std::string& bad :
       {std::string("multipart/form-data"), std::string("multipart/form-data; boundary="),
        std::string("multipart/form-data; boundary=\"\""),
        std::string("multipart/form-data; boundary=\"a\nb\""),
        std::string("multipart/form-data; boundary=a; boundary=b"),
        "multipart/form-data; boundary=" + std::string(71, 'a'),
        std::string("multipart/form-data; boundary=\"a"), std::string("multipart/form-data; x")}) {
    EXPECT_FALSE(FindMultipartBoundary(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace aril::gateway
