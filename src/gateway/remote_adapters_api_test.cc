// Adapters that are fetched while requests wait for them, and adapters that clients send.

#include <condition_variable>
#include <filesystem>
#include <future>
#include <mutex>
#include <set>

#include "base/adapter_mix.h"
#include "base/hostile_inputs.h"
#include "base/test_dir.h"
#include "gateway/adapters_api.h"
#include "gateway/gateway_test_fixture.h"
#include "gmock/gmock.h"

namespace aril::gateway {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using ::testing::HasSubstr;

// Adapters in folders: none.
class NoFolders final : public AdapterLoader {
 public:
  StatusOr<std::shared_ptr<const Generation>> Load(const std::string& source) override {
    if (source != "here") return NotFound("there is no folder " + source);
    return std::make_shared<const Generation>(
        Generation::Description{.adapter = AdapterId(50), .digest = "here", .rank = 1, .bytes = 1});
  }
  StatusOr<Generation::Description> Verify(const std::string&) override { return NotFound("none"); }
  StatusOr<std::shared_ptr<const Generation>> Recall(const std::string&) override {
    return NotFound("none");
  }
};

// Fetches "https://…" when the test lets it. What it fetches is the source itself.
class FakeRemote final : public RemoteLoader {
 public:
  bool IsRemote(const std::string& source) const override { return source.starts_with("https://"); }
  Status Check(const std::string& source) const override {
    return source == "https://evil" ? InvalidArgument("nothing is fetched from there") : OkStatus();
  }
  StatusOr<GenerationStore::Incoming> Fetch(const std::string& source,
                                            TransferMonitor& monitor) override {
    monitor.OnProgress(10, 20);
    {
      std::unique_lock lock(mutex_);
      fetching_.insert(source);
      changed_.notify_all();
      while (!released_.contains(source) && !monitor.IsCancelled()) {
        changed_.wait_for(lock, std::chrono::milliseconds(1));  // to see that it is cancelled
      }
      fetching_.erase(source);
    }
    if (monitor.IsCancelled()) return MakeStatus(StatusCode::kCancelled, "cancelled");
    if (source.find("missing") != std::string::npos) return NotFound(source + " has no weights");
    if (source.find("down") != std::string::npos) return Unavailable(source + " does not answer");
    ASSIGN_OR_RETURN(GenerationStore::Incoming incoming, store_.Begin());
    for (const char* name : {"adapter_config.json", "adapter_model.safetensors"}) {
      std::ofstream(incoming.dir() + "/" + name) << source << name;
    }
    RETURN_IF_ERROR(GenerationStore::Seal(&incoming));
    return incoming;
  }
  StatusOr<std::shared_ptr<const Generation>> Take(GenerationStore::Incoming incoming,
                                                   const std::string& source) override {
    ASSIGN_OR_RETURN(Generation::Description description, Verify(incoming, source));
    return std::make_shared<const Generation>(description);
  }
  StatusOr<Generation::Description> Verify(const GenerationStore::Incoming& incoming,
                                           const std::string& source) override {
    const std::lock_guard lock(mutex_);
    if (source.find("broken") != std::string::npos) return InvalidArgument("tensor x is missing");
    return Generation::Description{.adapter = AdapterId(20 + num_taken_++),
                                   .digest = incoming.digest(),
                                   .rank = 8,
                                   .bytes = 4096};
  }
  const GenerationStore& store() const override { return store_; }

  void Release(const std::string& source) {
    const std::lock_guard lock(mutex_);
    released_.insert(source);
    changed_.notify_all();
  }
  void WaitUntilFetching(const std::string& source) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return fetching_.contains(source); });
  }
  // Nothing is left behind: what an answer was about goes on the server's thread, after it.
  void WaitUntilStoreIsEmpty() const {
    while (!fs::is_empty(dir_.path())) std::this_thread::yield();
  }

 private:
  TestDir dir_;
  const GenerationStore store_ = *GenerationStore::Open(dir_.path());
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::string> fetching_, released_;
  int num_taken_ = 0;
};

