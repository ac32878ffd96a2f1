// Adapters that clients ask to be kept in the pool.

#include <string>
#include <utility>

#include "gateway/adapters_api_test_fixture.h"

namespace aril::gateway {
namespace {

using ::testing::HasSubstr;

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

TEST_F(AdaptersApiTest, APinIsItsTenants) {
  Start({.api_keys = ApiKeys({{.key = "a", .tenant = "acme"}, {.key = "z", .tenant = "zeta"}})});
  for (const auto& [key, tenant] : {std::pair("a", "acme"), {"z", "zeta"}}) {
    const HttpResponse put = Send("PUT", "/v1/adapters/mine", R"({"source":"/v1","pin":true})",
                                  {{"Authorization", std::string("Bearer ") + key}});
    EXPECT_EQ(put.status, 201) << put.body;
    EXPECT_EQ(fake_.last_pinned_by(), tenant);
  }
}

}  // namespace
}  // namespace aril::gateway
