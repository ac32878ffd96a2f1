// Names whose requests are divided among several generations.

#include "gateway/adapter_splits.h"

#include <map>
#include <string>

#include "base/strings.h"
#include "gateway/adapters_api_test_fixture.h"

namespace aril::gateway {
namespace {

using ::testing::HasSubstr;

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
    EXPECT_EQ(ask(StrCat(R"("metadata":{"user_id":"u)", user, R"("})")), generation);
  }
  EXPECT_EQ(counts.size(), 2u) << "12 users, of whom two thirds go to the one";
  EXPECT_EQ(ask(R"("seed":7)"), ask(R"("seed":7)"));
  const Json described = Ask("GET", "/v1/adapters/prod");
  const auto requests = [&](const char* share) {
    return std::stoi(Text(described, {"split", share, "requests"}));
  };
  EXPECT_EQ(Text(described, {"requests"}), "62");
  EXPECT_EQ(requests("0") + requests("1"), 62);
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

}  // namespace
}  // namespace aril::gateway
