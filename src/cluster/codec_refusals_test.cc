// What is out of range is refused by name, and no text breaks a frame.

#include <cmath>

#include "cluster/aril.pb.h"
#include "cluster/codec.h"
#include "cluster/codec_test_support.h"
#include "cluster/field_reader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wire/limits.h"

namespace aril::cluster {
namespace {

using ::testing::HasSubstr;

// Bytes in Latin-1, as a file or a server that is not ours may have them; and how they arrive.
const std::string kLatin = "caf\xe9!";
const std::string kReadable = "caf\uFFFD!";

TEST(Codec, SendsNoTextThatIsNotUtf8) {
  // protobuf refuses a frame with such a text as a whole.
  wire::TokenEvent failed;
  failed.sequence = SequenceId(78);
  failed.finish = wire::FinishReason::kError;
  failed.error = InvalidArgument(kLatin);
  EXPECT_EQ(RoundTrip(TokenEvents{{failed}}).events[0].error, InvalidArgument(kReadable));

  EXPECT_EQ(RoundTrip(Refusal{SequenceId(1), milliseconds(1), kLatin}).reason, kReadable);
  EXPECT_EQ(RoundTrip(RunnerList{{{RunnerId(1), kLatin}}}).runners[0].address, kReadable);
  wire::Submission submission = SomeSubmission();
  submission.tenant = submission.numeric_class = kLatin;
  EXPECT_EQ(RoundTrip(submission).tenant, kReadable);
  EXPECT_EQ(RoundTrip(submission).numeric_class, kReadable);

  delivery::StartAttempt start = SomeStart();
  start.request.tenant = start.request.format.source = kLatin;
  start.shared[0].digest = start.shared[0].sources[0] = kLatin;
  const delivery::StartAttempt got = RoundTrip(start);
  EXPECT_EQ(got.request.tenant, kReadable);
  EXPECT_EQ(got.request.format.source, kReadable);
  EXPECT_EQ(got.shared[0].digest, kReadable);
  EXPECT_EQ(got.shared[0].sources[0], kReadable);
  const auto load = RoundTrip(LoadAdapters{.tenant = kLatin, .shared = start.shared});
  EXPECT_EQ(load.tenant, kReadable);
  EXPECT_EQ(load.shared, got.shared);

  Hello hello = RunnerHello();
  hello.version = hello.instance = hello.address = hello.runner.numeric_class = kLatin;
  hello.deployment = {kLatin, {{kLatin, kLatin}, {kLatin, kLatin}}};
  hello.features = {kLatin};
  const Hello greeting = RoundTrip(hello);
  EXPECT_EQ(greeting.version, kReadable);
  EXPECT_EQ(greeting.instance, kReadable);
  EXPECT_EQ(greeting.address, kReadable);
  EXPECT_EQ(greeting.runner.numeric_class, kReadable);
  EXPECT_EQ(greeting.features[0], kReadable);
  EXPECT_EQ(greeting.deployment,
            (Deployment{kReadable, {{kReadable, kReadable}, {kReadable, kReadable}}}));
}

TEST(Codec, CutsWhatIsForPeopleBetweenCodePoints) {
  // Three bytes each, so that the limit falls inside of one.
  std::string text;
  while (text.size() <= kMaxReason) text += "\u20AC";
  wire::TokenEvent failed;
  failed.sequence = SequenceId(78);
  failed.finish = wire::FinishReason::kError;
  failed.error = InvalidArgument(text);
  const std::string cut = text.substr(0, kMaxReason / 3 * 3);
  EXPECT_EQ(Message(RoundTrip(TokenEvents{{failed}}).events[0].error), cut);
  EXPECT_EQ(RoundTrip(Refusal{SequenceId(1), milliseconds(1), text}).reason, cut);
  // What replaces bytes is longer than they are.
  failed.error = InvalidArgument(std::string(kMaxReason, '\xff'));
  EXPECT_EQ(Message(RoundTrip(TokenEvents{{failed}}).events[0].error).size(), cut.size());
}

TEST(Codec, NamesWhatIsOutOfRange) {
  using S = wire::Submission;
  EXPECT_EQ(Complaint<S>(SomeSubmission(), [](S& s) { s.sequence = SequenceId(-2); }),
            "a bad Submission: sequence is -2; it must be from 0 to 9223372036854775807");
  EXPECT_THAT(Complaint<S>(SomeSubmission(), [](S& s) { s.gateway = GatewayId(-1); }),
              HasSubstr("gateway is -1"));
  EXPECT_THAT(Complaint<S>(SomeSubmission(), [](S& s) { s.adapter = AdapterId(-2); }),
              HasSubstr("adapter is -2"));
  EXPECT_THAT(Complaint<S>(SomeSubmission(), [](S& s) { s.adapter_pages = -1; }),
              HasSubstr("adapter_pages is -1"));
  EXPECT_THAT(Complaint<S>(SomeSubmission(), [](S& s) { s.num_tokens = INT32_MAX; }),
              HasSubstr("num_tokens is 2147483647"));
  EXPECT_THAT(Complaint<S>(SomeSubmission(), [](S& s) { s.attempt = UINT32_MAX; }),
              HasSubstr("attempt is 4294967295"));
  EXPECT_THAT(Complaint<S>(SomeSubmission(), [](S& s) { s.tenant = std::string(1000, 'x'); }),
              HasSubstr("tenant has 1000 bytes"));
  using P = wire::Placement;
  EXPECT_THAT(Complaint<P>({Epoch(-1), SequenceId(1), GatewayId(1), 1, RunnerId(1)}, [](P&) {}),
              HasSubstr("epoch is -1"));
  using H = Hello;
  EXPECT_THAT(Complaint<H>(RunnerHello(), [](H& h) { h.runner.pages.page_tokens = 0; }),
              HasSubstr("page_tokens is 0"));
  EXPECT_THAT(Complaint<H>(RunnerHello(), [](H& h) { h.runner.pages.state_pages = -1; }),
              HasSubstr("state_pages is -1"));
  EXPECT_THAT(Complaint<H>(RunnerHello(), [](H& h) { h.runner.adapter_pages.pop_back(); }),
              HasSubstr("adapter_pages has 1 entries for 2 adapters"));
  using A = delivery::StartAttempt;
  for (const float bad : {NAN, INFINITY, -1.0f}) {
    EXPECT_THAT(Complaint<A>(SomeStart(), [=](A& a) { a.request.sampling.temperature = bad; }),
                HasSubstr("temperature is"));
  }
  EXPECT_THAT(Complaint<A>(SomeStart(), [](A& a) { a.request.sampling.top_p = 0; }),
              HasSubstr("top_p is 0"));
  EXPECT_THAT(Complaint<A>(SomeStart(), [](A& a) { a.request.sampling.num_logprobs.reset(); }),
              HasSubstr("prompt_logprobs is set without num_logprobs"));
  EXPECT_THAT(Complaint<A>(SomeStart(), [](A& a) { a.request.adapters[0].weight = NAN; }),
              HasSubstr("weight is nan"));
  EXPECT_THAT(Complaint<A>(SomeStart(), [](A& a) { a.shared[0].adapter = AdapterId(7); }),
              HasSubstr("shared adapter is 7"));
  EXPECT_THAT(Complaint<A>(SomeStart(), [](A& a) { a.request.format.kind = {}; }),
              HasSubstr("a format of any text has a source"));
  EXPECT_THAT(Complaint<A>(SomeStart(),
                           [](A& a) {
                             a.request.format = {.reasoning = {{.begin = "<t>", .end = "</t>"}}};
                           }),
              HasSubstr("a format of any text has a source, or reasoning"));
  EXPECT_THAT(Complaint<A>(SomeStart(),
                           [](A& a) {
                             a.request.format.reasoning = {{"", std::string(65, 'x')}};
                           }),
              HasSubstr("the end of reasoning has 65 bytes"));
  EXPECT_THAT(Complaint<A>(SomeStart(),
                           [](A& a) {
                             a.request.format.reasoning = {{"", "x", std::string(65, 'x')}};
                           }),
              HasSubstr("the beginning of an answer has 65 bytes"));
  EXPECT_THAT(Complaint<A>(SomeStart(), [](A& a) { a.request.format.source.resize(131073); }),
              HasSubstr("the format's source has 131073 bytes"));
  EXPECT_THAT(
      Complaint<A>(SomeStart(),
                   [](A& a) { a.request.sampling.allowed_token_ids.resize((1 << 20) + 1); }),
      HasSubstr("allowed_token_ids has 1048577 entries; 1048576 may be"));
  EXPECT_THAT(Complaint<A>(SomeStart(), [](A& a) { a.request.sampling.bad_words.resize(513); }),
              HasSubstr("bad_words has 513 entries; 512 may be"));
  EXPECT_THAT(Complaint<A>(SomeStart(),
                           [](A& a) { a.request.sampling.bad_words.emplace_back().resize(129); }),
              HasSubstr("a bad word has 129 entries; 128 may be"));
  const auto complaint = [](const wire::ReasoningBudget& budget) {
    return Complaint<A>(SomeStart(), [&](A& a) { a.request.reasoning_budget = budget; });
  };
  EXPECT_THAT(complaint({.max_tokens = -1, .closing = {1}}),
              HasSubstr("the budget for reasoning is -1"));
  EXPECT_THAT(complaint({.max_tokens = 1}), HasSubstr("is closed by nothing"));
  EXPECT_THAT(complaint({.max_tokens = 1, .closing = std::vector<int32_t>(257)}),
              HasSubstr("what closes reasoning has 257 entries; 256 may be"));
  EXPECT_THAT(Complaint<A>(SomeStart(), [](A& a) { a.request.prediction.resize(16385); }),
              HasSubstr("prediction has 16385 entries; 16384 may be"));
  using T = TokenEvents;
  EXPECT_THAT(Complaint<T>({{SomeEvent()}}, [](T& t) { t.events[0].token = -1; }),
              HasSubstr("token is -1"));
  EXPECT_THAT(
      Complaint<T>({{SomeEvent()}}, [](T& t) { t.events[0].prediction_use.num_rejected = -1; }),
      HasSubstr("num_rejected_prediction is -1"));
  EXPECT_THAT(Complaint<T>({{SomeEvent()}}, [](T& t) { t.events[0].pooled.resize(131073); }),
              HasSubstr("pooled has 131073 entries; 131072 may be"));
  EXPECT_THAT(Complaint<T>({{{.sequence = SequenceId(1)}}}, [](T&) {}),
              HasSubstr("neither a token nor an end"));
}

TEST(Codec, ABadAttemptHasAnAnswerIfItsIdsAreGood) {
  const Status why = InvalidArgument("bad");
  v1::Frame proto;
  ToProto(SomeStart(), kNow, &proto);
  const auto answer = AnswerToBad(proto, why);
  ASSERT_TRUE(answer.has_value());
  const std::vector<wire::TokenEvent>& events = std::get<TokenEvents>(*answer).events;
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].sequence, SomeStart().request.sequence);
  EXPECT_EQ(events[0].attempt, 4u);
  EXPECT_EQ(events[0].index, 2) << "behind the tokens of earlier attempts";
  EXPECT_EQ(events[0].finish, wire::FinishReason::kError);
  EXPECT_EQ(events[0].error, why);
  proto.mutable_start_attempt()->set_sequence(-1);
  EXPECT_FALSE(AnswerToBad(proto, why).has_value());
  ToProto(SomeSubmission(), kNow, &proto);
  EXPECT_FALSE(AnswerToBad(proto, why).has_value());
}

