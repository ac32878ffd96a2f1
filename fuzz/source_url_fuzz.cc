// Sources of adapters on any bytes: what is accepted is of plain parts, and whatever servers
// answer, nobody is asked who is not allowed. The first line is the source, the second where it is
// redirected to, the third what a range is answered with, the rest a body.

#include <algorithm>
#include <cctype>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/test_dir.h"
#include "sources/adapter_fetcher.h"
#include "sources/source_url.h"
#include "sources/test_support.h"

namespace {

using aril::HttpGet;

std::string TakeLine(std::string_view* text) {
  const size_t end = std::min(text->find('\n'), text->size());
  std::string line(text->substr(0, end));
  text->remove_prefix(std::min(end + 1, text->size()));
  return line;
}

aril::SourcePolicy Policy() {
  aril::SourcePolicy policy;
  policy.https_origins = {*aril::ParseOrigin("https://a.example", false)};
  policy.s3 = aril::S3Store{.endpoint = *aril::ParseOrigin("http://s3.example", true),
                            .buckets = {"bucket"}};
  policy.hub = aril::Hub{.endpoint = *aril::ParseOrigin("https://hub.example", false),
                         .token = "secret",
                         .redirect_origins = {*aril::ParseOrigin("https://cdn.example", false)}};
  return policy;
}

bool IsAllowed(std::string url) {
  // Hosts are compared without case (RFC 3986, section 3.2.2).
  std::ranges::transform(url, url.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const char* origin : {"https://a.example", "http://s3.example/bucket", "https://hub.example",
                             "https://cdn.example"}) {
    const std::string text = origin;
    if (!url.starts_with(text)) continue;
    const char next = url.size() > text.size() ? url[text.size()] : '/';
    if (next == '/' || next == '?' || next == ':') return true;
  }
  return false;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  const std::string source = TakeLine(&rest);
  const std::string location = TakeLine(&rest);
  const std::string range = TakeLine(&rest);
  const auto parsed = aril::ParseSourceUrl(source);
  if (parsed.ok()) {
    CHECK(aril::IsSourceUrl(source));
    CHECK((parsed->path + "/").find("/../") == std::string::npos);
    CHECK(parsed->path.find_first_of("%?#@\\ :") == std::string::npos);
  }
  std::vector<HttpGet> asked;
  int num_answers = 0;
  const aril::ManualClock clock;
  const aril::AdapterFetcher fetcher(Policy(), clock, [&](const aril::SourcePolicy&) {
    return std::make_unique<aril::FakeTransport>(
        [&](const HttpGet& get) -> aril::FakeReply {
          CHECK(IsAllowed(get.url));
          const bool is_first = num_answers++ == 0;
          if (is_first && !location.empty()) {
            return {.head = {.status = 302, .location = location}};
          }
          if (!range.empty() && num_answers % 2 == 0) {
            return {.head = {.status = 206, .content_range = range}, .body = std::string(rest)};
          }
          return {.head = {.status = 200, .etag = "\"v\""},
                  .body = std::string(rest),
                  .end = range.empty() ? aril::OkStatus() : aril::Unavailable("broken")};
        },
        &asked);
  });
  const std::vector<aril::WantedFile> wanted = {{"adapter_config.json", true, 64}};
  const aril::TestDir dir;
  aril::FakeMonitor monitor;
  fetcher.Fetch(source, wanted, dir.path(), monitor).IgnoreError();
  for (const HttpGet& get : asked) {
    if (!get.url.starts_with("https://cdn.example")) continue;
    for (const std::string& header : get.headers) CHECK(!header.starts_with("Authorization"));
  }
  return 0;
}
