#include "apps/bench_load.h"

#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "apps/bench_serve.h"
#include "base/file.h"
#include "base/json.h"
#include "base/strings.h"
#include "base/test_dir.h"
#include "gateway/http_server.h"
#include "gateway/sse.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using gateway::HttpRequest;
using gateway::HttpResponder;
using gateway::HttpServer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Answers like a server that is asked for 2 + 3 tokens, or wrongly, as the model's name says.
class FakeServer {
 public:
  FakeServer() {
    auto server = HttpServer::Listen({.port = 0});
    EXPECT_TRUE(server.ok());
    server_ = *std::move(server);
    thread_ = std::thread([this] {
      server_->Run([this](HttpRequest request, std::shared_ptr<HttpResponder> responder) {
        Handle(request, responder);
      });
    });
  }
  ~FakeServer() {
    server_->Stop();
    thread_.join();
  }
  BenchTarget target() const {
    BenchTarget target;
    target.url = {.host = "127.0.0.1", .port = server_->port(), .path = ""};
    target.api_key = "secret";
    target.timeout = std::chrono::seconds(30);
    return target;
  }
  int num_completions() const { return num_completions_; }
  // Answers only when so many are asked for.
  void HoldUntil(int num_requests) { num_to_hold_ = num_requests; }

 private:
  void Handle(const HttpRequest& request, const std::shared_ptr<HttpResponder>& responder) {
    EXPECT_EQ(gateway::FindHeader(request.headers, "Authorization"), "Bearer secret");
    if (request.path == "/v1/models") {
      return responder->Respond(
          {.headers = {},
           .body =
               R"({"data":[{"id":"good"},{"id":"a","parent":"good"},{"id":"b","parent":"good"}]})"});
    }
    if (request.path == "/lora-adapters") {
      return responder->Respond(
          {.headers = {}, .body = R"([{"id":0,"path":"a.gguf"},{"id":1,"path":"b.gguf"}])"});
    }
    if (request.path != "/v1/completions") {
      return responder->Respond({.status = 404, .headers = {}, .body = ""});
    }
    ++num_completions_;
    const auto body = Json::Parse(request.body);
    ASSERT_TRUE(body.ok());
    EXPECT_EQ(body->Find("prompt")->AsArray()->size(), 2u);
    const std::string model = *body->Find("model")->AsString();
    const int64_t max_tokens = *body->Find("max_tokens")->AsInt();
    held_.push_back([=] { Complete(model, max_tokens, *responder); });
    if (static_cast<int>(held_.size()) < num_to_hold_) return;
    for (const auto& complete : std::exchange(held_, {})) complete();
  }

  static void Complete(const std::string& model, int64_t max_tokens, HttpResponder& responder) {
    if (model == "refused") return responder.Respond({.status = 503, .headers = {}, .body = "no"});
    responder.StartStream({.headers = {}, .body = ""}, "");
    for (int64_t i = 0; i < max_tokens; ++i) {
      responder.Write(gateway::SseEvent(R"({"choices":[{"text":"","token_ids":[1]}]})"));
    }
    responder.Write(gateway::SseEvent(R"({"choices":[{"text":"","finish_reason":"length"}]})"));
    if (model == "broken") responder.Write(gateway::SseEvent(R"({"error":{"message":"oh"}})"));
    const int64_t counted = model == "short" ? max_tokens - 1 : max_tokens;
    responder.Write(gateway::SseEvent(
        StrCat(R"({"choices":[],"usage":{"prompt_tokens":2,"completion_tokens":)", counted, "}}")));
    if (model != "endless") responder.Write(gateway::kSseDone);
    responder.Finish();
  }

  std::unique_ptr<HttpServer> server_;
  std::thread thread_;
  std::atomic<int> num_completions_{0};
  std::atomic<int> num_to_hold_{1};
  std::vector<std::function<void()>> held_;  // on the server's thread
};

