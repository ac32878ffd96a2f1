// Every frame survives the wire; what is out of range is refused by name.

#include "cluster/codec.h"

#include <cmath>
#include <functional>
#include <limits>

#include "cluster/aril.pb.h"
#include "cluster/field_reader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wire/limits.h"

namespace aril::cluster {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const TimePoint kNow = TimePoint(hours(1000));
// Of a receiver whose clock shows something else.
const TimePoint kThere = TimePoint(hours(5));

template <typename T>
T RoundTrip(const T& body) {
  v1::Frame proto;
  ToProto(body, kNow, &proto);
  v1::Frame received;
  EXPECT_TRUE(received.ParseFromString(proto.SerializeAsString()));
  const auto frame = FromProto(received, kThere);
  EXPECT_TRUE(frame.ok()) << frame.status();
  if (!frame.ok()) return T();
  EXPECT_TRUE(std::holds_alternative<T>(*frame)) << NameOf(*frame);
  return std::get<T>(*frame);
}

// The message about a frame that `change` has made bad.
template <typename T>
std::string Complaint(T body, const std::function<void(T&)>& change) {
  change(body);
  v1::Frame proto;
  ToProto(body, kNow, &proto);
  const auto frame = FromProto(proto, kThere);
  EXPECT_EQ(frame.status().code(), StatusCode::kInvalidArgument);
  return frame.ok() ? "" : Message(frame.status());
}

Hello RunnerHello() {
  Hello hello;
  hello.version = "1.2.3";
  hello.role = Role::kRunner;
  hello.id = 7;
  hello.instance = "abc";
  hello.epoch = Epoch(12);
  hello.address = "10.0.0.1:7500";
  hello.deployment = {"base", {{"french", "d1"}, {"poet", "d2"}}};
  hello.runner = {.numeric_class = "avx2/F32/none",
                  .max_running = 32,
                  .pages_total = 1000,
                  .page_tokens = 16,
                  .page_bytes = 4096,
                  .max_model_len = 2048,
                  .adapter_pages = {3, 4}};
  return hello;
}

wire::Submission SomeSubmission() {
  return {.sequence = SequenceId(int64_t{5} << 32 | 9),
          .gateway = GatewayId(5),
          .tenant = "acme",
          .adapter = AdapterId(1),
          .adapter_pages = 4,
          .num_tokens = 100,
          .num_generated = 60,
          .max_tokens = 200,
          .priority = -3,
          .attempt = 2,
          .arrival = kNow - milliseconds(1500),
          .failed_on = RunnerId(8),
          .is_sibling = true,
          .numeric_class = "x"};
}

delivery::StartAttempt SomeStart() {
  delivery::StartAttempt start;
  start.epoch = Epoch(3);
  start.gateway = GatewayId(5);
  start.adapter_pages = 9;
  start.output = {11, 12};
  wire::SequenceRequest& request = start.request;
  request.sequence = SequenceId(int64_t{5} << 32 | 1);
  request.tenant = "acme";
  request.adapters = {{.id = AdapterId(0), .weight = 0.5f}, {.id = AdapterId(1), .weight = -1}};
  request.prompt = {1, 2, 3};
  request.choice = 2;
  request.max_tokens = 50;
  request.min_tokens = 4;
  request.stop_token_ids = {0, -1};
  request.sampling = {.temperature = 0.7f,
                      .top_k = 5,
                      .top_p = 0.9f,
                      .min_p = 0.05f,
                      .repetition_penalty = 1.2f,
                      .presence_penalty = -1,
                      .frequency_penalty = 0.5f,
                      .logit_bias = {{3, -100.0f}},
                      .seed = ~uint64_t{0},
                      .num_logprobs = 0,
                      .prompt_logprobs = true};
  request.format = {.kind = wire::OutputFormat::Kind::kJsonSchema,
                    .source = R"({"const":"\u20AC"})"};
  request.attempt = 4;
  request.arrival = kNow - milliseconds(10);
  start.shared = {{delivery::kFirstSharedAdapter, "digest", {"hf://owner/name", "folder"}}};
  return start;
}

wire::TokenEvent SomeEvent() {
  wire::TokenEvent event;
  event.sequence = SequenceId(77);
  event.attempt = 3;
  event.index = 5;
  event.token = 0;
  event.logprobs = {.logprob = -0.5f, .rank = 2, .top = {{9, -0.1f}, {0, -0.5f}}};
  event.prompt_logprobs = {{}, {.logprob = -INFINITY, .rank = 100, .top = {}}};
  event.finish = wire::FinishReason::kStop;
  event.stop_token = 0;
  event.num_cached = 16;
  return event;
}

TEST(Codec, KeepsHellos) {
  const Hello sent = RunnerHello();
  const Hello got = RoundTrip(sent);
  EXPECT_EQ(got.protocol, kProtocol);
  EXPECT_EQ(got.version, sent.version);
  EXPECT_EQ(got.role, sent.role);
  EXPECT_EQ(got.id, sent.id);
  EXPECT_EQ(got.instance, sent.instance);
  EXPECT_EQ(got.epoch, sent.epoch);
  EXPECT_EQ(got.address, sent.address);
  EXPECT_EQ(got.deployment, sent.deployment);
  EXPECT_EQ(got.runner.numeric_class, sent.runner.numeric_class);
  EXPECT_EQ(got.runner.max_running, 32);
  EXPECT_EQ(got.runner.pages_total, 1000);
  EXPECT_EQ(got.runner.page_tokens, 16);
  EXPECT_EQ(got.runner.page_bytes, 4096);
  EXPECT_EQ(got.runner.max_model_len, 2048);
  EXPECT_THAT(got.runner.adapter_pages, ElementsAre(3, 4));
  Hello scheduler;
  scheduler.role = Role::kScheduler;
  scheduler.features = {"later"};
  EXPECT_THAT(RoundTrip(scheduler).features, ElementsAre("later"));
  for (const auto flag : {&Hello::takes_hints, &Hello::keeps_formats, &Hello::keeps_tool_calls,
                          &Hello::keeps_reasoning}) {
    Hello old;
    old.role = Role::kScheduler;
    EXPECT_TRUE(RoundTrip(old).*flag);
    old.*flag = false;
    EXPECT_FALSE(RoundTrip(old).*flag) << "as of a release that says nothing of it";
  }
}

TEST(Codec, KeepsWhatGoesToAndFromASchedulerWithTimesAsAges) {
  const wire::Submission submission = RoundTrip(SomeSubmission());
  const wire::Submission sent = SomeSubmission();
  EXPECT_EQ(submission.sequence, sent.sequence);
  EXPECT_EQ(submission.gateway, sent.gateway);
  EXPECT_EQ(submission.tenant, sent.tenant);
  EXPECT_EQ(submission.adapter, sent.adapter);
  EXPECT_EQ(submission.adapter_pages, sent.adapter_pages);
  EXPECT_EQ(submission.num_tokens, sent.num_tokens);
  EXPECT_EQ(submission.num_generated, sent.num_generated);
  EXPECT_EQ(submission.max_tokens, sent.max_tokens);
  EXPECT_EQ(submission.priority, sent.priority);
  EXPECT_EQ(submission.attempt, sent.attempt);
  EXPECT_EQ(submission.arrival, kThere - milliseconds(1500));
  EXPECT_EQ(submission.failed_on, sent.failed_on);
  EXPECT_EQ(submission.is_sibling, sent.is_sibling);
  EXPECT_EQ(submission.numeric_class, sent.numeric_class);
  EXPECT_EQ(RoundTrip(wire::Submission{.sequence = SequenceId(1), .gateway = GatewayId(0)}).adapter,
            kBaseModel);

  const auto placement =
      RoundTrip(wire::Placement{Epoch(9), SequenceId(8), GatewayId(7), 6, RunnerId(5)});
  EXPECT_EQ(placement.epoch, Epoch(9));
  EXPECT_EQ(placement.sequence, SequenceId(8));
  EXPECT_EQ(placement.gateway, GatewayId(7));
  EXPECT_EQ(placement.attempt, 6u);
  EXPECT_EQ(placement.runner, RunnerId(5));

  const auto refusal = RoundTrip(Refusal{SequenceId(1), milliseconds(1500), "full"});
  EXPECT_EQ(refusal.retry_after, milliseconds(1500));
  EXPECT_EQ(refusal.reason, "full");
  EXPECT_EQ(RoundTrip(delivery::CloseSequence{SequenceId(4)}).sequence, SequenceId(4));
  EXPECT_EQ(RoundTrip(Welcome{Epoch(2)}).epoch, Epoch(2));
  EXPECT_THAT(
      RoundTrip(RunnerList{{{RunnerId(1), "a:1"}, {RunnerId(2), "b:2"}}}).runners,
      ElementsAre(RunnerList::Runner{RunnerId(1), "a:1"}, RunnerList::Runner{RunnerId(2), "b:2"}));
  RoundTrip(RunnerLeaving());
  const auto prefetch = RoundTrip(Prefetch{SequenceId(3), RunnerId(4)});
  EXPECT_EQ(prefetch.sequence, SequenceId(3));
  EXPECT_EQ(prefetch.runner, RunnerId(4));
  const std::vector<delivery::SharedAdapter> shared = {
      {delivery::kFirstSharedAdapter, "digest", {"hf://owner/name", "", "folder"}}};
  const auto load = RoundTrip(LoadAdapters{.tenant = "acme", .shared = shared});
  EXPECT_EQ(load.tenant, "acme");
  EXPECT_EQ(load.shared, shared);
}

TEST(Codec, KeepsReports) {
  wire::RunnerReport report{.runner = RunnerId(3), .number = 9, .available_pages = 100};
  using State = wire::RunnerSequenceState;
  for (const State state : {State::kPending, State::kRunning, State::kEvicted}) {
    report.sequences.push_back({.sequence = SequenceId(5),
                                .gateway = GatewayId(2),
                                .attempt = 1,
                                .state = state,
                                .adapter = AdapterId(0),
                                .adapter_pages = 4,
                                .num_tokens = 30,
                                .num_generated = 10,
                                .priority = 1,
                                .arrival = kNow - milliseconds(250)});
  }
  const auto got = RoundTrip(report);
  EXPECT_EQ(got.runner, report.runner);
  EXPECT_EQ(got.number, 9);
  EXPECT_EQ(got.available_pages, 100);
  ASSERT_EQ(got.sequences.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(got.sequences[i].state, report.sequences[i].state);
    EXPECT_EQ(got.sequences[i].sequence, SequenceId(5));
    EXPECT_EQ(got.sequences[i].gateway, GatewayId(2));
    EXPECT_EQ(got.sequences[i].attempt, 1u);
    EXPECT_EQ(got.sequences[i].adapter, AdapterId(0));
    EXPECT_EQ(got.sequences[i].adapter_pages, 4);
    EXPECT_EQ(got.sequences[i].num_tokens, 30);
    EXPECT_EQ(got.sequences[i].num_generated, 10);
    EXPECT_EQ(got.sequences[i].priority, 1);
    EXPECT_EQ(got.sequences[i].arrival, kThere - milliseconds(250));
  }
}

TEST(Codec, KeepsAttempts) {
  const delivery::StartAttempt sent = SomeStart();
  const delivery::StartAttempt got = RoundTrip(sent);
  EXPECT_EQ(got.epoch, sent.epoch);
  EXPECT_EQ(got.gateway, sent.gateway);
  EXPECT_EQ(got.adapter_pages, sent.adapter_pages);
  EXPECT_EQ(got.output, sent.output);
  EXPECT_EQ(got.request.sequence, sent.request.sequence);
  EXPECT_EQ(got.request.tenant, sent.request.tenant);
  EXPECT_EQ(got.request.adapters, sent.request.adapters);
  EXPECT_EQ(got.shared, sent.shared);
  EXPECT_EQ(got.request.prompt, sent.request.prompt);
  EXPECT_EQ(got.request.choice, sent.request.choice);
  EXPECT_EQ(got.request.max_tokens, sent.request.max_tokens);
  EXPECT_EQ(got.request.min_tokens, sent.request.min_tokens);
  EXPECT_EQ(got.request.stop_token_ids, sent.request.stop_token_ids);
  EXPECT_EQ(got.request.format, sent.request.format);
  EXPECT_EQ(got.request.attempt, sent.request.attempt);
  EXPECT_EQ(got.request.arrival, kThere - milliseconds(10));
  const wire::SamplingParams& params = got.request.sampling;
  EXPECT_EQ(params.temperature, 0.7f);
  EXPECT_EQ(params.top_k, 5);
  EXPECT_EQ(params.top_p, 0.9f);
  EXPECT_EQ(params.min_p, 0.05f);
  EXPECT_EQ(params.repetition_penalty, 1.2f);
  EXPECT_EQ(params.presence_penalty, -1);
  EXPECT_EQ(params.frequency_penalty, 0.5f);
  EXPECT_EQ(params.logit_bias, sent.request.sampling.logit_bias);
  EXPECT_EQ(params.seed, ~uint64_t{0});
  EXPECT_EQ(params.num_logprobs, 0);
  EXPECT_TRUE(params.prompt_logprobs);
  delivery::StartAttempt plain = sent;
  plain.request.sampling = {};
  EXPECT_EQ(RoundTrip(plain).request.sampling.num_logprobs, std::nullopt);

  EXPECT_EQ(RoundTrip(delivery::ReleaseAttempt{SequenceId(1), 2}),
            (delivery::ReleaseAttempt{SequenceId(1), 2}));
  const auto refused = RoundTrip(delivery::AttemptRefused{SequenceId(1), 2, "full"});
  EXPECT_EQ(refused.attempt, 2u);
  EXPECT_EQ(refused.reason, "full");
}

TEST(Codec, KeepsWhatTheOutputMustBe) {
  delivery::StartAttempt start = SomeStart();
  for (const size_t size : {size_t{0}, wire::kMaxOutputFormatBytes}) {
    for (const auto kind :
         {wire::OutputFormat::Kind::kRegex, wire::OutputFormat::Kind::kToolCalls}) {
      start.request.format = {kind, std::string(size, 'x')};
      EXPECT_EQ(RoundTrip(start).request.format, start.request.format);
    }
  }
  start.request.format.reasoning = {.begin = "",
                                    .end = std::string(wire::kMaxReasoningMarkerBytes, 'x')};
  EXPECT_EQ(RoundTrip(start).request.format, start.request.format);
  start.request.format = {};
  EXPECT_TRUE(RoundTrip(start).request.format.is_text());
}

TEST(Codec, KeepsTokens) {
  wire::TokenEvent failed;
  failed.sequence = SequenceId(78);
  failed.finish = wire::FinishReason::kError;
  failed.error = InvalidArgument("too long");
  wire::TokenEvent plain;
  plain.sequence = SequenceId(79);
  plain.token = 5;
  const std::vector<wire::TokenEvent> got =
      RoundTrip(TokenEvents{{SomeEvent(), failed, plain}}).events;
  ASSERT_EQ(got.size(), 3u);
  const wire::TokenEvent sent = SomeEvent();
  EXPECT_EQ(got[0].sequence, sent.sequence);
  EXPECT_EQ(got[0].attempt, sent.attempt);
  EXPECT_EQ(got[0].index, sent.index);
  EXPECT_EQ(got[0].token, 0);
  EXPECT_EQ(got[0].logprobs->logprob, -0.5f);
  EXPECT_EQ(got[0].logprobs->rank, 2);
  EXPECT_EQ(got[0].logprobs->top[1].token, 0);
  EXPECT_EQ(got[0].logprobs->top[1].logprob, -0.5f);
  ASSERT_EQ(got[0].prompt_logprobs.size(), 2u);
  EXPECT_EQ(got[0].prompt_logprobs[1].logprob, -INFINITY);
  EXPECT_EQ(got[0].finish, wire::FinishReason::kStop);
  EXPECT_EQ(got[0].stop_token, 0);
  EXPECT_EQ(got[0].num_cached, 16);
  EXPECT_TRUE(got[0].error.ok());
  EXPECT_EQ(got[1].token, std::nullopt);
  EXPECT_EQ(got[1].error, failed.error);
  EXPECT_EQ(got[2].finish, std::nullopt);
  EXPECT_EQ(got[2].stop_token, std::nullopt);
  EXPECT_EQ(got[2].logprobs, std::nullopt);
}

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
  EXPECT_THAT(Complaint<H>(RunnerHello(), [](H& h) { h.runner.page_tokens = 0; }),
              HasSubstr("page_tokens is 0"));
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
  EXPECT_THAT(Complaint<A>(SomeStart(), [](A& a) { a.request.format.source.resize(131073); }),
              HasSubstr("the format's source has 131073 bytes"));
  using T = TokenEvents;
  EXPECT_THAT(Complaint<T>({{SomeEvent()}}, [](T& t) { t.events[0].token = -1; }),
              HasSubstr("token is -1"));
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
}

TEST(Codec, ErrorCodesAreCanonicalOnes) {
  v1::Frame proto;
  auto& event = *proto.mutable_token_events()->add_events();
  event.set_finish(v1::TokenEvents::ERROR);
  event.set_error_code(17);
  EXPECT_THAT(Message(FromProto(proto, kThere).status()), HasSubstr("error_code is 17"));
}

TEST(Deployment, SaysWhereTwoDiffer) {
  const Deployment ours = {"base", {{"french", "d1"}, {"poet", "d2"}}};
  EXPECT_THAT(DescribeDifference(ours, ours), IsEmpty());
  Deployment theirs = ours;
  theirs.adapters[1].digest = "d3";
  EXPECT_EQ(DescribeDifference(ours, theirs),
            "adapter 1 is poet (generation d2) here and poet (generation d3) there");
  theirs.adapters.pop_back();
  EXPECT_EQ(DescribeDifference(ours, theirs), "there are 2 adapters here and 1 there");
  theirs.base_digest = "other";
  EXPECT_EQ(DescribeDifference(ours, theirs), "the base model is base here and other there");
}

}  // namespace
}  // namespace aril::cluster
