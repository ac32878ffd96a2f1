// Adapters that are fetched while requests wait for them.

#include <future>
#include <string>
#include <thread>

#include "base/adapter_mix.h"
#include "base/strings.h"
#include "gateway/remote_adapters_test_fixture.h"
#include "gmock/gmock.h"

namespace aril::gateway {
namespace {

using ::testing::HasSubstr;

TEST_F(RemoteAdaptersApiTest, AnAdapterIsThereWhenItHasBeenFetched) {
  StartWithTimers();
  const HttpResponse put = Put("sql", R"("source":"https://a/sql")");
  EXPECT_EQ(put.status, 202) << put.body;
  fake_.WaitUntilFetching("https://a/sql");
  const Json loading = Get("sql");
  EXPECT_EQ(Text(loading, {"status"}), R"("loading")");
  EXPECT_EQ(Text(loading, {"generation"}), "null");
  EXPECT_EQ(
      Text(loading, {"load"}),
      R"({"source":"https://a/sql","status":"loading","bytes_done":10,"bytes_total":20,"error":null})");
  EXPECT_EQ(At(Ask("GET", "/v1/adapters"), {"data"}).AsArray()->size(), 3u);
  fake_.Release("https://a/sql");
  const Json ready = WaitUntilOver("sql");
  EXPECT_EQ(Text(ready, {"status"}), R"("ready")");
  EXPECT_EQ(Text(ready, {"source"}), R"("https://a/sql")");
  EXPECT_EQ(Text(ready, {"load"}), "null");
  EXPECT_TRUE(IsDigest(*At(ready, {"generation"}).AsString()));
}

TEST_F(RemoteAdaptersApiTest, RequestsWaitForItsFirstGeneration) {
  StartWithTimers();
  port_.AnswerWith("ok");
  ASSERT_EQ(Put("sql", R"("source":"https://a/sql")").status, 202);
  auto first = AskLater("sql");
  auto second = AskLater("sql");
  WaitForTimers(2);
  EXPECT_EQ(AskModel("poet").status, 200) << "nobody else waits";
  fake_.Release("https://a/sql");
  EXPECT_EQ(first.get().status, 200);
  EXPECT_EQ(second.get().status, 200);
  EXPECT_EQ(port_.WaitForRequests(3)[1].adapters, MixOf(AdapterId(20)));
}

TEST_F(RemoteAdaptersApiTest, RequestsDoNotWaitForever) {
  StartWithTimers();
  ASSERT_EQ(Put("sql", R"("source":"https://a/sql")").status, 202);
  fake_.WaitUntilFetching("https://a/sql");
  auto answer = AskLater("sql");
  FireTimer(0);
  const HttpResponse late = answer.get();
  EXPECT_EQ(late.status, 503);
  EXPECT_EQ(FindHeader(late.headers, "Retry-After"), "1");
  EXPECT_THAT(late.body, HasSubstr("is still being loaded (10 bytes so far)"));
  EXPECT_THAT(late.body, HasSubstr("adapter_loading"));
}

TEST_F(RemoteAdaptersApiTest, OnlySomeMayWait) {
  GatewayOptions options;
  options.max_in_flight = 4;
  StartWithTimers(std::move(options));
  ASSERT_EQ(Put("sql", R"("source":"https://a/sql")").status, 202);
  auto waiting = AskLater("sql");
  WaitForTimers(1);
  EXPECT_EQ(AskModel("sql").status, 503) << "one of four may wait";
  port_.AnswerWith("ok");
  EXPECT_EQ(AskModel("poet").status, 200);
  fake_.Release("https://a/sql");
  EXPECT_EQ(waiting.get().status, 200);
}

TEST_F(RemoteAdaptersApiTest, AFailureIsToldToThoseWhoAskForIt) {
  StartWithTimers();
  ASSERT_EQ(Put("sql", R"("source":"https://a/missing")").status, 202);
  auto waiting = AskLater("sql");
  WaitForTimers(1);
  fake_.Release("https://a/missing");
  const HttpResponse told = waiting.get();
  EXPECT_EQ(told.status, 404);
  EXPECT_THAT(told.body, HasSubstr("could not be loaded: https://a/missing has no weights"));
  EXPECT_EQ(AskModel("sql").status, 404);
  const Json failed = Get("sql");
  EXPECT_EQ(Text(failed, {"status"}), R"("failed")");
  EXPECT_EQ(Text(failed, {"load", "error"}), R"("https://a/missing has no weights")");
  fake_.Release("https://a/down");
  ASSERT_EQ(Put("sql", R"("source":"https://a/down")").status, 202);
  WaitUntilOver("sql");
  EXPECT_EQ(AskModel("sql").status, 503) << "it may be there later";
  EXPECT_EQ(AskModel("nobody").status, 404);
  port_.AnswerWith("ok");
  EXPECT_EQ(AskModel("poet").status, 200) << "harms nobody else";
  EXPECT_EQ(Send("DELETE", "/v1/adapters/sql").status, 200);
  EXPECT_EQ(Send("GET", "/v1/adapters/sql").status, 404);
}

TEST_F(RemoteAdaptersApiTest, ANameKeepsItsGenerationWhileTheNextIsFetched) {
  StartWithTimers();
  port_.AnswerWith("ok");
  fake_.Release("https://a/1");
  ASSERT_EQ(Put("sql", R"("source":"https://a/1")").status, 202);
  const std::string first = Text(WaitUntilOver("sql"), {"generation"});
  ASSERT_EQ(Put("sql", R"("source":"https://a/2")").status, 202);
  const Json between = Get("sql");
  EXPECT_EQ(Text(between, {"status"}), R"("ready")");
  EXPECT_EQ(Text(between, {"generation"}), first);
  EXPECT_EQ(Text(between, {"load", "source"}), R"("https://a/2")");
  EXPECT_EQ(AskModel("sql").status, 200);
  fake_.Release("https://a/2");
  EXPECT_NE(Text(WaitUntilOver("sql"), {"generation"}), first);
  // A failure changes nothing but what the load says.
  fake_.Release("https://a/broken");
  ASSERT_EQ(Put("sql", R"("source":"https://a/broken")").status, 202);
  const Json after = WaitUntilOver("sql");
  EXPECT_EQ(Text(after, {"status"}), R"("ready")");
  EXPECT_EQ(Text(after, {"source"}), R"("https://a/2")");
  EXPECT_EQ(Text(after, {"load", "error"}), R"("tensor x is missing")");
  EXPECT_EQ(AskModel("sql").status, 200);
}

TEST_F(RemoteAdaptersApiTest, DeletingCancels) {
  StartWithTimers();
  ASSERT_EQ(Put("sql", R"("source":"https://a/sql")").status, 202);
  fake_.WaitUntilFetching("https://a/sql");
  auto waiting = AskLater("sql");
  WaitForTimers(1);
  EXPECT_EQ(Send("DELETE", "/v1/adapters/sql").status, 200);
  EXPECT_EQ(waiting.get().status, 404);
  EXPECT_EQ(Send("DELETE", "/v1/adapters/sql").status, 404);
  EXPECT_EQ(Send("GET", "/v1/adapters/sql").status, 404);
}

TEST_F(RemoteAdaptersApiTest, TheLastChangeWins) {
  StartWithTimers();
  ASSERT_EQ(Put("sql", R"("source":"https://a/slow")").status, 202);
  fake_.WaitUntilFetching("https://a/slow");
  EXPECT_EQ(Put("sql", R"("source":"here")").status, 201);
  fake_.Release("https://a/slow");
  const Json adapter = Get("sql");
  EXPECT_EQ(Text(adapter, {"generation"}), R"("here")");
  EXPECT_EQ(Text(adapter, {"load"}), "null");
}

TEST_F(RemoteAdaptersApiTest, NoOtherChangeWaitsWhileItIsVerified) {
  StartWithTimers();
  fake_.HoldVerifying("https://a/large", true);
  fake_.Release("https://a/large");
  ASSERT_EQ(Put("large", R"("source":"https://a/large")").status, 202);
  fake_.WaitUntilVerifying("https://a/large");
  EXPECT_EQ(Put("sql", R"("source":"here")").status, 201);
  fake_.Release("https://a/small");
  ASSERT_EQ(Put("small", R"("source":"https://a/small")").status, 202);
  EXPECT_EQ(Text(WaitUntilOver("small"), {"status"}), R"("ready")");
  EXPECT_EQ(Text(Get("large"), {"status"}), R"("loading")");
  // What is changed meanwhile stays as it was changed.
  ASSERT_EQ(Put("other", R"("source":"https://a/large")").status, 202);
  EXPECT_EQ(Send("DELETE", "/v1/adapters/large").status, 200);
  fake_.HoldVerifying("https://a/large", false);
  EXPECT_EQ(Text(WaitUntilOver("other"), {"status"}), R"("ready")");
  EXPECT_EQ(Send("GET", "/v1/adapters/large").status, 404);
  fake_.WaitUntilStoreIsEmpty();
}

TEST_F(RemoteAdaptersApiTest, WhatCannotBePinnedIsNotKept) {
  StartWithTimers();
  fake_.Release("https://a/huge");
  ASSERT_EQ(Put("sql", R"("source":"https://a/huge","pin":true)").status, 202);
  EXPECT_EQ(Text(WaitUntilOver("sql"), {"load", "status"}), R"("failed")");
  EXPECT_EQ(fake_.num_kept(), 0);
  fake_.Release("https://a/small");
  ASSERT_EQ(Put("sql", R"("source":"https://a/small","pin":true)").status, 202);
  EXPECT_EQ(Text(WaitUntilOver("sql"), {"status"}), R"("ready")");
  EXPECT_EQ(fake_.num_kept(), 1);
  fake_.WaitUntilStoreIsEmpty();
}

TEST_F(RemoteAdaptersApiTest, FetchesAreCountedByScheme) {
  StartWithTimers();
  EXPECT_THAT(Send("GET", "/metrics").body, Not(HasSubstr("aril_source_fetches_total{")));
  for (const char* source : {"https://a/1", "https://a/2", "https://a/missing", "https://a/down"}) {
    fake_.Release(source);
    ASSERT_EQ(Put("sql", StrCat(R"("source":")", source, "\"")).status, 202);
    WaitUntilOver("sql");
  }
  ASSERT_EQ(Put("sql", R"("source":"https://a/slow")").status, 202);
  fake_.WaitUntilFetching("https://a/slow");
  Send("DELETE", "/v1/adapters/sql");
  fake_.WaitUntilStoreIsEmpty();
  const auto scrape_has = [&](const char* line) {
    return Send("GET", "/metrics").body.find(line) != std::string::npos;
  };
  while (!scrape_has(R"(aril_source_fetches_total{outcome="cancelled",scheme="https"} 1)")) {
    std::this_thread::yield();
  }
  for (const char* line : {R"(aril_source_fetches_total{outcome="success",scheme="https"} 2)",
                           R"(aril_source_fetches_total{outcome="not_found",scheme="https"} 1)",
                           R"(aril_source_fetches_total{outcome="unavailable",scheme="https"} 1)",
                           R"(aril_source_bytes_total{scheme="https"} 50)",
                           R"(aril_source_fetch_seconds_count{scheme="https"} 5)"}) {
    EXPECT_TRUE(scrape_has(line)) << line;
  }
}

TEST_F(RemoteAdaptersApiTest, VllmsRequestIsAnsweredWhenTheAdapterIsThere) {
  StartWithTimers();
  const auto load = [this](const std::string& source) {
    return Send("POST", "/v1/load_lora_adapter",
                R"({"lora_name":"sql","load_inplace":true,"lora_path":")" + source + R"("})");
  };
  auto answer = std::async(std::launch::async, load, "https://a/sql");
  fake_.WaitUntilFetching("https://a/sql");
  fake_.Release("https://a/sql");
  const HttpResponse loaded = answer.get();
  EXPECT_EQ(loaded.status, 200) << loaded.body;
  EXPECT_EQ(loaded.body, "Success: LoRA adapter 'sql' added successfully.");
  EXPECT_EQ(Text(Get("sql"), {"status"}), R"("ready")");
  fake_.Release("https://a/missing");
  EXPECT_EQ(load("https://a/missing").status, 404);
  fake_.Release("https://a/broken");
  const HttpResponse broken = load("https://a/broken");
  EXPECT_EQ(broken.status, 400);
  EXPECT_THAT(broken.body, HasSubstr("lora_path"));
  EXPECT_EQ(load("https://evil").status, 400);
  auto cancelled = std::async(std::launch::async, load, "https://a/slow");
  fake_.WaitUntilFetching("https://a/slow");
  EXPECT_EQ(Send("DELETE", "/v1/adapters/sql").status, 200);
  EXPECT_EQ(cancelled.get().status, 409);
}

TEST_F(RemoteAdaptersApiTest, WhatIsWrongIsSaidAtOnce) {
  StartWithTimers();
  EXPECT_EQ(Put("sql", R"("source":"https://evil")").status, 400);
  EXPECT_EQ(Put("base", R"("source":"https://a/x")").status, 409);
  EXPECT_EQ(Put("sql", R"("source":"https://a/x","expected_generation":"x")").status, 409);
  EXPECT_EQ(Put("sql", R"("source":"https://evil")", "?dry_run=true").status, 400);
  EXPECT_EQ(Put("base", R"("source":"https://a/x")", "?dry_run=true").status, 409);
  EXPECT_EQ(Put("sql", R"("source":"here","digest":")" + std::string(64, 'a') + R"(")").status,
            400);
  for (const char* fields :
       {R"("digest":"x")", R"("digest":1)", R"("sha256":"x")", R"("sha256":{"x":"y"})",
        R"("sha256":{"adapter_config.json":"x"})", R"("sha256":{"../x":"y"})"}) {
    EXPECT_EQ(Put("sql", StrCat(R"("source":"https://a/x",)", fields)).status, 400) << fields;
  }
  EXPECT_EQ(Send("GET", "/v1/adapters/sql").status, 404);
}

TEST_F(RemoteAdaptersApiTest, ADryRunFetchesAndLeavesNothing) {
  StartWithTimers();
  const auto try_out = [&](const std::string& fields) {
    return Put("sql", fields, "?dry_run=true");
  };
  for (const char* source : {"https://a/x", "https://a/broken", "https://a/down"})
    fake_.Release(source);
  const HttpResponse good = try_out(R"("source":"https://a/x")");
  EXPECT_EQ(good.status, 200) << good.body;
  const Json answer = *Json::Parse(good.body);
  EXPECT_EQ(Text(answer, {"dry_run"}), "true");
  EXPECT_EQ(Text(answer, {"rank"}), "8");
  EXPECT_TRUE(IsDigest(*At(answer, {"generation"}).AsString()));
  const HttpResponse broken = try_out(R"("source":"https://a/broken")");
  EXPECT_EQ(broken.status, 400);
  EXPECT_THAT(broken.body, HasSubstr("tensor x is missing"));
  EXPECT_EQ(try_out(R"("source":"https://a/down")").status, 503);
  EXPECT_EQ(try_out(R"("source":"https://a/x","digest":")" + std::string(64, 'a') + R"(")").status,
            400);
  EXPECT_EQ(Send("GET", "/v1/adapters/sql").status, 404) << "not even a load that failed";
  EXPECT_EQ(fake_.num_kept(), 0);
  fake_.WaitUntilStoreIsEmpty();
}

TEST_F(RemoteAdaptersApiTest, ADryRunDoesNotTouchALoadOfTheSameName) {
  StartWithTimers();
  ASSERT_EQ(Put("sql", R"("source":"https://a/slow")").status, 202);
  fake_.WaitUntilFetching("https://a/slow");
  fake_.Release("https://a/broken");
  EXPECT_EQ(Put("sql", R"("source":"https://a/broken")", "?dry_run=true").status, 400);
  EXPECT_EQ(Text(Get("sql"), {"load", "source"}), R"("https://a/slow")");
  fake_.Release("https://a/slow");
  EXPECT_EQ(Text(WaitUntilOver("sql"), {"source"}), R"("https://a/slow")");
}

TEST_F(RemoteAdaptersApiTest, AWrongDigestIsRefused) {
  StartWithTimers();
  fake_.Release("https://a/x");
  const std::string wrong(64, 'a');
  ASSERT_EQ(Put("sql", R"("source":"https://a/x","digest":")" + wrong + R"(")").status, 202);
  EXPECT_THAT(Text(WaitUntilOver("sql"), {"load", "error"}), HasSubstr("the files are generation"));
  ASSERT_EQ(Put("sql", R"("source":"https://a/x","sha256":{"adapter_model.safetensors":")" + wrong +
                           R"("})")
                .status,
            202);
  EXPECT_THAT(Text(WaitUntilOver("sql"), {"load", "error"}),
              HasSubstr("adapter_model.safetensors has the SHA-256"));
  fake_.WaitUntilStoreIsEmpty();
}

}  // namespace
}  // namespace aril::gateway