// A closed loop of two clients, each request with an adapter of its own.
LoadResult RunClosed(const FakeServer& server, const std::vector<std::string>& adapters) {
  Workload workload = {.requests = {}, .num_clients = 2};
  for (size_t i = 0; i < adapters.size(); ++i) {
    workload.requests.push_back(
        {.adapter = static_cast<int64_t>(i), .prompt_tokens = 2, .output_tokens = 3});
  }
  return RunLoad(server.target(), {.base = "base", .adapters = adapters}, workload,
                 {.request = {.max_token_id = 50, .seed = 1}, .on_done = {}}, RealClock());
}

TEST(BenchLoad, CountsWhatTheStreamsSay) {
  FakeServer server;
  const LoadResult result = RunClosed(server, {"good", "good", "good"});
  ASSERT_EQ(result.requests.size(), 3u);
  for (const RequestRecord& request : result.requests) {
    EXPECT_EQ(request.error, "");
    EXPECT_EQ(request.prompt_tokens, 2);
    EXPECT_EQ(request.output_tokens, 3);
    EXPECT_EQ(request.chunks.size(), 3u) << "a last chunk without tokens is none";
    EXPECT_EQ(request.arrival, request.sent);
    EXPECT_GE(request.latency(), request.first_token());
    EXPECT_LE(request.end, result.wall);
  }
}

TEST(BenchLoad, BelievesNoBadStream) {
  FakeServer server;
  const std::pair<const char*, const char*> kCases[] = {
      {"refused", "status 503: no"},
      {"broken", "the stream reported"},
      {"short", "usage says 2 + 2 tokens, asked for 2 + 3"},
      {"endless", "without [DONE]"}};
  for (const auto& [adapter, error] : kCases) {
    const LoadResult result = RunClosed(server, {adapter, "good"});
    EXPECT_THAT(result.requests[0].error, HasSubstr(error));
    EXPECT_EQ(result.requests[0].was_refused, adapter == std::string("refused"));
    EXPECT_TRUE(result.requests[1].is_good());
  }
}

// All arrive at once and the first answers wait for the last request, so that a loop that waits for
// answers would never end.
TEST(BenchLoad, OpenLoopDoesNotWaitForAnswers) {
  FakeServer server;
  server.HoldUntil(3);
  const Workload workload = {
      .requests = std::vector<WorkloadRequest>(
          3, {.arrival = std::chrono::milliseconds(20), .prompt_tokens = 2, .output_tokens = 3}),
      .num_clients = 0};
  int num_done = 0;
  const LoadResult result =
      RunLoad(server.target(), {.base = "good", .adapters = {}}, workload,
              {.request = {.max_token_id = 50}, .on_done = [&] { ++num_done; }}, RealClock());
  EXPECT_EQ(num_done, 3);
  for (const RequestRecord& request : result.requests) {
    EXPECT_EQ(request.error, "");
    EXPECT_EQ(request.arrival, std::chrono::milliseconds(20));
    EXPECT_GE(request.sent, request.arrival);
  }
}

TEST(BenchLoad, LatenessOfTheClientCountsAsWaiting) {
  FakeServer server;
  const Workload workload = {
      .requests = std::vector<WorkloadRequest>(4, {.prompt_tokens = 2, .output_tokens = 3}),
      .num_clients = 0};
  const LoadResult result =
      RunLoad(server.target(), {.base = "good", .adapters = {}}, workload,
              {.request = {.max_token_id = 50}, .max_in_flight = 1, .on_done = {}}, RealClock());
  for (size_t i = 1; i < 4; ++i) {
    EXPECT_GE(result.requests[i].sent, result.requests[i - 1].end);
    EXPECT_EQ(result.requests[i].arrival, Duration(0));
    EXPECT_GT(result.requests[i].first_token(), result.requests[i].sent);
  }
}

BenchServeOptions OptionsFor(const FakeServer& server) {
  BenchServeOptions options;
  options.target = server.target();
  options.popularities = {{.kind = PopularityKind::kBase}, {.kind = PopularityKind::kDistinct}};
  options.workload.arrivals.concurrency = 2;
  options.workload.num_requests = 4;
  options.workload.lengths = {.prompt = {2, 2}, .output = {3, 3}};
  return options;
}

