#include "apps/batch_lines.h"

#include <sstream>
#include <string>
#include <vector>

#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

std::vector<BatchRequest> ReadAll(const std::string& text, size_t max_line_bytes = 1000) {
  std::istringstream in(text);
  BatchReader reader(in, max_line_bytes);
  std::vector<BatchRequest> requests;
  while (auto request = reader.Next()) requests.push_back(*std::move(request));
  return requests;
}

constexpr const char* kRequest =
    R"({"custom_id":"a","method":"POST","url":"/v1/completions","body":{"prompt":"hi","seed":1}})";

TEST(BatchLines, AreRequests) {
  const auto requests = ReadAll(StrCat("\n", kRequest, "\r\n  \n", kRequest));
  ASSERT_THAT(requests, SizeIs(2));
  for (const BatchRequest& request : requests) {
    EXPECT_EQ(request.error, "");
    EXPECT_EQ(request.custom_id, "a");
    EXPECT_EQ(request.path, "/v1/completions");
    EXPECT_EQ(request.body, R"({"prompt":"hi","seed":1})");
  }
  EXPECT_EQ(requests[0].line, 2);
  EXPECT_EQ(requests[1].line, 4);
}

TEST(BatchLines, SayWhatIsWrongWithThem) {
  const auto error = [](const std::string& line) {
    const auto requests = ReadAll(line);
    EXPECT_THAT(requests, SizeIs(1));
    return requests.empty() ? "" : requests[0].error;
  };
  const auto with = [](const std::string& id, const std::string& method, const std::string& url,
                       const std::string& body) {
    return StrCat(R"({"custom_id":)", id, R"(,"method":")", method, R"(","url":")", url,
                  R"(","body":)", body, "}");
  };
  EXPECT_THAT(error("{"), HasSubstr("JSON"));
  EXPECT_THAT(error("[]"), HasSubstr("no JSON object"));
  EXPECT_THAT(error(with("5", "POST", "/v1/completions", "{}")), HasSubstr("`custom_id`"));
  EXPECT_THAT(error(with(StrCat('"', std::string(513, 'a'), '"'), "POST", "/v1/completions", "{}")),
              HasSubstr("`custom_id` must be a text of 1 to 512 bytes"));
  EXPECT_THAT(error(with("\"a\"", "GET", "/v1/completions", "{}")), HasSubstr("\"POST\""));
  EXPECT_THAT(error(with("\"a\"", "POST", "/v1/models", "{}")), HasSubstr("/v1/embeddings"));
  EXPECT_THAT(error(with("\"a\"", "POST", "/v1/completions", "[]")), HasSubstr("`body`"));
  EXPECT_THAT(error(with("\"a\"", "POST", "/v1/completions", R"({"stream":true})")),
              HasSubstr("`stream`"));
  EXPECT_EQ(error(with("\"a\"", "POST", "/v1/completions", R"({"stream":false})")), "");
  EXPECT_EQ(error(R"({"custom_id":"a","method":"POST","url":"/v1/completions","body":{},"x":1})"),
            "");
}

TEST(BatchLines, HaveABound) {
  const std::string request = kRequest;
  const auto requests = ReadAll(
      StrCat(request, " \n", request, "\n", request, std::string(9999, ' ')), request.size());
  ASSERT_THAT(requests, SizeIs(3));
  EXPECT_THAT(requests[0].error, HasSubstr("more than"));
  EXPECT_EQ(requests[1].error, "");
  EXPECT_EQ(requests[1].line, 2);
  EXPECT_THAT(requests[2].error, HasSubstr("more than"));
}

TEST(BatchLines, MayBeginWithAByteOrderMark) {
  EXPECT_EQ(ReadAll(StrCat("\xEF\xBB\xBF", kRequest)).at(0).error, "");
}

TEST(BatchLines, SayWhatBecameOfThem) {
  const BatchRequest request = {.line = 7, .custom_id = "a\"b", .error = "so"};
  const std::string answer = AnswerLine(request, "id_7", 200, R"({"id":"x"})");
  EXPECT_EQ(answer, R"({"id":"id_7","custom_id":"a\"b","response":{"status_code":200,)"
                    R"("request_id":"id_7","body":{"id":"x"}},"error":null})"
                    "\n");
  EXPECT_EQ(ReadOutcome(answer)->custom_id, "a\"b");
  EXPECT_TRUE(ReadOutcome(answer)->is_answered);
  EXPECT_FALSE(ReadOutcome(AnswerLine(request, "", 400, "{}"))->is_answered);
  const std::string error = ErrorLine(request, "id_7");
  EXPECT_EQ(error, R"({"id":"id_7","custom_id":"a\"b","response":null,)"
                   R"("error":{"code":"invalid_request","message":"line 7: so"}})"
                   "\n");
  EXPECT_FALSE(ReadOutcome(error)->is_answered);
  EXPECT_THAT(ErrorLine({.line = 1}, ""), HasSubstr(R"("custom_id":null)"));
  EXPECT_EQ(ReadOutcome(ErrorLine({.line = 1}, ""))->custom_id, "");
  for (const char* other : {"", "{", "1", "{}", R"({"custom_id":"a"})", R"({"response":null})",
                            R"({"custom_id":"a","response":{},"body":1})"}) {
    EXPECT_FALSE(ReadOutcome(other).has_value()) << other;
  }
}

// Whatever it has in it, and however much.
TEST(BatchLines, AreReadAgainWithoutTheirAnswers) {
  const std::string body = StrCat(R"({"a":")", std::string(20 << 20, 'x'), "\"}");
  EXPECT_TRUE(ReadOutcome(AnswerLine({.custom_id = R"(,"body":)"}, "", 200, body))->is_answered);
}

TEST(BatchLines, SayHowManyTokensWereGenerated) {
  EXPECT_EQ(NumGeneratedTokens(
                R"({"a":"\"usage\":{}","usage":{"prompt_tokens":1,"completion_tokens":5},"b":1})"),
            5);
  EXPECT_EQ(NumGeneratedTokens(R"({"usage":{"output_tokens":5,"details":{"x":1}}})"), 5);
  for (const char* none : {"", "{}", R"({"usage":null})", R"({"usage":{"prompt_tokens":1}})",
                           R"({"usage":{"completion_tokens":"5"}})", R"({"usage":{)"}) {
    EXPECT_EQ(NumGeneratedTokens(none), 0) << none;
  }
}

}  // namespace
}  // namespace aril
