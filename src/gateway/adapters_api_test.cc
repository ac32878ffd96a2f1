// Adapters that come and go while the server runs.

#include "gateway/adapters_api.h"

#include <future>
#include <string>
#include <thread>
#include <vector>

#include "base/strings.h"
#include "gateway/adapters_api_test_fixture.h"

namespace aril::gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(AdaptersApiTest, AnAdapterIsLoadedUsedAndUnloaded) {
  Start();
  const HttpResponse loaded = Load(R"("lora_name":"sql","lora_path":"/lora/sql")");
  EXPECT_EQ(loaded.status, 200) << loaded.body;
  EXPECT_EQ(loaded.body, "Success: LoRA adapter 'sql' added successfully.");
  EXPECT_THAT(Names(), ElementsAre("org/pirate", "poet", "sql"));

  const Json adapter = Ask("GET", "/v1/adapters/sql");
  EXPECT_EQ(At(adapter, {"generation"}).Dump(), R"("digest of /lora/sql")");
  EXPECT_EQ(At(adapter, {"source"}).Dump(), R"("/lora/sql")");
  EXPECT_EQ(At(adapter, {"parent"}).Dump(), R"("base")");
  EXPECT_EQ(At(adapter, {"rank"}).Dump(), "8");
  EXPECT_EQ(At(adapter, {"bytes"}).Dump(), "4096");
  EXPECT_EQ(At(Ask("GET", "/v1/models/sql"), {"root"}).Dump(), R"("/lora/sql")");
  EXPECT_THAT(Send("GET", "/metrics").body, Not(HasSubstr("sql")));

  port_.AnswerWith("ok");
  Ask("POST", "/v1/completions", R"({"model":"sql","prompt":"hi"})");
  EXPECT_EQ(port_.WaitForRequests(1)[0].adapters, MixOf(AdapterId(10)));

  const HttpResponse unloaded = Unload("sql");
  EXPECT_EQ(unloaded.status, 200);
  EXPECT_EQ(unloaded.body, "Success: LoRA adapter 'sql' removed successfully.");
  EXPECT_THAT(Names(), ElementsAre("org/pirate", "poet"));
  EXPECT_EQ(Send("POST", "/v1/completions", R"({"model":"sql","prompt":"hi"})").status, 404);
  EXPECT_EQ(Send("GET", "/v1/adapters/sql").status, 404);
  EXPECT_EQ(fake_.num_released(), 1);
}

TEST_F(AdaptersApiTest, ATakenNameMovesOnlyInPlace) {
  Start();
  ASSERT_EQ(Load(R"("lora_name":"sql","lora_path":"/v1")").status, 200);
  const HttpResponse taken = Load(R"("lora_name":"sql","lora_path":"/v2")");
  EXPECT_EQ(taken.status, 409);
  EXPECT_THAT(ErrorOf(taken).first, HasSubstr("set `load_inplace` to true"));
  EXPECT_EQ(fake_.num_loads(), 1) << "nothing is read for a name that cannot be given";
  EXPECT_EQ(Load(R"("lora_name":"sql","lora_path":"/v2","load_inplace":true)").status, 200);
  EXPECT_EQ(At(Ask("GET", "/v1/adapters/sql"), {"generation"}).Dump(), R"("digest of /v2")");
  EXPECT_EQ(fake_.num_released(), 1);
  const HttpResponse base = Load(R"("lora_name":"base","lora_path":"/v2","load_inplace":true)");
  EXPECT_EQ(base.status, 409);
  EXPECT_THAT(ErrorOf(base).first, HasSubstr("is a name of the base model"));
}

