// A test fixture: a gateway on a real socket, in front of a runner that says what the test tells it
// to.

#ifndef ARIL_GATEWAY_GATEWAY_TEST_FIXTURE_H_
#define ARIL_GATEWAY_GATEWAY_TEST_FIXTURE_H_

#include <future>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/strings.h"
#include "gateway/gateway.h"
#include "gateway/http_client.h"
#include "gateway/http_server.h"
#include "gateway/sse.h"
#include "gateway/test_support.h"
#include "gtest/gtest.h"

namespace aril::gateway {

class GatewayTest : public ::testing::Test {
 protected:
  void Start(GatewayOptions options = {}, bool with_model = true) {
    http_options_.port = 0;
    auto server = HttpServer::Listen(http_options_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    options.version = "1.2.3";
    options.clock = &clock_;
    options.metrics = &metrics_;
    options.post = [this](std::function<void()> f) { server_->Post(std::move(f)); };
    options.random = [random = std::make_shared<std::mt19937_64>(7)] { return (*random)(); };
    gateway_ = std::make_unique<Gateway>(std::move(options));
    port_.set_sink(&gateway_->sink());
    if (with_model) gateway_->Serve(MakeServedModel({.clock = &clock_}), &port_, loader_, remote_);
    thread_ = std::thread([this] {
      server_->Run(
          [this](HttpRequest request, std::shared_ptr<HttpResponder> responder) {
            gateway_->Handle(std::move(request), std::move(responder));
          },
          [this](const HttpRequest& head) { return gateway_->PlanBody(head); });
    });
  }

  void TearDown() override {
    if (server_ == nullptr) return;
    server_->Stop();
    thread_.join();
    gateway_ = nullptr;
  }

  HttpResponse Send(const std::string& method, const std::string& path,
                    const std::string& body = "", HttpHeaders headers = {}) {
    HttpClient client({.host = "127.0.0.1", .port = server_->port(), .path = ""},
                      std::chrono::seconds(60));
    auto response =
        client.Send({.method = method, .path = path, .headers = std::move(headers), .body = body});
    EXPECT_TRUE(response.ok()) << response.status();
    return response.ok() ? *std::move(response) : HttpResponse{};
  }

  // The JSON of an answer with status 200.
  Json Ask(const std::string& method, const std::string& path, const std::string& body = "") {
    const HttpResponse response = Send(method, path, body);
    EXPECT_EQ(response.status, 200) << response.body;
    auto json = Json::Parse(response.body);
    EXPECT_TRUE(json.ok()) << response.body;
    return json.ok() ? *std::move(json) : Json();
  }

  static std::string Body(const std::string& fields) {
    return R"({"model":"base","prompt":"hi",)" + fields + "}";
  }
  Json Complete(const std::string& fields) { return Ask("POST", "/v1/completions", Body(fields)); }
  std::future<Json> CompleteLater(const std::string& fields) {
    return std::async(std::launch::async, [this, fields] { return Complete(fields); });
  }
  // The data of all events of a stream.
  std::vector<std::string> Stream(const std::string& fields) {
    const HttpResponse response =
        Send("POST", "/v1/completions", Body(R"("stream":true,)" + fields));
    EXPECT_EQ(response.status, 200) << response.body;
    EXPECT_EQ(response.content_type, "text/event-stream");
    SseReader reader;
    reader.Append(response.body);
    std::vector<std::string> events;
    while (auto event = reader.Next()) events.push_back(*event);
    return events;
  }

  // The events of a stream whose data are objects that have the events' types.
  static std::vector<Json> TypedEvents(const HttpResponse& response) {
    EXPECT_EQ(response.status, 200) << response.body;
    EXPECT_EQ(response.content_type, "text/event-stream");
    SseReader reader;
    reader.Append(response.body);
    std::vector<Json> events;
    while (auto data = reader.Next()) {
      auto event = Json::Parse(*data);
      const Json* type = event.ok() ? event->Find("type") : nullptr;
      EXPECT_TRUE(type != nullptr && type->AsString() != nullptr) << *data;
      if (type == nullptr || type->AsString() == nullptr) break;
      const std::string line = StrCat("event: ", *type->AsString(), "\ndata: ", *data);
      EXPECT_NE(response.body.find(line), std::string::npos) << line;
      events.push_back(*std::move(event));
    }
    return events;
  }
  static std::vector<std::string> Types(const std::vector<Json>& events) {
    std::vector<std::string> types;
    for (const Json& event : events) types.push_back(*event.Find("type")->AsString());
    return types;
  }

  HttpServerOptions http_options_;
  ManualClock clock_;
  Metrics metrics_;
  FakePort port_;
  AdapterLoader* loader_ = nullptr;  // set before Start, and so is the next
  RemoteLoader* remote_ = nullptr;
  std::unique_ptr<HttpServer> server_;
  std::unique_ptr<Gateway> gateway_;
  std::thread thread_;
};

// The same, for an endpoint that answers one question.
class AnswerTest : public GatewayTest {
 protected:
  // `question`: the body of a request, but for its last brace.
  AnswerTest(std::string path, std::string question)
      : path_(std::move(path)), question_(std::move(question)) {}

  // What a request of these further members is answered if the model says this.
  HttpResponse AskModel(const std::string& members, std::string_view says,
                        wire::FinishReason finish = wire::FinishReason::kStop) {
    auto answer = SendLater(members);
    port_.Emit(WaitForRequest(), says, finish);
    return answer.get();
  }
  std::future<HttpResponse> SendLater(const std::string& members) {
    return std::async(std::launch::async, [this, body = question_ + members + "}"] {
      return Send("POST", path_, body);
    });
  }
  SequenceId WaitForRequest() { return port_.WaitForRequests(++num_requests_).back().sequence; }

  static Json Parsed(const HttpResponse& response) {
    EXPECT_EQ(response.status, 200) << response.body;
    return Json::Parse(response.body).value_or(Json());
  }

 private:
  const std::string path_;
  const std::string question_;
  size_t num_requests_ = 0;
};

// The member that a path of keys and indices leads to; null where there is none.
inline const Json& At(const Json& json, std::initializer_list<std::string> path) {
  static const Json kNothing;
  const Json* at = &json;
  for (const std::string& key : path) {
    if (const Json::Array* array = at->AsArray()) {
      const auto index = static_cast<size_t>(std::stoi(key));
      at = index < array->size() ? &(*array)[index] : nullptr;
    } else {
      at = at->Find(key);
    }
    if (at == nullptr) return kNothing;
  }
  return *at;
}

// The same as JSON text.
inline std::string Text(const Json& json, std::initializer_list<std::string> path) {
  return At(json, path).Dump();
}
}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_GATEWAY_TEST_FIXTURE_H_
