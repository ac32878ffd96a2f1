// Adapters that come and go while the server runs.

#include "gateway/adapters_api.h"

#include <map>

#include "base/strings.h"
#include "gateway/gateway_test_fixture.h"
#include "gmock/gmock.h"

namespace aril::gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Loads every source but "/bad" and "/none", as adapters 10, 11, …; a source's generation is
// "digest of " it. All but "/broken" can be used.
class FakeLoader final : public AdapterLoader {
 public:
  StatusOr<std::shared_ptr<const Generation>> Load(const std::string& source) override {
    ASSIGN_OR_RETURN(Generation::Description description, Verify(source));
    description.adapter = AdapterId(10 + num_loads_++);
    return std::make_shared<const Generation>(
        description, Generation::Hooks{.prepare = [source] { return CanBeUsed(source); },
                                       .release = [this] { ++num_released_; },
                                       .residence = [] { return Generation::Residence::kHost; },
                                       .pin = [this, source] { return Pin(source); }});
  }
  StatusOr<Generation::Description> Verify(const std::string& source) override {
    if (source == "/bad") return InvalidArgument("tensor x is missing");
    if (source == "/none") return NotFound("there is no folder /none");
    return Generation::Description{.digest = "digest of " + source, .rank = 8, .bytes = 4096};
  }
  StatusOr<std::shared_ptr<const Generation>> Recall(const std::string& digest) override {
    if (digest == "digest of /forgotten") return NotFound("the files are not kept");
    return Load(digest.substr(std::string("digest of ").size()));
  }
  // Of everything but "/large".
  StatusOr<std::shared_ptr<const void>> Pin(const std::string& source) {
    if (source == "/large") return FailedPrecondition("12 pages would be left");
    ++num_pins_;
    return std::shared_ptr<const void>(this, [this](const void*) { --num_pins_; });
  }
  int num_pins() const { return num_pins_; }
  int num_loads() const { return num_loads_; }
  int num_released() const { return num_released_; }

 private:
  static Status CanBeUsed(const std::string& source) {
    return source == "/broken" ? NotFound("/state/adapters/1: no such file") : OkStatus();
  }

  std::atomic<int> num_loads_ = 0;
  std::atomic<int> num_released_ = 0;
  std::atomic<int> num_pins_ = 0;
};

class AdaptersApiTest : public GatewayTest {
 protected:
  AdaptersApiTest() { loader_ = &fake_; }

  HttpResponse Load(const std::string& fields) {
    return Send("POST", "/v1/load_lora_adapter", "{" + fields + "}");
  }
  HttpResponse Put(const std::string& name, const std::string& fields,
                   const std::string& query = "") {
    return Send("PUT", "/v1/adapters/" + name + query, "{" + fields + "}");
  }
  HttpResponse Unload(const std::string& name) {
    return Send("POST", "/v1/unload_lora_adapter", R"({"lora_name":")" + name + R"("})");
  }
  std::vector<std::string> Names() {
    std::vector<std::string> names;
    const Json list = Ask("GET", "/v1/adapters");
    for (const Json& adapter : *At(list, {"data"}).AsArray()) {
      names.push_back(*At(adapter, {"id"}).AsString());
    }
    return names;
  }

  FakeLoader fake_;
};

// {"message", "param"} of an error.
std::pair<std::string, std::string> ErrorOf(const HttpResponse& response) {
  const auto json = Json::Parse(response.body);
  EXPECT_TRUE(json.ok()) << response.body;
  const Json& param = At(*json, {"error", "param"});
  return {*At(*json, {"error", "message"}).AsString(),
          param.AsString() != nullptr ? *param.AsString() : ""};
}

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
  EXPECT_EQ(Text(now, {"history"}),
            R"([{"generation":"digest of /v1","since":100},{"generation":"digest of /v2",)"
            R"("since":100},{"generation":"digest of /v1","since":100}])");

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

TEST_F(AdaptersApiTest, APinMovesWithTheName) {
  Start();
  ASSERT_EQ(Put("sql", R"("source":"/v1")").status, 201);
  EXPECT_EQ(Text(Ask("GET", "/v1/adapters/sql"), {"pin"}), "false");
  EXPECT_EQ(fake_.num_pins(), 0);
  const HttpResponse pinned = Put("sql", R"("pin":true)");
  EXPECT_EQ(pinned.status, 200) << pinned.body;
  EXPECT_EQ(Text(*Json::Parse(pinned.body), {"pin"}), "true");
  EXPECT_EQ(Text(*Json::Parse(pinned.body), {"generation"}), R"("digest of /v1")");
  EXPECT_EQ(Text(*Json::Parse(pinned.body), {"source"}), R"("/v1")");
  EXPECT_EQ(fake_.num_pins(), 1);
  ASSERT_EQ(Put("sql", R"("source":"/v2")").status, 200);
  EXPECT_EQ(Text(Ask("GET", "/v1/adapters/sql"), {"pin"}), "true") << "where it is not named";
  EXPECT_EQ(fake_.num_pins(), 1);
  ASSERT_EQ(Put("sql", R"("pin":false)").status, 200);
  EXPECT_EQ(fake_.num_pins(), 0);
  ASSERT_EQ(Put("other", R"("source":"/v3","pin":true)").status, 201);
  Ask("DELETE", "/v1/adapters/other");
  EXPECT_EQ(fake_.num_pins(), 0);
}

