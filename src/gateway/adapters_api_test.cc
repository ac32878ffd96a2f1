// Adapters that come and go while the server runs.

#include "gateway/adapters_api.h"

#include "gateway/gateway_test_fixture.h"
#include "gmock/gmock.h"

namespace aril::gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Loads every source but "/bad" and "/none", as adapters 10, 11, …
class FakeLoader final : public AdapterLoader {
 public:
  StatusOr<std::shared_ptr<const Generation>> Load(const std::string& source) override {
    if (source == "/bad") return InvalidArgument("tensor x is missing");
    if (source == "/none") return NotFound("there is no folder /none");
    const int32_t id = 10 + num_loads_++;
    return std::make_shared<const Generation>(
        Generation::Description{.adapter = AdapterId(id),
                                .digest = "digest of " + source,
                                .source = source,
                                .rank = 8,
                                .bytes = 4096},
        [this] { ++num_released_; });
  }
  int num_loads() const { return num_loads_; }
  int num_released() const { return num_released_; }

 private:
  std::atomic<int> num_loads_ = 0;
  std::atomic<int> num_released_ = 0;
};

class AdaptersApiTest : public GatewayTest {
 protected:
  AdaptersApiTest() { loader_ = &fake_; }

  HttpResponse Load(const std::string& fields) {
    return Send("POST", "/v1/load_lora_adapter", "{" + fields + "}");
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
  EXPECT_EQ(port_.WaitForRequests(1)[0].adapter, AdapterId(10));

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
  expect(Unload("base"), 400, "lora_name", "base model");
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
       {Load(R"("lora_name":"x","lora_path":"/x")"), Unload("poet")}) {
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

}  // namespace
}  // namespace aril::gateway
