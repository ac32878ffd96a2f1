// Names that adapters must not get, over HTTP, and names that only look as if they meant something.

#include <algorithm>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/hostile_inputs.h"
#include "base/log.h"
#include "base/strings.h"
#include "gateway/adapter_loader.h"
#include "gateway/gateway_test_fixture.h"
#include "gateway/text.h"
#include "gmock/gmock.h"

namespace aril::gateway {
namespace {

using ::testing::AnyOf;
using ::testing::Each;

constexpr char kSource[] = "/lora/sql";

// Everything is a good adapter.
class RecordingLoader final : public AdapterLoader {
 public:
  StatusOr<std::shared_ptr<const Generation>> Load(const std::string& source) override {
    ASSIGN_OR_RETURN(Generation::Description description, Verify(source));
    description.adapter = AdapterId(10);
    return std::make_shared<const Generation>(description);
  }
  StatusOr<Generation::Description> Verify(const std::string& source) override {
    const std::lock_guard lock(mutex_);
    asked_for_.push_back(source);
    return Generation::Description{.digest = "digest", .rank = 8, .bytes = 4096};
  }
  StatusOr<std::shared_ptr<const Generation>> Recall(const std::string& digest) override {
    return Load(digest);
  }
  std::vector<std::string> asked_for() {
    const std::lock_guard lock(mutex_);
    return asked_for_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> asked_for_;
};

// The rule of IsValidName (catalog/catalog.h), said once more.
bool IsName(std::string_view text) {
  constexpr std::string_view kFirst =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  const std::string characters = std::string(kFirst) + "._/:@-";
  return !text.empty() && text.size() <= 128 && kFirst.find(text[0]) != std::string_view::npos &&
         text.find_first_not_of(characters) == std::string_view::npos;
}

std::vector<std::string> Corpus(bool names) {
  std::set<std::string> corpus;
  for (const auto& inputs : {HostileTraversals(1, "poet"), HostileTraversals(3, "etc/passwd"),
                             HostileUrls(), HostileStrings()}) {
    for (const std::string& input : inputs) {
      corpus.insert(input);
      corpus.insert("a/" + input);
    }
  }
  for (const char* word : {"CON", "nul", "aux.txt", "COM1:", "a/../poet", "C:/Windows/win.ini",
                           "x--", "0x7f000001", "a//b", "a/./b", "a/.", "a..", "poet/", "poet."}) {
    corpus.insert(word);
  }
  std::erase_if(corpus, [&](const std::string& input) { return IsName(input) != names; });
  return {corpus.begin(), corpus.end()};
}

// Every byte as %XX, so that it arrives.
std::string PercentEncode(std::string_view text) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const unsigned char c : text) out += {'%', kDigits[c / 16], kDigits[c % 16]};
  return out;
}

class HostileNamesTest : public GatewayTest {
 protected:
  HostileNamesTest() { loader_ = &recording_; }

  HttpResponse Put(const std::string& path) {
    return Send("PUT", "/v1/adapters/" + path, StrCat(R"({"source":")", kSource, R"("})"));
  }
  HttpResponse Load(const std::string& json_name) {
    return Send("POST", "/v1/load_lora_adapter",
                StrCat(R"({"lora_name":)", json_name, R"(,"lora_path":")", kSource, R"("})"));
  }
  static void ExpectRefused(const HttpResponse& response, const std::string& what) {
    EXPECT_THAT(response.status, AnyOf(400, 404, 405, 409)) << JsonQuote(what) << response.body;
    const auto json = Json::Parse(response.body);
    ASSERT_TRUE(json.ok()) << JsonQuote(what) << response.body;
    EXPECT_NE(At(*json, {"error", "message"}).AsString(), nullptr) << response.body;
  }

  RecordingLoader recording_;
};

TEST_F(HostileNamesTest, WhatIsNoNameIsRefused) {
  Start();
  const std::string before = Send("GET", "/v1/adapters").body;
  const std::vector<std::string> corpus = Corpus(/*names=*/false);
  EXPECT_GE(corpus.size(), 300u);
  for (const std::string& name : corpus) {
    ExpectRefused(Put(PercentEncode(name)), name);
    ExpectRefused(Load(JsonQuote(name)), name);
    ExpectRefused(Send("DELETE", "/v1/adapters/" + PercentEncode(name)), name);
  }
  EXPECT_EQ(Send("GET", "/v1/adapters").body, before);
  EXPECT_TRUE(recording_.asked_for().empty());
}

// As it would be if no client or proxy encoded anything: some of it is not even HTTP or JSON.
TEST_F(HostileNamesTest, WhatIsNoNameIsRefusedAsItIs) {
  Start();
  const std::string before = Send("GET", "/v1/adapters").body;
  for (const std::string& name : Corpus(/*names=*/false)) {
    const bool breaks_json = name.find_first_of("\"\\") != std::string::npos;
    if (!breaks_json) ExpectRefused(Load("\"" + name + "\""), name);
    const bool ends_path = name.find_first_of("?# \r\n") != std::string::npos;
    const bool decodes_to_name = IsName(PercentDecode(name).value_or(""));
    if (!ends_path && !decodes_to_name) ExpectRefused(Put(name), name);
  }
  EXPECT_EQ(Send("GET", "/v1/adapters").body, before);
  EXPECT_TRUE(recording_.asked_for().empty());
}

// Nothing is normalized, folded, decoded twice, opened or fetched.
TEST_F(HostileNamesTest, WhatIsANameIsNothingElse) {
  Start();
  const std::string before = Send("GET", "/v1/adapters").body;
  const std::vector<std::string> names = Corpus(/*names=*/true);
  EXPECT_GE(names.size(), 50u);
  SetLogLevel(LogLevel::kWarning);  // they are many
  for (const std::string& name : names) {
    const std::string path = "/v1/adapters/" + PercentEncode(name);
    EXPECT_EQ(Put(PercentEncode(name)).status, 201) << name << " is new";
    EXPECT_EQ(Text(Ask("GET", path), {"id"}), JsonQuote(name));
    EXPECT_EQ(Send("DELETE", path).status, 200) << name;
    EXPECT_EQ(Load(JsonQuote(name)).status, 200) << name;
  }
  EXPECT_EQ(At(Ask("GET", "/v1/adapters"), {"data"}).AsArray()->size(), names.size() + 2);
  for (const std::string& name : names) {
    EXPECT_EQ(Send("DELETE", "/v1/adapters/" + PercentEncode(name)).status, 200) << name;
  }
  EXPECT_EQ(Send("GET", "/v1/adapters").body, before);
  SetLogLevel(LogLevel::kInfo);
  EXPECT_THAT(recording_.asked_for(), Each(kSource)) << "a name is never read from";
}

TEST_F(HostileNamesTest, ASourceIsOneLineOfTheLog) {
  Start();
  testing::internal::CaptureStderr();
  const HttpResponse put =
      Send("PUT", "/v1/adapters/sql", R"({"source":"/v1\n00:00:00.000 I adapter x is unloaded"})");
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(put.status, 201) << put.body;
  EXPECT_EQ(std::ranges::count(log, '\n'), 1) << log;
}

}  // namespace
}  // namespace aril::gateway
