#include "cluster/codec_test_support.h"

#include <cmath>

#include "cluster/aril.pb.h"
#include "cluster/codec.h"

namespace aril::cluster {

StatusOr<Frame> OverTheWire(const Frame& frame) {
  v1::Frame sent;
  ToProto(frame, kNow, &sent);
  v1::Frame received;
  if (!received.ParseFromString(sent.SerializeAsString())) return Internal("it cannot be parsed");
  return FromProto(received, kThere);
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
                  .pages = {.page_tokens = 16, .state_pages = 7},
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
          .numeric_class = "x",
          .prefix = {1, 0xFEDCBA9876543210}};
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
                      .allowed_token_ids = {0, 7},
                      .bad_words = {{3, 0}, {4}},
                      .seed = ~uint64_t{0},
                      .num_logprobs = 0,
                      .prompt_logprobs = true};
  request.format = {.kind = wire::OutputFormat::Kind::kJsonSchema,
                    .source = R"({"const":"\u20AC"})"};
  request.reasoning_budget = {.max_tokens = 0, .begin = 0, .closing = {8, 9}};
  request.prediction = {7, 0, 7};
  request.pooling = wire::Pooling::kEmbedding;
  request.priority = -7;
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
  event.prediction_use = {.num_accepted = 3, .num_rejected = 1};
  event.pooled = {0.5f, -0.0f, 1e-30f};
  event.label = "spam, perhaps";
  return event;
}

}  // namespace aril::cluster
