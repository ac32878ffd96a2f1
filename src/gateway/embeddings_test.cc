// /v1/embeddings: from a request to what is submitted, and from what is computed to an answer.

#include "gateway/embeddings.h"

#include <cmath>
#include <future>
#include <limits>
#include <string>
#include <vector>

#include "base/strings.h"
#include "gateway/completions.h"
#include "gateway/gateway_test_fixture.h"
#include "gateway/texts_input.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril::gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class EmbeddingsTest : public GatewayTest {
 protected:
  static constexpr const char* kPath = "/v1/embeddings";

  std::future<HttpResponse> PostLater(const std::string& body) {
    return std::async(std::launch::async, [this, body] { return Send("POST", kPath, body); });
  }

  // A vector of the model's size that begins with these numbers, and then has zeros.
  static std::vector<float> Vector(std::vector<float> first) {
    first.resize(static_cast<size_t>(MakeServedModel()->spec.hidden_size));
    return first;
  }

  void Finish(const wire::SequenceRequest& request, std::vector<float> embedding) {
    port_.EmitEvents({{.sequence = request.sequence,
                       .pooled = std::move(embedding),
                       .finish = wire::FinishReason::kLength}});
  }

  // The message of a refusal, which has status 400 and names the field.
  std::string Refused(const std::string& fields, const std::string& param) {
    const HttpResponse response =
        Send("POST", kPath, StrCat(R"({"model":"base")", fields.empty() ? "" : ",", fields, "}"));
    EXPECT_EQ(response.status, 400) << response.body;
    EXPECT_THAT(response.body, HasSubstr(StrCat(R"("param":")", param, '"')));
    return response.body;
  }
};

TEST_F(EmbeddingsTest, IsTheLastHiddenStateOfAPromptNormalized) {
  Start();
  auto answer = PostLater(R"({"model":"poet","input":"hi"})");
  const auto requests = port_.WaitForRequests(1);
  EXPECT_EQ(requests[0].adapters, MixOf(AdapterId(0)));
  EXPECT_THAT(requests[0].prompt, ElementsAre(kBosToken, 'h', 'i'));
  EXPECT_EQ(requests[0].max_tokens, 0);
  EXPECT_EQ(requests[0].pooling, wire::Pooling::kEmbedding);
  Finish(requests[0], Vector({3, 0, -4}));
  const HttpResponse response = answer.get();
  EXPECT_EQ(response.status, 200);
  const auto json = Json::Parse(response.body);
  ASSERT_TRUE(json.ok()) << response.body;
  EXPECT_THAT(response.body,
              HasSubstr(R"({"object":"list","data":[{"object":"embedding","index":0,)"
                        R"("embedding":[0.6,0,-0.8,0)"));
  EXPECT_THAT(*At(*json, {"data", "0", "embedding"}).AsArray(),
              SizeIs(MakeServedModel()->spec.hidden_size));
  EXPECT_THAT(response.body, HasSubstr(R"(],"model":"poet","usage":{"prompt_tokens":3,)"
                                       R"("total_tokens":3},"id":"embd-)"));
}

TEST_F(EmbeddingsTest, HasTheFirstDimensionsAsTheyAreOrNormalized) {
  Start();
  const struct {
    const char* fields;
    const char* expected;
  } cases[] = {
      {R"("dimensions":2)", R"("embedding":[0.6,0.8]})"},
      {R"("dimensions":2,"normalize":false)", R"("embedding":[3,4]})"},
      {R"("dimensions":1,"normalize":null)", R"("embedding":[1]})"},
      {R"("dimensions":2,"use_activation":false)", R"("embedding":[3,4]})"},
      {R"("dimensions":1,"truncate_prompt_tokens":-1,"embed_dtype":"float32",)"
       R"("endianness":"native","priority":4)",
       R"("embedding":[1]})"},
      // The floats 3 and 4, which are 0x40400000 and 0x40800000.
      {R"("dimensions":2,"normalize":false,"encoding_format":"base64")",
       R"("embedding":"AABAQAAAgEA="})"},
      {R"("dimensions":3,"normalize":false,"encoding_format":"base64")",
       R"("embedding":"AABAQAAAgEAAAKBA"})"},
  };
  size_t num_requests = 0;
  for (const auto& c : cases) {
    auto answer = PostLater(StrCat(R"({"model":"base","input":[104],)", c.fields, "}"));
    Finish(port_.WaitForRequests(++num_requests).back(), Vector({3, 4, 5}));
    EXPECT_THAT(answer.get().body, HasSubstr(c.expected)) << c.fields;
  }
}

TEST_F(EmbeddingsTest, AVectorOfZerosStaysOne) {
  Start();
  auto answer = PostLater(R"({"model":"base","input":"hi","dimensions":2})");
  Finish(port_.WaitForRequests(1)[0], Vector({}));
  EXPECT_THAT(answer.get().body, HasSubstr(R"("embedding":[0,0]})"));
}

TEST_F(EmbeddingsTest, TakesTextsAndTokensInEveryForm) {
  Start();
  const std::pair<const char*, std::vector<std::vector<int32_t>>> cases[] = {
      {R"("a")", {{kBosToken, 'a'}}},
      {R"([98,99])", {{98, 99}}},
      {R"(["a","b"])", {{kBosToken, 'a'}, {kBosToken, 'b'}}},
      {R"([[98],[99,97]])", {{98}, {99, 97}}},
      {R"("a","add_special_tokens":false)", {{'a'}}},
  };
  size_t num_requests = 0;
  for (const auto& [input, prompts] : cases) {
    auto answer = PostLater(StrCat(R"({"model":"base","dimensions":1,"input":)", input, "}"));
    const size_t first = num_requests;
    num_requests += prompts.size();
    const auto requests = port_.WaitForRequests(num_requests);
    for (size_t i = 0; i < prompts.size(); ++i) {
      EXPECT_EQ(requests[first + i].prompt, prompts[i]) << input;
      Finish(requests[first + i], Vector({1}));
    }
    EXPECT_EQ(answer.get().status, 200) << input;
  }
}

TEST_F(EmbeddingsTest, TakesAConversationAsItsTemplateShowsItWithoutABeginningOfAnAnswer) {
  Start();
  const auto encoded = [&](const std::string& fields) {
    const HttpResponse response = Send("POST", "/tokenize", StrCat("{", fields, "}"));
    EXPECT_EQ(response.status, 200) << response.body;
    const auto json = Json::Parse(response.body);
    std::vector<int32_t> tokens;
    for (const Json& token : *json->Find("tokens")->AsArray()) {
      tokens.push_back(static_cast<int32_t>(*token.AsInt()));
    }
    return tokens;
  };
  size_t num_requests = 0;
  for (const char* model : {"base", "poet"}) {
    const std::string fields =
        StrCat(R"("model":")", model, R"(","messages":[{"role":"user","content":"hi"}])");
    for (const auto& [more, same] :
         {std::pair("", R"(,"add_generation_prompt":false)"),
          {R"(,"add_generation_prompt":true)", R"(,"add_generation_prompt":true)"}}) {
      auto answer = PostLater(StrCat("{", fields, more, R"(,"dimensions":1})"));
      const auto request = port_.WaitForRequests(++num_requests).back();
      EXPECT_EQ(request.prompt, encoded(fields + same)) << more;
      EXPECT_EQ(request.pooling, wire::Pooling::kEmbedding);
      Finish(request, Vector({1}));
      EXPECT_EQ(answer.get().status, 200);
    }
  }
  const std::string chat = R"("model":"base","messages":[{"role":"user","content":"hi"}])";
  EXPECT_NE(encoded(chat + R"(,"add_generation_prompt":false)"), encoded(chat));
}

TEST_F(EmbeddingsTest, ManyTextsAreComputedSomeAtATimeAndAnsweredInOrder) {
  Start({.limits = {.max_sequences = 3}});
  port_.RefuseAfter(3, InvalidArgument("a fourth"));
  auto answer = PostLater(
      R"({"model":"base","normalize":false,"dimensions":1,"input":["a","b","c","d","e"]})");
  port_.WaitForRequests(3);
  // Behind the request, on the server's one thread: no more until one of them has ended.
  EXPECT_EQ(Send("GET", "/v1/models").status, 200);
  port_.RefuseAfter(100, OkStatus());
  Finish(port_.WaitForRequests(3)[1], Vector({11}));
  Finish(port_.WaitForRequests(4)[3], Vector({13}));
  const auto requests = port_.WaitForRequests(5);
  for (const size_t i : {4, 0, 2}) Finish(requests[i], Vector({10 + static_cast<float>(i)}));
  const HttpResponse response = answer.get();
  for (int i = 0; i < 5; ++i) {
    EXPECT_THAT(response.body,
                HasSubstr(StrCat(R"("index":)", i, R"(,"embedding":[)", 10 + i, "]")));
  }
  EXPECT_THAT(response.body, HasSubstr(R"("prompt_tokens":10,"total_tokens":10)"));
}

TEST_F(EmbeddingsTest, WhatTheRunnerHasNoRoomForWaitsForWhatRuns) {
  Start({.limits = {.max_sequences = 2}});
  port_.RefuseAfter(2, ResourceExhausted("full"));
  auto answer = PostLater(R"({"model":"base","dimensions":1,"input":["a","b","c"]})");
  const auto requests = port_.WaitForRequests(2);
  Finish(requests[0], Vector({1}));
  // Behind that event, as both are posted: the third text has been refused.
  EXPECT_EQ(Send("GET", "/v1/models").status, 200);
  port_.RefuseAfter(100, OkStatus());
  clock_.Advance(std::chrono::seconds(3));
  Finish(requests[1], Vector({1}));
  const auto last = port_.WaitForRequests(3).back();
  EXPECT_EQ(last.arrival - requests[0].arrival, std::chrono::seconds(3))
      << "who has come meanwhile stands before it";
  EXPECT_TRUE(last.is_sibling);
  Finish(last, Vector({1}));
  EXPECT_EQ(answer.get().status, 200);
}

TEST_F(EmbeddingsTest, ARunnerThatStaysFullEndsTheRequest) {
  Start({.limits = {.max_sequences = 2}});
  port_.RefuseAfter(2, ResourceExhausted("full"));
  auto answer = PostLater(R"({"model":"base","input":["a","b","c"]})");
  for (const auto& request : port_.WaitForRequests(2)) Finish(request, Vector({1}));
  EXPECT_EQ(answer.get().status, 503);
}

TEST_F(EmbeddingsTest, ATextThatCannotRunEndsTheRequestAndWhatRuns) {
  Start({.limits = {.max_sequences = 2}});
  port_.RefuseAfter(2, InvalidArgument("never"));
  auto answer = PostLater(R"({"model":"base","input":["a","b","c"]})");
  const auto requests = port_.WaitForRequests(2);
  Finish(requests[0], Vector({1}));
  EXPECT_EQ(answer.get().status, 400);
  EXPECT_THAT(port_.WaitForCancels(1), ElementsAre(requests[1].sequence));
}

// Of five tokens, one text's two are used.
TEST_F(EmbeddingsTest, WhatHasBeenEmbeddedCountsAlsoIfTheRequestFails) {
  Start({.limits = {.max_sequences = 1},
         .tenant_limits = {.of_tenant = {{"default", {.tokens_per_minute = 5}}}}});
  port_.RefuseAfter(1, InvalidArgument("never"));
  auto answer = PostLater(R"({"model":"base","input":["a","b"]})");
  Finish(port_.WaitForRequests(1)[0], Vector({1}));
  EXPECT_EQ(answer.get().status, 400);
  EXPECT_EQ(Send("POST", kPath, R"({"model":"base","input":"ab"})").status, 429);
  EXPECT_THAT(Send("GET", "/metrics").body,
              HasSubstr(R"(aril_tokens_total{kind="prompt",tenant="default"} 2)"));
}

TEST_F(EmbeddingsTest, WhatCameToNothingDoesNotCount) {
  Start({.tenant_limits = {.of_tenant = {{"default", {.tokens_per_minute = 5}}}}});
  auto failed = PostLater(R"({"model":"base","input":"ab"})");
  port_.EmitError(port_.WaitForRequests(1)[0].sequence, Internal("broken"));
  EXPECT_EQ(failed.get().status, 500);
  auto answer = PostLater(R"({"model":"base","input":"abcd"})");
  Finish(port_.WaitForRequests(2)[1], Vector({1}));
  EXPECT_EQ(answer.get().status, 200);
}

TEST_F(EmbeddingsTest, AClientThatGoesEndsAllOfIt) {
  Start({.limits = {.max_sequences = 2}});
  RawClient client(server_->port());
  ASSERT_TRUE(client.Send(PostText(kPath, R"({"model":"base","input":["a","b","c"]})")));
  const auto requests = port_.WaitForRequests(2);
  client.Close();
  EXPECT_THAT(port_.WaitForCancels(2),
              testing::UnorderedElementsAre(requests[0].sequence, requests[1].sequence));
}

TEST_F(EmbeddingsTest, WhatARunnerMustNotGiveIsAnErrorAndNoAnswer) {
  Start();
  const std::pair<std::vector<float>, const char*> cases[] = {
      {{}, "gave 0 numbers"},
      {{1, 2}, "gave 2 numbers"},
      {Vector({std::numeric_limits<float>::quiet_NaN()}), "not finite"},
  };
  size_t num_requests = 0;
  for (const auto& [embedding, message] : cases) {
    auto answer = PostLater(R"({"model":"base","input":"a"})");
    Finish(port_.WaitForRequests(++num_requests).back(), embedding);
    const HttpResponse response = answer.get();
    EXPECT_EQ(response.status, 500);
    EXPECT_THAT(response.body, HasSubstr(message));
  }
}

TEST_F(EmbeddingsTest, RefusesWhatItCannotDoAndNamesTheField) {
  Start();
  EXPECT_THAT(Refused("", "input"), HasSubstr("is required"));
  EXPECT_THAT(Refused(R"("input":[])", "input"), HasSubstr("must not be empty"));
  EXPECT_THAT(Refused(R"("input":[[]])", "input"), HasSubstr("at least one token"));
  EXPECT_THAT(Refused(R"("input":{"a":1})", "input"), HasSubstr("must be a string"));
  EXPECT_THAT(Refused(R"("input":["a",7])", "input[1]"), HasSubstr("must be a string"));
  EXPECT_THAT(Refused(R"("input":[[1],[2],[]])", "input[2]"), HasSubstr("at least one token"));
  EXPECT_THAT(Refused(R"("input":[100000])", "input"), HasSubstr("token ids between"));
  EXPECT_THAT(Refused(StrCat(R"("input":")", std::string(64, 'x'), '"'), "input"),
              HasSubstr("maximum context length"));
  EXPECT_THAT(Refused(R"("input":"a","dimensions":0)", "dimensions"), HasSubstr("dimensions"));
  EXPECT_THAT(Refused(R"("input":"a","dimensions":100000)", "dimensions"), HasSubstr("dimensions"));
  EXPECT_THAT(Refused(R"("input":"a","encoding_format":"int8")", "encoding_format"),
              HasSubstr("base64"));
  EXPECT_THAT(Refused(R"("input":"a","normalize":"yes")", "normalize"), HasSubstr("boolean"));
  EXPECT_THAT(Refused(R"("input":"a","stream":true)", "stream"), HasSubstr("as a whole"));
  EXPECT_THAT(Refused(R"("input":"a","messages":[{"role":"user","content":"a"}])", "messages"),
              HasSubstr("excludes `input`"));
  EXPECT_THAT(Refused(R"("messages":[{"role":"user"}])", "messages[0].content"),
              HasSubstr("content"));
  EXPECT_THAT(Refused(R"("messages":[])", "messages"), HasSubstr("messages"));
  EXPECT_THAT(Refused(R"("input":"abcd","truncate_prompt_tokens":4)", "truncate_prompt_tokens"),
              HasSubstr("has 5 tokens, and is not cut to 4"));
  EXPECT_THAT(Refused(R"("input":"a","embed_dtype":"float16")", "embed_dtype"),
              HasSubstr("float32"));
  EXPECT_THAT(Refused(R"("input":"a","endianness":"big")", "endianness"),
              HasSubstr("little-endian"));
  std::string many = R"("a")";
  for (size_t i = 0; i < kMaxTexts; ++i) many += R"(,"a")";
  EXPECT_THAT(Refused(StrCat(R"("input":[)", many, "]"), "input"),
              HasSubstr("2049 texts, more than the 2048"));
  EXPECT_EQ(Send("POST", kPath, R"({"model":"nobody","input":"a"})").status, 404);
  EXPECT_EQ(Send("GET", kPath).status, 405);
}

TEST_F(EmbeddingsTest, ATextMayFillTheWholeContext) {
  Start();
  auto answer = PostLater(StrCat(R"({"model":"base","input":")", std::string(63, 'x'), R"("})"));
  Finish(port_.WaitForRequests(1)[0], Vector({1}));
  EXPECT_EQ(answer.get().status, 200);
}

TEST_F(EmbeddingsTest, OfAModelThatMakesThemOtherwiseAreRefused) {
  const auto model = MakeServedModel();
  ServedModel other = {.spec = model->spec,
                       .embedding = Unimplemented("made otherwise"),
                       .text = TextOfBytes(),
                       .catalog = model->catalog,
                       .max_model_len = 64};
  const CompletionLimits limits;
  const auto parsed = ParseEmbeddingsRequest(R"({"model":"base","input":"a"})",
                                             {.model = other, .limits = limits, .tenant = "t"});
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.error().status, 501);
  EXPECT_THAT(parsed.error().message, HasSubstr("made otherwise"));
}

TEST_F(EmbeddingsTest, AreAllThatADecoderAloneIsAskedFor) {
  const auto model = MakeServedModel();
  ModelSpec spec = model->spec;
  spec.has_lm_head = false;
  const ServedModel decoder = {
      .spec = spec, .text = TextOfBytes(), .catalog = model->catalog, .max_model_len = 64};
  const CompletionLimits limits;
  const RequestContext context = {.model = decoder, .limits = limits, .tenant = "t"};
  EXPECT_TRUE(ParseEmbeddingsRequest(R"({"model":"base","input":"a"})", context).ok());
  const auto refused = ParseCompletionRequest(R"({"model":"base","prompt":"a"})", context);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().status, 400);
  EXPECT_THAT(refused.error().message, HasSubstr("makes embeddings"));
}

}  // namespace
}  // namespace aril::gateway
