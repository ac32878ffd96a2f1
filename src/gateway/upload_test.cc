// Adapters that clients send.

#include "gateway/upload.h"

#include <set>
#include <string>

#include "base/hostile_inputs.h"
#include "base/strings.h"
#include "gateway/remote_adapters_test_fixture.h"
#include "gmock/gmock.h"

namespace aril::gateway {
namespace {

using ::testing::HasSubstr;

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
  EXPECT_EQ(Upload(kGoodForm, "new?pin=true").status, 400) << "no parameter of an upload";
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

TEST_F(UploadTest, OneTenantDoesNotTakeAllPlaces) {
  GatewayOptions options;
  options.api_keys = ApiKeys(
      std::vector<ApiKey>{{.key = "k", .tenant = "acme"}, {.key = "other", .tenant = "zen"}});
  StartWithTimers(std::move(options));
  const std::string head = StrCat(
      "PUT /v1/adapters/sql HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer k\r\nContent-Length: "
      "400000"
      "\r\nExpect: 100-continue\r\nContent-Type: ",
      kForm, "\r\n\r\n");
  std::vector<std::unique_ptr<RawClient>> clients;
  std::string answer;
  do {  // until there is no place left
    clients.push_back(std::make_unique<RawClient>(server_->port()));
    ASSERT_TRUE(clients.back()->Send(head));
    answer = clients.back()->ReadUntil("\r\n\r\n");
  } while (answer.starts_with("HTTP/1.1 100") && clients.size() < 100);
  EXPECT_THAT(answer, HasSubstr("HTTP/1.1 503"));
  EXPECT_EQ(clients.size(), 5u);
  const HttpHeaders headers = {{"Content-Type", kForm}, {"Authorization", "Bearer other"}};
  EXPECT_EQ(Send("PUT", "/v1/adapters/mine", kGoodForm, headers).status, 201);
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