TEST(Codec, TellsWhatALaterReleaseSaysFromWhatIsWrong) {
  EXPECT_EQ(FromProto(v1::Frame(), kThere).status().code(), StatusCode::kUnimplemented);
  v1::Frame proto;
  proto.mutable_hello()->set_protocol(2);
  proto.mutable_hello()->set_role(static_cast<v1::Role>(99));
  const auto hello = FromProto(proto, kThere);
  ASSERT_TRUE(hello.ok()) << "the message about the protocol says more than one about a field";
  EXPECT_THAT(Message(CheckCompatible(std::get<Hello>(*hello))),
              HasSubstr("speaks protocol 2, and this release 1"));
  proto.mutable_token_events()->add_events()->set_finish(static_cast<v1::TokenEvents::Finish>(9));
  EXPECT_THAT(Message(FromProto(proto, kThere).status()), HasSubstr("finish is 9"));
  ToProto(SomeStart(), kNow, &proto);
  proto.mutable_start_attempt()->mutable_format()->set_kind(static_cast<v1::OutputFormat::Kind>(9));
  EXPECT_THAT(Message(FromProto(proto, kThere).status()),
              HasSubstr("the format's kind is 9, which this release does not know"));
  ToProto(SomeStart(), kNow, &proto);
  proto.mutable_start_attempt()->set_pooling(static_cast<v1::Pooling>(9));
  EXPECT_THAT(Message(FromProto(proto, kThere).status()),
              HasSubstr("pooling is 9, which this release does not know"));
}

TEST(Codec, ErrorCodesAreCanonicalOnes) {
  v1::Frame proto;
  auto& event = *proto.mutable_token_events()->add_events();
  event.set_finish(v1::TokenEvents::ERROR);
  event.set_error_code(17);
  EXPECT_THAT(Message(FromProto(proto, kThere).status()), HasSubstr("error_code is 17"));
}

}  // namespace
}  // namespace aril::cluster