TEST_F(AdaptersApiTest, ARequestInWorkKeepsItsGeneration) {
  Start();
  ASSERT_EQ(Load(R"("lora_name":"sql","lora_path":"/v1")").status, 200);
  auto answer = std::async(std::launch::async, [this] {
    return Ask("POST", "/v1/completions", R"({"model":"sql","prompt":"hi","max_tokens":2})");
  });
  const SequenceId sequence = port_.WaitForRequests(1)[0].sequence;
  port_.Emit(sequence, "a");
  ASSERT_EQ(Load(R"("lora_name":"sql","lora_path":"/v2","load_inplace":true)").status, 200);
  ASSERT_EQ(Unload("sql").status, 200);
  EXPECT_EQ(fake_.num_released(), 1) << "the second one only";
  port_.Emit(sequence, "b", wire::FinishReason::kLength);
  EXPECT_EQ(At(answer.get(), {"choices", "0", "text"}).Dump(), R"("ab")");
}

TEST_F(AdaptersApiTest, SaysWhatIsWrong) {
  Start();
  const auto expect = [&](const HttpResponse& response, int status, const std::string& param,
                          const std::string& message) {
    EXPECT_EQ(response.status, status) << response.body;
    EXPECT_EQ(ErrorOf(response).second, param);
    EXPECT_THAT(ErrorOf(response).first, HasSubstr(message));
  };
  expect(Load(R"("lora_path":"/x")"), 400, "lora_name", "required");
  expect(Load(R"("lora_name":"x")"), 400, "lora_path", "required");
  expect(Load(R"("lora_name":7,"lora_path":"/x")"), 400, "lora_name", "string");
  expect(Load(R"("lora_name":"x","lora_path":"/x","load_inplace":1)"), 400, "load_inplace",
         "boolean");
  expect(Load(R"("lora_name":"../x","lora_path":"/x")"), 400, "lora_name", "must be 1 to 128");
  expect(Load(R"("lora_name":"a,b","lora_path":"/x")"), 400, "lora_name", "must be 1 to 128");
  expect(Load(R"("lora_name":"x","lora_path":"/bad")"), 400, "lora_path", "tensor x is missing");
  expect(Load(R"("lora_name":"x","lora_path":"/none")"), 404, "lora_path", "there is no folder");
  expect(Unload("nobody"), 404, "lora_name", "does not exist");
  expect(Unload("base"), 409, "lora_name", "base model");
  expect(Send("POST", "/v1/unload_lora_adapter", "{}"), 400, "lora_name", "required");
  expect(Send("POST", "/v1/load_lora_adapter", "["), 400, "", "");
  EXPECT_EQ(Send("GET", "/v1/load_lora_adapter").status, 405);
  EXPECT_EQ(Send("GET", "/v1/adapters/base").status, 404);
  EXPECT_THAT(Names(), ElementsAre("org/pirate", "poet"));
}

TEST_F(AdaptersApiTest, WithoutALoaderNothingChanges) {
  loader_ = nullptr;
  Start();
  for (const HttpResponse& response :
       {Load(R"("lora_name":"x","lora_path":"/x")"), Unload("poet"), Put("x", R"("source":"/x")"),
        Send("DELETE", "/v1/adapters/poet")}) {
    EXPECT_EQ(response.status, 403);
    EXPECT_THAT(ErrorOf(response).first, HasSubstr("--adapter-root"));
  }
  EXPECT_THAT(Names(), ElementsAre("org/pirate", "poet"));
}

TEST_F(AdaptersApiTest, ANameThatMovesWhileItIsUsedIsOneSeries) {
  Start();
  ASSERT_EQ(Load(R"("lora_name":"sql","lora_path":"/v1")").status, 200);
  auto answer = std::async(std::launch::async, [this] {
    return Ask("POST", "/v1/completions", R"({"model":"sql","prompt":"hi","max_tokens":1})");
  });
  const SequenceId sequence = port_.WaitForRequests(1)[0].sequence;
  ASSERT_EQ(Load(R"("lora_name":"sql","lora_path":"/v2","load_inplace":true)").status, 200);
  gateway_->sink().OnStep({.adapters = {{AdapterId(10), 1, 0}, {AdapterId(11), 2, 3}}}, {});
  const std::string metrics = Send("GET", "/metrics").body;
  EXPECT_THAT(metrics, HasSubstr(R"(aril_model_sequences{model="sql",state="running"} 3)"));
  EXPECT_THAT(metrics, HasSubstr(R"(running_lora_adapters="sql",waiting_lora_adapters="sql")"));
  EXPECT_THAT(metrics, HasSubstr(R"(max_lora="3")"));
  port_.Emit(sequence, "a", wire::FinishReason::kLength);
  answer.get();
}

