// A test fixture: a gateway whose adapters can be changed, by a loader that reads nothing.

#ifndef ARIL_GATEWAY_ADAPTERS_API_TEST_FIXTURE_H_
#define ARIL_GATEWAY_ADAPTERS_API_TEST_FIXTURE_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gateway/adapter_loader.h"
#include "gateway/gateway_test_fixture.h"
#include "gmock/gmock.h"

namespace aril::gateway {

// Loads every source but "/bad" and "/none", as adapters 10, 11, …; a source's generation is
// "digest of " it. All but "/broken" can be used.
class FakeLoader final : public AdapterLoader {
 public:
  StatusOr<std::shared_ptr<const Generation>> Load(const std::string& source) override {
    ASSIGN_OR_RETURN(Generation::Description description, Verify(source));
    description.adapter = AdapterId(10 + num_loads_++);
    return std::make_shared<const Generation>(
        description,
        Generation::Hooks{
            .prepare = [this, source] { return Prepare(source); },
            .find_prepared =
                [this, source] {
                  return source == "/slow" || source == "/broken" ? nullptr : Hold();
                },
            .release = [this] { ++num_released_; },
            .residence = [] { return Generation::Residence::kHost; },
            .pin = [this, source](const std::string& tenant) { return Pin(source, tenant); }});
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
  // The files of "/slow" are open after `then`, and closed again at once.
  void OpenSlowlyUntil(std::function<void()> then) { until_open_ = std::move(then); }
  // Of everything but "/large".
  StatusOr<std::shared_ptr<const void>> Pin(const std::string& source, const std::string& tenant) {
    last_pinned_by_ = tenant;
    if (source == "/large") return FailedPrecondition("12 pages would be left");
    ++num_pins_;
    return std::shared_ptr<const void>(this, [this](const void*) { --num_pins_; });
  }
  int num_pins() const { return num_pins_; }
  int num_held() const { return num_held_; }  // for requests: their files must stay open
  std::string last_pinned_by() const { return last_pinned_by_; }
  int num_loads() const { return num_loads_; }
  int num_released() const { return num_released_; }

 private:
  StatusOr<Generation::Opened> Prepare(const std::string& source) {
    if (source == "/slow" && until_open_) until_open_();
    if (source == "/broken") return NotFound("/state/adapters/1: no such file");
    return Hold();
  }
  Generation::Opened Hold() {
    ++num_held_;
    return Generation::Opened(this, [this](const void*) { --num_held_; });
  }

  std::function<void()> until_open_;  // set before the requests come
  std::atomic<int> num_loads_ = 0;
  std::atomic<int> num_released_ = 0;
  std::atomic<int> num_pins_ = 0;
  std::atomic<int> num_held_ = 0;
  std::string last_pinned_by_;  // by one change at a time
};

// {"message", "param"} of an error.
inline std::pair<std::string, std::string> ErrorOf(const HttpResponse& response) {
  const auto json = Json::Parse(response.body);
  EXPECT_TRUE(json.ok()) << response.body;
  const Json& param = At(*json, {"error", "param"});
  return {*At(*json, {"error", "message"}).AsString(),
          param.AsString() != nullptr ? *param.AsString() : ""};
}

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

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_ADAPTERS_API_TEST_FIXTURE_H_
