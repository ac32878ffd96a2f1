// What gateways accept, runners take: a request at its limits survives the wire of a cluster.

#include <string>

#include "base/strings.h"
#include "cluster/aril.pb.h"
#include "cluster/codec.h"
#include "gateway/completions.h"
#include "gateway/test_support.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

const TimePoint kNow = TimePoint(std::chrono::hours(1000));
// The longest that there may be.
const std::string kTenant(128, 't');

// Of the first choice of a request that the gateway must accept.
wire::SequenceRequest Accept(const std::string& fields) {
  static const auto* const model =
      new std::shared_ptr<const gateway::ServedModel>(gateway::MakeServedModel());
  static const auto* const limits = new gateway::CompletionLimits;
  const auto parsed =
      gateway::ParseCompletionRequest(StrCat(R"({"model":"base","prompt":"hi",)", fields, "}"),
                                      {.model = **model, .limits = *limits, .tenant = kTenant});
  EXPECT_TRUE(parsed.ok()) << fields << ": " << parsed.error().message;
  if (!parsed.ok()) return {};
  return gateway::MakeSequence(parsed.value(), parsed.value().num_candidates() - 1,
                               SequenceId(INT64_MAX), UINT64_MAX, kNow);
}

cluster::Frame ThroughTheWire(const cluster::Frame& sent, const std::string& what) {
  v1::Frame proto;
  cluster::ToProto(sent, kNow, &proto);
  v1::Frame received;
  EXPECT_TRUE(received.ParseFromString(proto.SerializeAsString())) << what;
  const auto frame = cluster::FromProto(received, kNow);
  EXPECT_TRUE(frame.ok()) << what << ": " << frame.status();
  return frame.ok() ? *frame : sent;
}

std::string Repeat(size_t count, const std::string& item) {
  std::string list = item;
  for (size_t i = 1; i < count; ++i) list += "," + item;
  return list;
}

std::string Biases(const std::string& bias) {
  std::string all;
  for (int token = 0; token < 258; ++token) {
    all += StrCat(token == 0 ? "" : ",", "\"", token, "\":", bias);
  }
  return all;
}

TEST(Requests, AtTheirLimitsSurviveTheWire) {
  const std::string requests[] = {
      R"("temperature":0)",
      R"("temperature":1e-5)",
      R"("temperature":1e-300)",
      R"("temperature":100)",
      R"("top_k":-1)",
      R"("top_k":2147483647)",
      // Smaller than floats are, not normal as one, the smallest that is.
      R"("top_p":5e-324)",
      R"("top_p":1e-40)",
      R"("top_p":1.1754943508222875e-38)",
      R"("top_p":1)",
      R"("min_p":0)",
      R"("min_p":1e-45)",
      R"("min_p":1)",
      R"("repetition_penalty":0.01)",
      R"("repetition_penalty":100)",
      R"("presence_penalty":-2,"frequency_penalty":-2)",
      R"("presence_penalty":2,"frequency_penalty":2)",
      R"("presence_penalty":1e-45,"frequency_penalty":-1e-45)",
      R"("logit_bias":{)" + Biases("-100") + "}",
      R"("logit_bias":{)" + Biases("100") + "}",
      R"("logit_bias":{"0":1e-45,"257":-1e-300})",
      R"("seed":-9223372036854775808)",
      R"("seed":9223372036854775807)",
      R"("n":128)",
      R"("logprobs":20,"echo":true,"max_tokens":0)",
      R"("logprobs":0)",
      R"("n":1,"best_of":128)",
      R"("min_tokens":2147483647)",
      R"("max_tokens":61,"min_tokens":61)",
      R"("stop":[)" + Repeat(64, "\"" + std::string(1024, 's') + "\"") + "]",
      R"("stop_token_ids":[)" + Repeat(1024, "257") + "]",
      R"("adapters":[{"name":"poet","weight":100},{"name":"org/pirate","weight":-100}])",
      R"("adapters":[{"name":"poet","weight":1e-45},{"name":"org/pirate","weight":1e-300}])",
  };
  for (const std::string& fields : requests) {
    const std::string what = fields.substr(0, 100);
    delivery::StartAttempt start;
    start.epoch = Epoch(int64_t{1} << 62);
    start.gateway = GatewayId(INT32_MAX);
    start.request = Accept(fields);
    const wire::SequenceRequest& sent = start.request;
    const cluster::Frame frame = ThroughTheWire(start, what);
    const wire::SequenceRequest& got = std::get<delivery::StartAttempt>(frame).request;
    EXPECT_EQ(got.sampling, sent.sampling) << what;
    EXPECT_EQ(got.tenant, sent.tenant) << what;
    EXPECT_EQ(got.adapters, sent.adapters) << what;
    EXPECT_EQ(got.prompt, sent.prompt) << what;
    EXPECT_EQ(got.choice, sent.choice) << what;
    EXPECT_EQ(got.max_tokens, sent.max_tokens) << what;
    EXPECT_EQ(got.min_tokens, sent.min_tokens) << what;
    EXPECT_EQ(got.stop_token_ids, sent.stop_token_ids) << what;
  }
}

}  // namespace
}  // namespace aril
