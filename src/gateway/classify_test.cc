// /v1/classify: from a request to what is submitted, and from numbers to an answer.

#include "gateway/classify.h"

#include <future>
#include <limits>
#include <string>
#include <vector>

#include "base/strings.h"
#include "gateway/gateway_test_fixture.h"
#include "gateway/texts_input.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril::gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class ClassifyTest : public GatewayTest {
 protected:
  static constexpr const char* kPath = "/v1/classify";

  std::future<HttpResponse> PostLater(const std::string& body, const char* path = kPath) {
    return std::async(std::launch::async, [=, this] { return Send("POST", path, body); });
  }

  void Finish(const wire::SequenceRequest& request, std::vector<float> numbers,
              std::string label = "LABEL_7") {
    port_.EmitEvents({{.sequence = request.sequence,
                       .pooled = std::move(numbers),
                       .label = std::move(label),
                       .finish = wire::FinishReason::kLength}});
  }

  // What becomes of one text's numbers.
  std::string Answer(const std::string& fields, std::vector<float> numbers) {
    auto answer = PostLater(
        StrCat(R"({"model":"poet","input":"hi")", fields.empty() ? "" : ",", fields, "}"));
    Finish(port_.WaitForRequests(++num_requests_).back(), std::move(numbers));
    return answer.get().body;
  }

  // The message of a refusal, which has status 400 and names the field.
  std::string Refused(const std::string& fields, const std::string& param) {
    const HttpResponse response =
        Send("POST", kPath, StrCat(R"({"model":"poet")", fields.empty() ? "" : ",", fields, "}"));
    EXPECT_EQ(response.status, 400) << response.body;
    EXPECT_THAT(response.body, HasSubstr(StrCat(R"("param":")", param, '"')));
    return response.body;
  }

  size_t num_requests_ = 0;
};

TEST_F(ClassifyTest, GivesEachTextALabelAndProbabilities) {
  Start();
  for (const char* path : {kPath, "/classify"}) {
    auto answer = PostLater(R"({"model":"poet","input":["hi",[98]]})", path);
    num_requests_ += 2;
    const auto requests = port_.WaitForRequests(num_requests_);
    const auto& first = requests[num_requests_ - 2];
    const auto& second = requests[num_requests_ - 1];
    EXPECT_EQ(first.adapters, MixOf(AdapterId(0)));
    EXPECT_THAT(first.prompt, ElementsAre(kBosToken, 'h', 'i'));
    EXPECT_THAT(second.prompt, ElementsAre('b'));
    EXPECT_EQ(first.max_tokens, 0);
    EXPECT_EQ(first.pooling, wire::Pooling::kClassProbabilities);
    Finish(second, {0.5f, 0.5f});
    Finish(first, {0.25f, 0.75f}, "not \"good\"");
    const HttpResponse response = answer.get();
    EXPECT_EQ(response.status, 200);
    EXPECT_TRUE(Json::Parse(response.body).ok()) << response.body;
    EXPECT_THAT(response.body, StartsWith(R"({"id":"classify-)"));
    EXPECT_THAT(
        response.body,
        EndsWith(R"("model":"poet","data":[)"
                 R"({"index":0,"label":"not \"good\"","probs":[0.25,0.75],"num_classes":2},)"
                 R"({"index":1,"label":"LABEL_7","probs":[0.5,0.5],"num_classes":2}],)"
                 R"("usage":{"prompt_tokens":4,"total_tokens":4,"completion_tokens":0,)"
                 R"("prompt_tokens_details":null}})"));
  }
}

TEST_F(ClassifyTest, LogitsThemselvesAreGivenWhereTheyAreAskedFor) {
  Start();
  for (const char* field : {"activation", "use_activation"}) {
    for (const auto& [value, pooling] : {std::pair("false", wire::Pooling::kClassLogits),
                                         {"true", wire::Pooling::kClassProbabilities},
                                         {"null", wire::Pooling::kClassProbabilities}}) {
      EXPECT_THAT(Answer(StrCat('"', field, "\":", value), {-2.5f, 7, 0.1f}),
                  HasSubstr(R"("probs":[-2.5,7,0.1],"num_classes":3)"));
      EXPECT_EQ(port_.WaitForRequests(num_requests_).back().pooling, pooling) << field;
    }
  }
}

// As reward models are trained.
TEST_F(ClassifyTest, TakesAConversation) {
  Start();
  auto answer = PostLater(R"({"model":"base","messages":[{"role":"user","content":"hi"},)"
                          R"({"role":"assistant","content":"yo"}]})");
  const auto request = port_.WaitForRequests(1)[0];
  std::string text;
  for (const int32_t token : request.prompt) text.push_back(static_cast<char>(token));
  EXPECT_THAT(text, HasSubstr("yo"));
  Finish(request, {0.5f});
  EXPECT_THAT(answer.get().body, HasSubstr(R"("probs":[0.5],"num_classes":1)"));
}

TEST_F(ClassifyTest, WhatARunnerMustNotGiveIsAnErrorAndNoAnswer) {
  Start();
  EXPECT_THAT(Answer("", {}), HasSubstr("gave 0 numbers where 1 to 1024"));
  EXPECT_THAT(Answer("", std::vector<float>(1025)), HasSubstr("gave 1025 numbers"));
  EXPECT_THAT(Answer("", {1, std::numeric_limits<float>::infinity()}), HasSubstr("not finite"));
}

TEST_F(ClassifyTest, WhoseAdapterIsNoClassifierIsTold) {
  Start();
  port_.RefuseAfter(0, InvalidArgument("is no classifier"));
  const HttpResponse response = Send("POST", kPath, R"({"model":"base","input":"a"})");
  EXPECT_EQ(response.status, 400);
  EXPECT_THAT(response.body, HasSubstr("is no classifier"));
}

TEST_F(ClassifyTest, RefusesWhatItCannotDoAndNamesTheField) {
  Start();
  EXPECT_THAT(Refused("", "input"), HasSubstr("is required"));
  EXPECT_THAT(Refused(R"("input":["a",7])", "input[1]"), HasSubstr("must be a string"));
  EXPECT_THAT(Refused(StrCat(R"("input":")", std::string(64, 'x'), '"'), "input"),
              HasSubstr("maximum context length"));
  EXPECT_THAT(Refused(R"("input":"a","activation":1)", "activation"), HasSubstr("boolean"));
  EXPECT_THAT(Refused(R"("input":"a","stream":true)", "stream"), HasSubstr("as a whole"));
  EXPECT_THAT(Refused(R"("input":"a","messages":[{"role":"user","content":"a"}])", "messages"),
              HasSubstr("excludes `input`"));
  EXPECT_THAT(Refused(R"("input":"abcd","truncate_prompt_tokens":4)", "truncate_prompt_tokens"),
              HasSubstr("is not cut to 4"));
  std::string many = R"("a")";
  for (size_t i = 0; i < kMaxTexts; ++i) many += R"(,"a")";
  EXPECT_THAT(Refused(StrCat(R"("input":[)", many, "]"), "input"),
              HasSubstr("2049 texts, more than the 2048"));
  EXPECT_EQ(Send("POST", kPath, R"({"model":"nobody","input":"a"})").status, 404);
  EXPECT_EQ(Send("GET", kPath).status, 405);
}

}  // namespace
}  // namespace aril::gateway