class RemoteAdaptersApiTest : public GatewayTest {
 protected:
  RemoteAdaptersApiTest() {
    loader_ = &folders_;
    remote_ = &fake_;
  }
  // Timers run when the test says so.
  void StartWithTimers(GatewayOptions options = {}) {
    options.post_after = [this](Duration, std::function<void()> function) {
      const std::lock_guard lock(timers_mutex_);
      timers_.push_back(std::move(function));
      timers_changed_.notify_all();
    };
    Start(std::move(options));
  }
  void FireTimer(size_t index) {
    std::unique_lock lock(timers_mutex_);
    timers_changed_.wait(lock, [&] { return timers_.size() > index; });
    server_->Post(timers_[index]);
  }
  void WaitForTimers(size_t count) {
    std::unique_lock lock(timers_mutex_);
    timers_changed_.wait(lock, [&] { return timers_.size() >= count; });
  }
  HttpResponse Put(const std::string& name, const std::string& fields,
                   const std::string& query = "") {
    return Send("PUT", "/v1/adapters/" + name + query, "{" + fields + "}");
  }
  std::future<HttpResponse> AskLater(const std::string& model) {
    return std::async(std::launch::async, [this, model] { return AskModel(model); });
  }
  HttpResponse AskModel(const std::string& model) {
    return Send("POST", "/v1/completions", R"({"prompt":"hi","model":")" + model + R"("})");
  }
  Json Get(const std::string& name) { return Ask("GET", "/v1/adapters/" + name); }
  // Until the adapter is no longer being loaded.
  Json WaitUntilOver(const std::string& name) {
    while (true) {
      Json adapter = Get(name);
      const std::string load = Text(adapter, {"load", "status"});
      if (load != R"("queued")" && load != R"("loading")") return adapter;
      std::this_thread::yield();
    }
  }