TEST_F(AdaptersApiTest, AnAdapterIsPutMovedBackAndDeleted) {
  Start();
  clock_.Advance(std::chrono::seconds(100));
  const HttpResponse created = Put("org/sql", R"("source":"/v1")");
  EXPECT_EQ(created.status, 201) << created.body;
  const Json adapter = *Json::Parse(created.body);
  EXPECT_EQ(Text(adapter, {"id"}), R"("org/sql")");
  EXPECT_EQ(Text(adapter, {"source"}), R"("/v1")");
  EXPECT_EQ(Text(adapter, {"durable"}), "false");
  EXPECT_EQ(Text(adapter, {"expires_at"}), "null");
  EXPECT_EQ(Text(adapter, {"requests"}), "0");
  EXPECT_EQ(Text(adapter, {"residence"}), R"("host")");

  const HttpResponse moved = Put("org%2Fsql", R"("source":"/v2")");
  EXPECT_EQ(moved.status, 200) << moved.body;
  const HttpResponse back =
      Put("org/sql", R"("generation":"digest of /v1","expected_generation":"digest of /v2")");
  EXPECT_EQ(back.status, 200) << back.body;
  const Json now = Ask("GET", "/v1/adapters/org/sql");
  EXPECT_EQ(Text(now, {"generation"}), R"("digest of /v1")");
  EXPECT_EQ(Text(now, {"source"}), R"("/v1")");
  EXPECT_EQ(Text(now, {"history"}),
            R"([{"generation":"digest of /v1","since":100,"source":"/v1"},)"
            R"({"generation":"digest of /v2","since":100,"source":"/v2"},)"
            R"({"generation":"digest of /v1","since":100,"source":"/v1"}])");

  EXPECT_EQ(Send("DELETE", "/v1/adapters/org/sql?expected_generation=digest%20of%20/v2").status,
            409);
  EXPECT_EQ(Send("DELETE", "/v1/adapters/org/sql?expected_generation=%zz").status, 409)
      << "what cannot be read is not left out";
  const Json deleted = Ask("DELETE", "/v1/adapters/org/sql");
  EXPECT_EQ(deleted.Dump(), R"({"id":"org/sql","object":"adapter","deleted":true})");
  EXPECT_EQ(Send("DELETE", "/v1/adapters/org/sql").status, 404);
  EXPECT_EQ(fake_.num_released(), fake_.num_loads());
}

TEST_F(AdaptersApiTest, TheSameGenerationAgainKeepsItsSource) {
  Start();
  ASSERT_EQ(Put("sql", R"("source":"/v1")").status, 201);
  EXPECT_EQ(Put("sql", R"("generation":"digest of /v1","ttl_seconds":60)").status, 200);
  EXPECT_EQ(Text(Ask("GET", "/v1/adapters/sql"), {"source"}), R"("/v1")");
}

TEST_F(AdaptersApiTest, ANameHasAnEnd) {
  Start();
  clock_.Advance(std::chrono::seconds(100));
  ASSERT_EQ(Put("sql", R"("source":"/v1","ttl_seconds":60)").status, 201);
  EXPECT_EQ(Text(Ask("GET", "/v1/adapters/sql"), {"expires_at"}), "160");
  clock_.Advance(std::chrono::seconds(60));
  EXPECT_EQ(Send("GET", "/v1/adapters/sql").status, 404);
  EXPECT_EQ(Send("POST", "/v1/completions", R"({"model":"sql","prompt":"hi"})").status, 404);
  EXPECT_EQ(Put("sql", R"("source":"/v1","expected_generation":"")").status, 201);
}

