#include "gateway/auth.h"

#include "base/strings.h"
#include "base/test_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril::gateway {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(ApiKeys, CompareWholeKeys) {
  const ApiKeys keys(std::vector<ApiKey>{{.key = "abc", .tenant = "acme"}});
  EXPECT_EQ(keys.FindTenant({{"Authorization", "Bearer abc"}}), "acme");
  EXPECT_EQ(keys.FindTenant({{"authorization", "bearer abc"}}), "acme");
  for (const char* wrong : {"", "abc", "Bearer ", "Bearer ab", "Bearer abcd", "Bearer abcabc",
                            "Bearer ABC", "Basic abc"}) {
    EXPECT_EQ(keys.FindTenant({{"Authorization", wrong}}), std::nullopt) << wrong;
  }
  EXPECT_EQ(keys.FindTenant({}), std::nullopt);
}

TEST(ApiKeys, MayStandInAFieldOfTheirOwn) {
  const ApiKeys keys(
      std::vector<ApiKey>{{.key = "abc", .tenant = "acme"}, {.key = "def", .tenant = "other"}});
  EXPECT_EQ(keys.FindTenant({{"x-api-key", "abc"}}), "acme");
  for (const char* wrong : {"", "ab", "abcd", "Bearer abc"}) {
    EXPECT_EQ(keys.FindTenant({{"X-Api-Key", wrong}}), std::nullopt) << wrong;
  }
  // Of two keys that one counts that the protocol has a place for, right or wrong.
  EXPECT_EQ(keys.FindTenant({{"X-Api-Key", "abc"}, {"Authorization", "Bearer def"}}), "other");
  EXPECT_EQ(keys.FindTenant({{"X-Api-Key", "abc"}, {"Authorization", "Bearer d"}}), std::nullopt);
  // What else stands there is no key, but a proxy's.
  for (const char* other : {"", "Basic abc", "abc"}) {
    EXPECT_EQ(keys.FindTenant({{"X-Api-Key", "abc"}, {"Authorization", other}}), "acme") << other;
  }
}

TEST(ApiKeys, WithoutKeysEverybodyIsTheDefaultTenant) {
  EXPECT_EQ(ApiKeys().FindTenant({}), kDefaultTenant);
  EXPECT_EQ(ApiKeys().FindTenant({{"Authorization", "Bearer whatever"}}), kDefaultTenant);
}

class ApiKeyFileTest : public ::testing::Test {
 protected:
  StatusOr<std::vector<ApiKey>> Read(const std::string& content) const {
    return ReadApiKeyFile(dir_.Write("keys", content));
  }
  std::string ErrorOf(const std::string& content) const { return Message(Read(content).status()); }

  const TestDir dir_;
};

TEST_F(ApiKeyFileTest, EachLineIsAKeyAndItsTenant) {
  const auto keys = Read("# ours\nk1\n\nk2 acme\r\n  k3\torg/team  \n");
  ASSERT_TRUE(keys.ok()) << keys.status();
  ASSERT_EQ(keys->size(), 3u);
  EXPECT_EQ(keys->at(0).key, "k1");
  EXPECT_EQ(keys->at(0).tenant, kDefaultTenant);
  EXPECT_EQ(keys->at(1).key, "k2");
  EXPECT_EQ(keys->at(1).tenant, "acme");
  EXPECT_EQ(keys->at(2).tenant, "org/team");
}

TEST_F(ApiKeyFileTest, ErrorsNameTheLineAndShowNoKey) {
  EXPECT_THAT(ErrorOf("k1\nsecret a,b\n"),
              AllOf(HasSubstr(":2: the tenant is no valid name"), Not(HasSubstr("secret"))));
  EXPECT_THAT(ErrorOf("secret a b"), HasSubstr(":1: expected a key and, after a space"));
  EXPECT_THAT(ErrorOf("k a\nk b"), HasSubstr(":2: this key was already given"));
  EXPECT_THAT(ErrorOf("\n# nothing\n"), HasSubstr("holds no key"));
}

}  // namespace
}  // namespace aril::gateway