  NoFolders folders_;
  FakeRemote fake_;
  std::mutex timers_mutex_;
  std::condition_variable timers_changed_;
  std::vector<std::function<void()>> timers_;
};

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
  EXPECT_EQ(Put("sql", R"("source":"https://a/x")", "?dry_run=true").status, 400);
  EXPECT_EQ(Put("sql", R"("source":"here","digest":")" + std::string(64, 'a') + R"(")").status,
            400);
  for (const char* fields :
       {R"("digest":"x")", R"("digest":1)", R"("sha256":"x")", R"("sha256":{"x":"y"})",
        R"("sha256":{"adapter_config.json":"x"})", R"("sha256":{"../x":"y"})"}) {
    EXPECT_EQ(Put("sql", StrCat(R"("source":"https://a/x",)", fields)).status, 400) << fields;
  }
  EXPECT_EQ(Send("GET", "/v1/adapters/sql").status, 404);
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

constexpr char kForm[] = "multipart/form-data; boundary=b0";

std::string FormPart(const std::string& name, const std::string& data,
                     const std::string& filename = "") {
  return StrCat("--b0\r\nContent-Disposition: form-data; name=\"", name, "\"",
                filename.empty() ? "" : StrCat("; filename=\"", filename, "\""), "\r\n\r\n", data,
                "\r\n");
}
const std::string kGoodForm = FormPart("adapter_config.json", "{}", "adapter_config.json") +
                              FormPart("adapter_model.safetensors", std::string(300'000, 'w')) +
                              "--b0--\r\n";

class UploadTest : public RemoteAdaptersApiTest {
 protected:
  HttpResponse Upload(const std::string& body, const std::string& path = "sql") {
    return Send("PUT", "/v1/adapters/" + path, body, {{"Content-Type", kForm}});
  }
};

TEST_F(UploadTest, AnUploadIsAnAdapter) {
  StartWithTimers();
  const HttpResponse put = Upload(kGoodForm);
  EXPECT_EQ(put.status, 201) << put.body;
  const Json adapter = Get("sql");
  EXPECT_EQ(Text(adapter, {"source"}), R"("upload")");
  EXPECT_EQ(Text(adapter, {"status"}), R"("ready")");
  EXPECT_EQ(Upload(kGoodForm).status, 200);
  EXPECT_EQ(Upload(kGoodForm, "new?dry_run=true").status, 200);
  EXPECT_EQ(Send("GET", "/v1/adapters/new").status, 404);
  EXPECT_EQ(Upload(kGoodForm, "new?digest=" + *At(adapter, {"generation"}).AsString()).status, 201);
  EXPECT_EQ(Upload(kGoodForm, "new?digest=" + std::string(64, 'a')).status, 400);
  EXPECT_EQ(Upload(kGoodForm, "new?expected_generation=").status, 409);
  EXPECT_EQ(Upload(kGoodForm, "new?ttl_seconds=0").status, 400);
  EXPECT_EQ(Upload(kGoodForm, "new?ttl_seconds=60").status, 200);
  EXPECT_EQ(Text(Get("new"), {"expires_at"}), "60");
  fake_.WaitUntilStoreIsEmpty();
}

TEST_F(UploadTest, WhatIsLargerThanABodyMayBeIsWrittenAsItArrives) {
  http_options_.request.max_body_bytes = 1000;
  StartWithTimers();
  EXPECT_EQ(Upload(kGoodForm).status, 201);
}

TEST_F(UploadTest, UploadsAreBounded) {
  GatewayOptions options;
  options.max_upload_bytes = 200'000;
  StartWithTimers(std::move(options));
  EXPECT_EQ(Upload(kGoodForm).status, 413);
  const std::string barely = FormPart("adapter_config.json", "{}") +
                             FormPart("adapter_model.safetensors", std::string(199'999, 'w')) +
                             "--b0--";
  const HttpResponse over = Upload(barely);
  EXPECT_EQ(over.status, 400) << over.body;
  EXPECT_THAT(over.body, HasSubstr("--source-max-bytes"));
  fake_.WaitUntilStoreIsEmpty();
}

TEST_F(UploadTest, AnIncompleteOneIsRefused) {
  StartWithTimers();
  EXPECT_EQ(Upload(FormPart("adapter_config.json", "{}") + "--b0--").status, 400);
  EXPECT_EQ(Upload("--b0--").status, 400);
  EXPECT_EQ(Upload("").status, 400);
  EXPECT_EQ(Upload(kGoodForm.substr(0, kGoodForm.size() - 10)).status, 400);
  fake_.WaitUntilStoreIsEmpty();
}

TEST_F(UploadTest, OnlyFilesOfAnAdapterAreTaken) {
  StartWithTimers();
  std::set<std::string> names = {"",
                                 "adapter_model.bin",
                                 "README.md",
                                 "adapter_config.json/",
                                 "./adapter_config.json",
                                 "ADAPTER_CONFIG.JSON",
                                 std::string("adapter_config.json") + '\0' + "x"};
  for (const auto& inputs : {HostileTraversals(2, "adapter_config.json"), HostileStrings()}) {
    names.insert(inputs.begin(), inputs.end());
  }
  EXPECT_GE(names.size(), 150u);
  const auto refused = [&](const std::string& form, const std::string& what) {
    const HttpResponse response = Upload(form);
    EXPECT_EQ(response.status, 400) << JsonQuote(what) << response.body;
    EXPECT_TRUE(Json::Parse(response.body).ok()) << response.body;
  };
  for (const std::string& name : names) {
    refused(FormPart(name, "x") + kGoodForm, name);
    const bool is_path = name.find_first_of("/\\") != std::string::npos;
    if (is_path) refused(FormPart("adapter_config.json", "{}", name) + "--b0--", name);
  }
  refused(FormPart("adapter_config.json", "{}") + kGoodForm, "twice");
  fake_.WaitUntilStoreIsEmpty();
  EXPECT_EQ(Send("GET", "/v1/adapters/sql").status, 404);
}

TEST_F(UploadTest, WhoMayNotIsToldBeforeTheBody) {
  GatewayOptions options;
  options.api_keys = ApiKeys(std::vector<ApiKey>{{.key = "k", .tenant = "acme"}});
  StartWithTimers(std::move(options));
  EXPECT_EQ(Upload(kGoodForm).status, 401);
  const HttpHeaders headers = {{"Content-Type", kForm}, {"Authorization", "Bearer k"}};
  EXPECT_EQ(Send("PUT", "/v1/adapters/poet", kGoodForm, headers).status, 409) << "everybody's";
  EXPECT_EQ(Send("PUT", "/v1/adapters/..", kGoodForm, headers).status, 400);
  EXPECT_EQ(Send("PUT", "/v1/adapters/mine", kGoodForm, headers).status, 201);
  EXPECT_EQ(Send("PUT", "/v1/adapters/mine", kGoodForm,
                 {{"Content-Type", "multipart/form-data"}, {"Authorization", "Bearer k"}})
                .status,
            400);
}

TEST_F(UploadTest, WithoutAStoreThereIsNone) {
  remote_ = nullptr;
  StartWithTimers();
  EXPECT_EQ(Upload(kGoodForm).status, 403);
}

TEST_F(UploadTest, ABrokenOneLeavesNothing) {
  StartWithTimers();
  {
    RawClient client(server_->port());
    client.Send(
        "PUT /v1/adapters/sql HTTP/1.1\r\nHost: x\r\nContent-Length: 400000\r\nContent-Type: " +
        std::string(kForm) + "\r\n\r\n" + kGoodForm.substr(0, 100'000));
  }
  EXPECT_EQ(Upload(kGoodForm).status, 201);
  fake_.WaitUntilStoreIsEmpty();
}

}  // namespace
}  // namespace aril::gateway