TEST(BenchServe, NeedsProofOfWhatSharedTheSteps) {
  FakeServer server;
  BenchServeOptions options = OptionsFor(server);
  EXPECT_THAT(Message(BenchServe(options, RealClock())),
              HasSubstr("no steps in aril_step_adapters"));
  // Two runs of four requests, and warming up one and two models.
  EXPECT_EQ(server.num_completions(), 4 + 4 + 1 + 2);
  options.allow_unchecked = true;
  EXPECT_TRUE(BenchServe(options, RealClock()).ok());
  options.workload.arrivals.concurrency = 3;
  EXPECT_THAT(Message(BenchServe(options, RealClock())), HasSubstr("needs 3 adapters"));
}

TEST(BenchServe, SweepsAndWritesFiles) {
  FakeServer server;
  BenchServeOptions options = OptionsFor(server);
  options.allow_unchecked = true;
  options.cold = true;
  options.sweep = {.parameter = "concurrency", .values = {1, 2}};
  const TestDir dir;
  options.json_path = dir / "result.json";
  options.svg_path = dir / "result.svg";
  ASSERT_TRUE(BenchServe(options, RealClock()).ok());
  EXPECT_EQ(server.num_completions(), 2 * 2 * 4);
  const auto json = Json::Parse(*ReadFile(options.json_path, 1 << 20));
  ASSERT_TRUE(json.ok());
  const Json::Array& results = *json->Find("results")->AsArray();
  ASSERT_EQ(results.size(), 4u);
  EXPECT_EQ(*results[3].Find("popularity")->AsString(), "distinct");
  EXPECT_EQ(*results[3].Find("workload")->Find("arrivals")->AsString(), "closed:2");
  EXPECT_EQ(*results[3].Find("median")->Find("requests")->AsInt(), 4);
  EXPECT_THAT(*ReadFile(options.svg_path, 1 << 20), HasSubstr("concurrency=2, distinct"));
}

TEST(BenchTarget, AsksLlamaServerByLoraId) {
  const BenchModels models = {.base = "m", .adapters = {"0", "7"}};
  const RequestOptions options = {.max_token_id = 99, .seed = 3};
  const auto lora_of = [&](int64_t adapter) {
    const auto body = Json::Parse(
        RequestBody(AdapterField::kLora, models,
                    {.adapter = adapter, .prompt_tokens = 5, .output_tokens = 6}, 1, options));
    EXPECT_TRUE(body.ok());
    EXPECT_EQ(*body->Find("model")->AsString(), "m");
    EXPECT_EQ(body->Find("prompt")->AsArray()->size(), 5u);
    return body->Find("lora")->Dump();
  };
  EXPECT_EQ(lora_of(1), R"([{"id":7,"scale":1.0}])");
  EXPECT_EQ(lora_of(-1), R"([{"id":0,"scale":0.0}])");
}

TEST(BenchTarget, PromptsOfALoadBeginAlikeAndThenDiffer) {
  const auto prompt = [](size_t request_idx, uint64_t seed) {
    const auto body = Json::Parse(
        RequestBody(AdapterField::kModel, {.base = "m", .adapters = {}}, {.prompt_tokens = 20},
                    request_idx, {.max_token_id = 999'999, .seed = seed, .prefix_tokens = 8}));
    EXPECT_TRUE(body.ok());
    std::vector<std::string> ids;
    for (const Json& id : *body->Find("prompt")->AsArray()) ids.push_back(id.Dump());
    return ids;
  };
  const auto common = [](const std::vector<std::string>& a, const std::vector<std::string>& b) {
    return std::mismatch(a.begin(), a.end(), b.begin()).first - a.begin();
  };
  EXPECT_EQ(common(prompt(0, 1), prompt(1, 1)), 8);
  EXPECT_EQ(common(prompt(0, 1), prompt(0, 1)), 20);
  EXPECT_EQ(common(prompt(0, 1), prompt(0, 2)), 0);
}

TEST(BenchTarget, ListsLlamaServersLoras) {
  FakeServer server;
  BenchTarget target = server.target();
  target.field = AdapterField::kLora;
  const auto models = ListModels(target, "");
  ASSERT_TRUE(models.ok()) << Message(models.status());
  EXPECT_EQ(models->base, "good");
  EXPECT_THAT(models->adapters, ElementsAre("0", "1"));
}

}  // namespace
}  // namespace aril