TEST_F(AdaptersApiTest, ADryRunVerifiesAndChangesNothing) {
  Start();
  const HttpResponse dry = Put("sql", R"("source":"/v1")", "?dry_run=true");
  EXPECT_EQ(dry.status, 200) << dry.body;
  EXPECT_EQ(Text(*Json::Parse(dry.body), {"generation"}), R"("digest of /v1")");
  EXPECT_EQ(Text(*Json::Parse(dry.body), {"dry_run"}), "true");
  EXPECT_EQ(Put("sql", R"("source":"/bad")", "?dry_run=true").status, 400);
  EXPECT_EQ(Put("base", R"("source":"/v1")", "?dry_run=true").status, 409);
  EXPECT_EQ(Put("sql", R"("source":"/v1")", "?dry_run=perhaps").status, 400);
  EXPECT_THAT(Names(), ElementsAre("org/pirate", "poet"));
  EXPECT_EQ(Put("sql", R"("source":"/v1")", "?dry_run=false").status, 201);
}

TEST_F(AdaptersApiTest, SaysWhatIsWrongWithAPut) {
  Start();
  ASSERT_EQ(Put("sql", R"("source":"/v1")").status, 201);
  const auto expect = [&](const HttpResponse& response, int status, const std::string& param,
                          const std::string& message) {
    EXPECT_EQ(response.status, status) << response.body;
    EXPECT_EQ(ErrorOf(response).second, param);
    EXPECT_THAT(ErrorOf(response).first, HasSubstr(message));
  };
  expect(Put("x", ""), 400, "source", "or `generation` or `split` is required");
  expect(Put("x", R"("source":"/v1","generation":"y")"), 400, "source", "exclude");
  expect(Put("x", R"("source":7)"), 400, "source", "string");
  expect(Put("x", R"("source":"/bad")"), 400, "source", "tensor x is missing");
  expect(Put("x", R"("source":"/none")"), 404, "source", "there is no folder");
  expect(Put("x", R"("source":"/v1","ttl_seconds":0)"), 400, "ttl_seconds", "1");
  expect(Put("x", R"("source":"/v1","expected_generation":1)"), 400, "expected_generation",
         "string");
  expect(Put("x", R"("source":"/v1","ttl":"1h")"), 400, "ttl", "the fields are source, generation");
  expect(Put("x", R"("split":[{"adapter":"a","share":1},{"adapter":"b"}])"), 400, "split[0].share",
         "the fields are generation, adapter, weight");
  expect(Send("PUT", "/v1/adapters/x?expected_generation=", R"({"source":"/v1"})"), 400,
         "expected_generation", "it may have dry_run");
  expect(Send("DELETE", "/v1/adapters/sql?dry_run=true"), 400, "dry_run",
         "it may have expected_generation");
  expect(Put("%2e%2e%2fx", R"("source":"/v1")"), 400, "name", "must be 1 to 128");
  expect(Put("a%00b", R"("source":"/v1")"), 400, "name", "must be 1 to 128");
  expect(Put("", R"("source":"/v1")"), 400, "name", "must be 1 to 128");
  expect(Put("base", R"("source":"/v1")"), 409, "name", "is a name of the base model");
  expect(Put("sql", R"("source":"/v1","expected_generation":"")"), 409, "name", "is taken");
  expect(Put("sql", R"("source":"/v1","expected_generation":"z")"), 409, "name",
         "stands for generation digest of /v1, not for the expected z");
  expect(Put("sql", R"("generation":"digest of /v9")"), 404, "generation", "`history`");
  expect(Put("new", R"("generation":"digest of /v1")"), 404, "generation", "`history`");
  EXPECT_EQ(Send("POST", "/v1/adapters/sql", "{}").status, 405);
  EXPECT_EQ(FindHeader(Send("POST", "/v1/adapters/sql", "{}").headers, "Allow"),
            "GET, PUT, DELETE");
  EXPECT_THAT(Names(), ElementsAre("org/pirate", "poet", "sql"));
}

