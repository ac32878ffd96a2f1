#include "gateway/gateway.h"

#include <algorithm>
#include <array>
#include <future>
#include <mutex>

#include "base/strings.h"
#include "gateway/gateway_test_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril::gateway {
namespace {

using ::testing::HasSubstr;

TEST_F(GatewayTest, ListsModels) {
  Start();
  const Json list = Ask("GET", "/v1/models");
  EXPECT_EQ(Text(list, {"data", "0", "id"}), R"("base")");
  EXPECT_EQ(Text(list, {"data", "0", "parent"}), "null");
  EXPECT_EQ(Text(list, {"data", "1", "id"}), R"("org/pirate")");
  EXPECT_EQ(Text(list, {"data", "1", "parent"}), R"("base")");
  EXPECT_EQ(Text(list, {"data", "1", "root"}), R"("/adapters/pirate")");
  EXPECT_EQ(Text(list, {"data", "1", "max_model_len"}), "64");
  for (const char* path : {"/v1/models/org/pirate", "/v1/models/org%2Fpirate"}) {
    EXPECT_EQ(Text(Ask("GET", path), {"id"}), R"("org/pirate")");
  }
  const HttpResponse unknown = Send("GET", "/v1/models/nobody");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_LT(Send("GET", "/v1/models/" + std::string(30'000, 'x')).body.size(), 2'000u);
  EXPECT_THAT(unknown.body, HasSubstr("The model `nobody` does not exist."));
}

TEST_F(GatewayTest, TokenizesAndDetokenizes) {
  Start();
  EXPECT_EQ(Ask("POST", "/tokenize", R"({"prompt":"ab"})").Dump(),
            R"({"count":3,"max_model_len":64,"tokens":[256,97,98]})");
  EXPECT_EQ(Ask("POST", "/tokenize", R"({"prompt":"a","add_special_tokens":false})").Dump(),
            R"({"count":1,"max_model_len":64,"tokens":[97]})");
  EXPECT_EQ(Ask("POST", "/detokenize", R"({"tokens":[256,97]})").Dump(), R"({"prompt":"<s>a"})");
  EXPECT_EQ(Send("POST", "/tokenize", "{}").status, 400);
  const HttpResponse long_text =
      Send("POST", "/tokenize", R"({"prompt":")" + std::string(64 * 128, 'x') + R"("})");
  EXPECT_EQ(long_text.status, 400);
  EXPECT_THAT(long_text.body, HasSubstr("maximum context length is 64 tokens"));
  EXPECT_EQ(Send("POST", "/detokenize", R"({"tokens":[999]})").status, 400);
}

TEST_F(GatewayTest, DescribesItsApi) {
  Start({}, /*with_model=*/false);
  const Json description = Ask("GET", "/openapi.json");
  EXPECT_EQ(Text(description, {"info", "version"}), R"("1.2.3")");
  for (const auto& [path, methods] : *description.Find("paths")->AsObject()) {
    const std::string other = methods.Find("get") != nullptr ? "POST" : "GET";
    const std::string without_name = path.substr(0, path.find('{'));
    EXPECT_EQ(Send(other, without_name, "{}").status, 405) << path;
  }
}

// A tokenizer that does nothing until it is let go.
class SlowTokenizer final : public Tokenizer {
 public:
  SlowTokenizer(std::promise<void>& begun, std::shared_future<void> go)
      : begun_(begun), go_(std::move(go)) {}
  std::vector<int32_t> Encode(std::string_view text, const EncodeOptions& options) const override {
    std::call_once(once_, [this] { begun_.set_value(); });
    go_.wait();
    return bytes_.Encode(text, options);
  }
  std::string TokenBytes(int32_t id, bool is_first, bool skip_special_tokens) const override {
    return bytes_.TokenBytes(id, is_first, skip_special_tokens);
  }
  int64_t vocab_size() const override { return bytes_.vocab_size(); }
  bool IsSpecial(int32_t id) const override { return bytes_.IsSpecial(id); }
  std::optional<int32_t> bos_token_id() const override { return bytes_.bos_token_id(); }
  std::optional<int32_t> eos_token_id() const override { return bytes_.eos_token_id(); }

 private:
  std::promise<void>& begun_;
  mutable std::once_flag once_;
  const std::shared_future<void> go_;
  const ByteTokenizer bytes_;
};

std::shared_ptr<const ServedModel> MakeSlowModel(std::promise<void>& begun,
                                                 std::shared_future<void> go) {
  const auto model = MakeServedModel();
  return std::make_shared<const ServedModel>(ServedModel{
      .spec = model->spec,
      .text = std::make_shared<const ModelText>(ModelText{
          .tokenizer = std::make_shared<SlowTokenizer>(begun, std::move(go)), .vocab_size = 258}),
      .catalog = model->catalog,
      .max_model_len = 64});
}

template <typename T>
bool IsOver(const std::future<T>& answer) {
  return answer.wait_for(std::chrono::milliseconds(1)) == std::future_status::ready;
}

TEST_F(GatewayTest, SaysThatTooManyRequestsWaitToBeParsed) {
  Start({.max_in_flight = 1}, /*with_model=*/false);
  std::promise<void> begun, go;
  const auto slow = MakeSlowModel(begun, go.get_future().share());
  server_->Post([&] { gateway_->Serve(slow, &port_, nullptr, nullptr); });
  // One is being parsed, one waits, and one finds no room.
  std::vector<std::future<HttpResponse>> all;
  const auto tokenize = [&] {
    all.push_back(std::async(std::launch::async,
                             [&] { return Send("POST", "/tokenize", R"({"prompt":"ab"})"); }));
  };
  tokenize();
  begun.get_future().wait();
  tokenize();
  tokenize();
  while (std::ranges::none_of(all, IsOver<HttpResponse>)) continue;
  constexpr const char* kMessage =
      "The server has too much to do: too many requests wait to be parsed.";
  const HttpResponse completion = Send("POST", "/v1/completions", Body(R"("n":1)"));
  EXPECT_EQ(completion.status, 503);
  EXPECT_THAT(completion.body, HasSubstr(kMessage));
  go.set_value();
  int num_refused = 0;
  for (auto& answer : all) {
    const HttpResponse response = answer.get();
    if (response.status == 200) continue;
    ++num_refused;
    EXPECT_EQ(response.status, 503);
    EXPECT_THAT(response.body, HasSubstr(kMessage));
  }
  EXPECT_EQ(num_refused, 1);
}

TEST_F(GatewayTest, OneTenantsRequestsDoNotKeepAnothersFromBeingParsed) {
  Start({.max_in_flight = 8,
         .max_in_flight_of_tenant = 1,
         .api_keys = ApiKeys({{"k1", "much"}, {"k2", "little"}})},
        /*with_model=*/false);
  std::promise<void> begun, go;
  const auto slow = MakeSlowModel(begun, go.get_future().share());
  server_->Post([&] { gateway_->Serve(slow, &port_, nullptr, nullptr); });
  const auto tokenize = [&](const char* key) {
    return std::async(std::launch::async, [this, key] {
      return Send("POST", "/tokenize", R"({"prompt":"ab"})", {{"Authorization", key}}).status;
    });
  };
  auto first = tokenize("Bearer k1");
  begun.get_future().wait();
  // Of two more of that tenant, one waits and the other finds no room.
  std::array<std::future<int>, 2> more = {tokenize("Bearer k1"), tokenize("Bearer k1")};
  while (std::ranges::none_of(more, IsOver<int>)) continue;
  auto another = tokenize("Bearer k2");
  go.set_value();
  EXPECT_EQ(first.get(), 200);
  EXPECT_EQ(more[0].get() + more[1].get(), 200 + 503);
  EXPECT_EQ(another.get(), 200);
}

TEST_F(GatewayTest, CarriesTheTenantOfTheKey) {
  Start({.api_keys = ApiKeys({{"k1", "acme"}, {"k2"}})});
  port_.AnswerWith("x");
  for (const char* key : {"Bearer k1", "Bearer k2"}) {
    EXPECT_EQ(
        Send("POST", "/v1/completions", Body(R"("max_tokens":1)"), {{"Authorization", key}}).status,
        200);
  }
  const auto requests = port_.WaitForRequests(2);
  EXPECT_EQ(requests[0].tenant, "acme");
  EXPECT_EQ(requests[1].tenant, "default");
}

TEST_F(GatewayTest, KnowsItsPathsAndMethods) {
  Start();
  EXPECT_EQ(Send("GET", "/nowhere").status, 404);
  const HttpResponse wrong = Send("GET", "/v1/completions");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(FindHeader(wrong.headers, "Allow"), "POST");
  EXPECT_EQ(Text(Ask("GET", "/version"), {"version"}), R"("1.2.3")");
  EXPECT_EQ(Send("GET", "/health").status, 200);
}

TEST_F(GatewayTest, SaysThatItLoads) {
  Start({}, /*with_model=*/false);
  for (const char* path : {"/health", "/ready", "/v1/models"}) {
    const HttpResponse response = Send("GET", path);
    EXPECT_EQ(response.status, 503);
    EXPECT_THAT(response.body, HasSubstr("still being loaded"));
  }
  EXPECT_EQ(Send("GET", "/version").status, 200);
}

TEST_F(GatewayTest, IsReadyWhenItsRunnersAre) {
  port_.readiness = Unavailable("There is no runner.");
  Start();
  const HttpResponse response = Send("GET", "/ready");
  EXPECT_EQ(response.status, 503);
  EXPECT_THAT(response.body, HasSubstr("There is no runner."));
  EXPECT_EQ(Send("GET", "/health").status, 200) << "the process is well";
}

TEST_F(GatewayTest, ChecksKeys) {
  Start({.api_keys = ApiKeys({{"sesame"}, {"other", "acme"}})});
  EXPECT_EQ(Send("GET", "/v1/models").status, 401);
  EXPECT_EQ(Send("GET", "/v1/models", "", {{"Authorization", "Bearer wrong"}}).status, 401);
  EXPECT_EQ(Send("GET", "/v1/models", "", {{"Authorization", "Bearer other"}}).status, 200);
  EXPECT_EQ(Send("POST", "/v1/completions", "{").status, 401);
  EXPECT_EQ(Send("GET", "/health").status, 200);
}

TEST_F(GatewayTest, ReadsNoBodyFromWhoHasNoKey) {
  Start({.api_keys = ApiKeys({{"sesame"}})});
  const auto first_line = [&](const std::string& method, const std::string& path) {
    RawClient client(server_->port());
    // The body never comes.
    EXPECT_TRUE(client.Send(
        StrCat(method, " ", path, " HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n")));
    return client.ReadUntil("\r\n");
  };
  EXPECT_EQ(first_line("POST", "/v1/completions"), "HTTP/1.1 401 Unauthorized\r\n");
  EXPECT_EQ(first_line("PUT", "/v1/adapters/sql"), "HTTP/1.1 401 Unauthorized\r\n");
  EXPECT_EQ(Send("GET", "/health", "{}").status, 200) << "as some probes do";
  EXPECT_EQ(Send("GET", "/health", std::string(5000, ' ')).status, 413);
  EXPECT_EQ(first_line("POST", "/nowhere"), "HTTP/1.1 404 Not Found\r\n");
  EXPECT_THAT(Send("GET", "/metrics").body,
              HasSubstr(R"(aril_http_responses_total{route="/v1/completions",status="401"} 1)"));
}

TEST_F(GatewayTest, CountsInMetrics) {
  Start();
  port_.AnswerWith("abc");
  Complete(R"("n":2)");
  gateway_->sink().OnStep(
      {.step = 5,
       .num_rows = 4,
       .num_prefill_rows = 3,
       .num_segments = 2,
       .num_adapters = 2,
       .num_generated = 1,
       .num_running = 3,
       .num_waiting = 1,
       .pages_total = 10,
       .pages_kv = 4,
       .pages_adapter = 2,
       .pages_prefix = 3,
       .pages_free = 1,
       .page_tokens = 16,
       .unused_kv_bytes = 7,
       .unused_adapter_bytes = 8,
       .prefix_queries = 100,
       .prefix_hits = 48,
       .num_drafts = 4,
       .num_draft_tokens = 12,
       .num_accepted_tokens = 9,
       .queue_times = {std::chrono::seconds(3)},
       .adapter_load_times = {std::chrono::seconds(2)},
       .adapters = {{kBaseModel, 1, 0}, {AdapterId(0), 1, 0}, {AdapterId(1), 1, 1}}},
      {});
  const std::string text = Send("GET", "/metrics").body;
  for (const char* line :
       {"vllm:num_requests_running 3",
        "vllm:num_requests_waiting 1",
        "vllm:kv_cache_usage_perc 0.5",
        (R"(vllm:lora_requests_info{max_lora="2",running_lora_adapters="poet,org/pirate",)"
         R"(waiting_lora_adapters="org/pirate"} 0)"),
        R"(vllm:cache_config_info{block_size="16",num_gpu_blocks="10"} 1)",
        R"(aril_model_sequences{model="base",state="running"} 1)",
        R"(aril_model_sequences{model="org/pirate",state="waiting"} 1)",
        "vllm:prompt_tokens_total 3",
        "vllm:generation_tokens_total 1",
        R"(aril_pool_pages{use="prefix"} 3)",
        R"(aril_pool_pages{use="free"} 1)",
        R"(aril_pool_unused_bytes{use="kv"} 7)",
        R"(aril_pool_unused_bytes{use="adapter"} 8)",
        "vllm:prefix_cache_queries_total 100",
        "vllm:prefix_cache_hits_total 48",
        "vllm:spec_decode_num_drafts_total 4",
        "vllm:spec_decode_num_draft_tokens_total 12",
        "vllm:spec_decode_num_accepted_tokens_total 9",
        R"(aril_tokens_total{kind="generated",tenant="default"} 6)",
        "aril_step_adapters_sum 2",
        R"(aril_step_adapters_bucket{le="1"} 0)",
        R"(aril_step_adapters_bucket{le="2"} 1)",
        "aril_requests_in_flight 0",
        R"(aril_http_responses_total{route="/v1/completions",status="200"} 1)",
        "aril_time_to_first_token_seconds_count 2",
        "aril_queue_time_seconds_sum 3",
        "aril_adapter_load_seconds_sum 2"}) {
    EXPECT_THAT(text, HasSubstr(std::string(line) + "\n"));
  }
}

}  // namespace
}  // namespace aril::gateway