TEST_F(AdaptersApiTest, SaysWhatIsWrongWithAPin) {
  Start();
  ASSERT_EQ(Put("sql", R"("source":"/v1","pin":true)").status, 201);
  const auto expect = [&](const HttpResponse& response, int status, const std::string& param,
                          const std::string& message) {
    EXPECT_EQ(response.status, status) << response.body;
    EXPECT_EQ(ErrorOf(response).second, param);
    EXPECT_THAT(ErrorOf(response).first, HasSubstr(message));
  };
  expect(Put("sql", R"("source":"/large")"), 409, "pin", "12 pages would be left");
  EXPECT_EQ(Text(Ask("GET", "/v1/adapters/sql"), {"generation"}), R"("digest of /v1")");
  expect(Put("sql", R"("source":"/v2","ttl_seconds":5)"), 400, "ttl_seconds", "`pin`: false");
  expect(Put("x", R"("source":"/v2","ttl_seconds":5,"pin":true)"), 400, "ttl_seconds", "stays");
  expect(Put("x", R"("source":"/v2","pin":1)"), 400, "pin", "boolean");
  expect(Put("x", R"("pin":true)"), 404, "", "`x` does not exist");
  EXPECT_EQ(fake_.num_pins(), 1);
  EXPECT_EQ(Put("sql", R"("source":"/large","pin":false)").status, 200);
  EXPECT_EQ(fake_.num_pins(), 0);
}

TEST_F(AdaptersApiTest, ASplitDividesItsRequestsByWhoAsks) {
  Start();
  port_.AnswerWith("x");
  ASSERT_EQ(Put("new", R"("source":"/v2")").status, 201);
  ASSERT_EQ(Put("prod", R"("source":"/v1")").status, 201);
  const HttpResponse split =
      Put("prod",
          R"("split":[{"generation":"digest of /v1","weight":2},{"adapter":"new","weight":1}])");
  ASSERT_EQ(split.status, 200) << split.body;
  std::map<std::string, int> counts;
  std::map<std::string, std::string> generations;
  const auto ask = [&](const std::string& fields) {
    const HttpResponse response =
        Send("POST", "/v1/completions",
             R"({"model":"prod","prompt":"hi","max_tokens":1,)" + fields + "}");
    EXPECT_EQ(response.status, 200) << response.body;
    EXPECT_EQ(Text(*Json::Parse(response.body), {"model"}), R"("prod")");
    return std::string(FindHeader(response.headers, "Aril-Generation"));
  };
  for (int user = 0; user < 12; ++user) {
    const std::string field = StrCat(R"("user":"u)", user, R"(")");
    const std::string generation = ask(field);
    ++counts[generation];
    EXPECT_EQ(ask(field + R"(,"seed":7)"), generation) << "who asks comes before the seed";
    EXPECT_EQ(ask(StrCat(R"("safety_identifier":"u)", user, R"(")")), generation);
    EXPECT_EQ(ask(StrCat(R"("prompt_cache_key":"u)", user, R"(")")), generation);
  }
  EXPECT_EQ(counts.size(), 2u) << "12 users, of whom two thirds go to the one";
  EXPECT_EQ(ask(R"("seed":7)"), ask(R"("seed":7)"));
  const Json described = Ask("GET", "/v1/adapters/prod");
  const auto requests = [&](const char* share) {
    return std::stoi(Text(described, {"split", share, "requests"}));
  };
  EXPECT_EQ(Text(described, {"requests"}), "50");
  EXPECT_EQ(requests("0") + requests("1"), 50);
  EXPECT_EQ(Text(described, {"split", "1", "adapter"}), R"("new")");
  EXPECT_EQ(Text(described, {"source"}), "null");

  // It stands for what the other name stood for then.
  ASSERT_EQ(Put("new", R"("source":"/v3")").status, 200);
  EXPECT_EQ(Text(Ask("GET", "/v1/adapters/prod"), {"split", "1", "generation"}),
            R"("digest of /v2")");
}