TEST_F(AdaptersApiTest, WhatCannotBeRecalledIsSaid) {
  Start();
  ASSERT_EQ(Put("sql", R"("source":"/forgotten")").status, 201);
  ASSERT_EQ(Put("sql", R"("source":"/v2")").status, 200);
  const HttpResponse response = Put("sql", R"("generation":"digest of /forgotten")");
  EXPECT_EQ(response.status, 404);
  EXPECT_THAT(ErrorOf(response).first, HasSubstr("not kept"));
}

TEST_F(AdaptersApiTest, FilesThatAreGoneHarmTheirOwnRequestsOnly) {
  Start();
  clock_.Advance(std::chrono::seconds(5));
  ASSERT_EQ(Put("sql", R"("source":"/broken")").status, 201);
  for (const char* path : {"/v1/completions", "/tokenize"}) {
    const HttpResponse response = Send("POST", path, R"({"model":"sql","prompt":"hi"})");
    EXPECT_EQ(response.status, 500) << response.body;
    EXPECT_THAT(ErrorOf(response).first,
                HasSubstr("`sql` cannot be served: its files cannot be read"));
    EXPECT_THAT(response.body, Not(HasSubstr("/state/")));
    EXPECT_EQ(ErrorOf(response).second, "model");
  }
  const Json adapter = Ask("GET", "/v1/adapters/sql");
  EXPECT_EQ(Text(adapter, {"error"}), R"("its files cannot be read; the server's log says why")");
  EXPECT_EQ(Text(adapter, {"requests"}), "2");
  EXPECT_EQ(Text(adapter, {"last_used"}), "5");
  EXPECT_EQ(Send("POST", "/tokenize", R"({"model":"poet","prompt":"hi"})").status, 200);
}

TEST_F(AdaptersApiTest, NobodyElseWaitsForFilesThatAreOpened) {
  Start();
  port_.AnswerWith("ok");
  ASSERT_EQ(Put("slow", R"("source":"/slow")").status, 201);
  std::promise<void> open;
  fake_.OpenSlowlyUntil([future = open.get_future().share()] { future.wait(); });
  const auto ask = [this](const std::string& path, const std::string& model) {
    return Send("POST", path, R"({"prompt":"hi","tokens":[1],"model":")" + model + R"("})");
  };
  std::vector<std::future<HttpResponse>> slow;
  for (const char* path : {"/v1/completions", "/tokenize", "/detokenize"}) {
    slow.push_back(std::async(std::launch::async, ask, path, "slow"));
  }
  for (const char* path : {"/v1/completions", "/tokenize", "/detokenize"}) {
    EXPECT_EQ(ask(path, "poet").status, 200) << path;
    EXPECT_EQ(ask(path, "base").status, 200) << path;
  }
  open.set_value();
  for (auto& answer : slow) {
    const HttpResponse response = answer.get();
    EXPECT_EQ(response.status, 200) << response.body;
  }
  EXPECT_EQ(Text(Ask("GET", "/v1/adapters/slow"), {"requests"}), "3") << "each counts once";
}

TEST_F(AdaptersApiTest, ARequestKeepsItsAdaptersFilesOpen) {
  Start();
  ASSERT_EQ(Put("sql", R"("source":"/v1")").status, 201);
  auto answer = std::async(std::launch::async, [this] {
    return Send("POST", "/v1/completions", R"({"prompt":"hi","model":"sql"})");
  });
  const auto requests = port_.WaitForRequests(1);
  EXPECT_EQ(fake_.num_held(), 1);
  port_.Emit(requests[0].sequence, "ok", wire::FinishReason::kLength);
  EXPECT_EQ(answer.get().status, 200);
  EXPECT_EQ(Send("GET", "/health").status, 200) << "by the thread that lets go of the other";
  EXPECT_EQ(fake_.num_held(), 0);
}

TEST_F(AdaptersApiTest, WhoLeavesWhileFilesAreOpenedIsForgotten) {
  Start();
  port_.AnswerWith("ok");
  ASSERT_EQ(Put("slow", R"("source":"/slow")").status, 201);
  std::promise<void> begun;
  std::promise<void> open;
  fake_.OpenSlowlyUntil([&begun, future = open.get_future().share()] {
    begun.set_value();
    future.wait();
  });
  {
    RawClient client(server_->port());
    const std::string body = R"({"prompt":"hi","model":"slow"})";
    client.Send(StrCat("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: ", body.size(),
                       "\r\n\r\n", body));
    begun.get_future().wait();
  }
  open.set_value();
  while (Send("GET", "/metrics").body.find("aril_requests_in_flight 0") == std::string::npos) {
    std::this_thread::yield();
  }
  EXPECT_THAT(Send("GET", "/metrics").body,
              HasSubstr(R"(aril_requests_total{outcome="cancelled"} 1)"));
}

TEST_F(AdaptersApiTest, WhatIsBeingParsedWhenAllIsEndedIsEnded) {
  Start();
  port_.AnswerWith("ok");
  ASSERT_EQ(Put("slow", R"("source":"/slow")").status, 201);
  std::promise<void> begun;
  std::promise<void> open;
  fake_.OpenSlowlyUntil([&begun, future = open.get_future().share()] {
    begun.set_value();
    future.wait();
  });
  auto answer = std::async(std::launch::async, [this] {
    return Send("POST", "/v1/completions", R"({"prompt":"hi","model":"slow"})");
  });
  begun.get_future().wait();
  std::promise<void> ended;
  server_->Post([&] {
    gateway_->FailAll("closing");
    ended.set_value();
  });
  ended.get_future().wait();
  open.set_value();
  const HttpResponse response = answer.get();
  EXPECT_EQ(response.status, 503);
  EXPECT_THAT(response.body, HasSubstr(R"("message":"closing")"));
}

TEST_F(AdaptersApiTest, TenantsHaveNamesOfTheirOwn) {
  Start({.api_keys = ApiKeys({{.key = "a", .tenant = "acme"}, {.key = "z", .tenant = "zeta"}})});
  const auto as = [&](const std::string& key, const std::string& method, const std::string& path,
                      const std::string& body = "") {
    return Send(method, path, body, {{"Authorization", "Bearer " + key}});
  };
  EXPECT_EQ(as("a", "PUT", "/v1/adapters/sql", R"({"source":"/v1"})").status, 201);
  EXPECT_EQ(as("a", "GET", "/v1/adapters/sql").status, 200);
  for (const char* method : {"GET", "DELETE"}) {
    EXPECT_EQ(as("z", method, "/v1/adapters/sql").status, 404) << method;
  }
  EXPECT_EQ(as("z", "GET", "/v1/models/sql").status, 404);
  EXPECT_THAT(as("z", "GET", "/v1/models").body, Not(HasSubstr("sql")));
  EXPECT_EQ(as("z", "POST", "/v1/completions", R"({"model":"sql","prompt":"hi"})").status, 404);
  EXPECT_EQ(as("z", "POST", "/v1/unload_lora_adapter", R"({"lora_name":"sql"})").status, 404);
  EXPECT_EQ(as("z", "PUT", "/v1/adapters/sql", R"({"source":"/v2"})").status, 201)
      << "existence is not revealed";
  EXPECT_EQ(as("z", "PUT", "/v1/adapters/poet", R"({"source":"/v2"})").status, 409);
  EXPECT_EQ(as("z", "DELETE", "/v1/adapters/poet").status, 409);
  EXPECT_EQ(Text(*Json::Parse(as("a", "GET", "/v1/adapters/sql").body), {"source"}), R"("/v1")");
}

}  // namespace
}  // namespace aril::gateway