TEST_F(AdaptersApiTest, ASplitIsMovedBack) {
  Start();
  ASSERT_EQ(Put("new", R"("source":"/v2")").status, 201);
  ASSERT_EQ(Put("prod", R"("source":"/v1","pin":true)").status, 201);
  ASSERT_EQ(
      Put("prod", R"("split":[{"adapter":"prod","weight":9},{"adapter":"new","weight":1}])").status,
      200);
  EXPECT_EQ(fake_.num_pins(), 2);
  const std::string split = Text(Ask("GET", "/v1/adapters/prod"), {"generation"});
  EXPECT_THAT(split, HasSubstr("split:"));
  ASSERT_EQ(Put("prod", R"("generation":"digest of /v2","expected_generation":)" + split).status,
            200)
      << "a share alone";
  EXPECT_EQ(fake_.num_pins(), 1);
  EXPECT_EQ(Text(Ask("GET", "/v1/adapters/prod"), {"split"}), "null");
  EXPECT_EQ(Put("prod", R"("generation":"digest of /v1","expected_generation":)" + split).status,
            409);
  const HttpResponse back = Put("prod", R"("generation":)" + split);
  ASSERT_EQ(back.status, 200) << back.body;
  EXPECT_EQ(Text(*Json::Parse(back.body), {"generation"}), split);
  EXPECT_EQ(Text(*Json::Parse(back.body), {"split", "0", "weight"}), "9");
  EXPECT_EQ(Text(*Json::Parse(back.body), {"history", "3", "split", "1", "generation"}),
            R"("digest of /v2")");
  EXPECT_EQ(fake_.num_pins(), 2);
  ASSERT_EQ(Put("prod", R"("pin":false)").status, 200);
  EXPECT_EQ(Text(Ask("GET", "/v1/adapters/prod"), {"generation"}), split);
  EXPECT_EQ(fake_.num_pins(), 0);
}

TEST_F(AdaptersApiTest, SaysWhatIsWrongWithASplit) {
  Start({.api_keys = ApiKeys({{.key = "a", .tenant = "acme"}, {.key = "z", .tenant = "zeta"}})});
  const auto put = [&](const std::string& key, const std::string& name, const std::string& fields) {
    return Send("PUT", "/v1/adapters/" + name, "{" + fields + "}",
                {{"Authorization", "Bearer " + key}});
  };
  ASSERT_EQ(put("z", "theirs", R"("source":"/v9")").status, 201);
  ASSERT_EQ(put("a", "one", R"("source":"/v1")").status, 201);
  ASSERT_EQ(put("a", "two", R"("source":"/v2")").status, 201);
  ASSERT_EQ(put("a", "old", R"("source":"/forgotten")").status, 201);
  ASSERT_EQ(
      put("a", "both", R"("split":[{"adapter":"one","weight":1},{"adapter":"two","weight":1}])")
          .status,
      201);
  const auto expect = [&](const std::string& fields, int status, const std::string& param,
                          const std::string& message) {
    const HttpResponse response = put("a", "prod", fields);
    EXPECT_EQ(response.status, status) << response.body;
    EXPECT_EQ(ErrorOf(response).second, param);
    EXPECT_THAT(ErrorOf(response).first, HasSubstr(message));
  };
  const std::string one = R"({"adapter":"one","weight":1})";
  const auto with = [&](const std::string& share) {
    return R"("split":[)" + one + "," + share + "]";
  };
  expect(R"("split":7)", 400, "split", "array of 2 to 16 shares");
  expect(R"("split":[])", 400, "split", "array of 2 to 16 shares");
  expect(R"("split":[)" + one + "]", 400, "split", "array of 2 to 16 shares");
  expect(with("7"), 400, "split[1]", "must be an object");
  expect(with(R"({"adapter":"two"})"), 400, "split[1].weight", "is required");
  expect(with(R"({"adapter":"two","weight":0})"), 400, "split[1].weight", "between 1 and 1000000");
  expect(with(R"({"adapter":"two","weight":0.5})"), 400, "split[1].weight", "integer");
  expect(with(R"({"weight":1})"), 400, "split[1].generation", "or `adapter` is required");
  expect(with(R"({"adapter":"two","generation":"x","weight":1})"), 400, "split[1].generation",
         "one of them");
  expect(with(R"({"adapter":"nobody","weight":1})"), 404, "split[1].adapter", "does not exist");
  expect(with(R"({"adapter":"theirs","weight":1})"), 404, "split[1].adapter", "does not exist");
  expect(with(R"({"adapter":"base","weight":1})"), 400, "split[1].adapter", "not the base model");
  expect(with(R"({"adapter":"both","weight":1})"), 400, "split[1].adapter", "split itself");
  expect(with(R"({"adapter":"old","weight":1})"), 404, "split[1].adapter", "not kept");
  expect(with(one), 400, "split", "has two shares");
  expect(with(R"({"generation":"digest of /v1","weight":1})"), 404, "split[1].generation",
         "has not stood for");
  expect(with(one) + R"(,"source":"/v1")", 400, "source", "exclude each other");
  const HttpResponse theirs = put("z", "both", "\"pin\":true");
  EXPECT_EQ(theirs.status, 404) << theirs.body;
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
