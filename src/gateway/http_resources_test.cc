// What clients that mean harm can take: time, memory, connections. The others are served meanwhile.

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/sanitizers.h"
#include "gateway/http_test_server.h"
#include "gateway/json_fields.h"
#include "gateway/test_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril::gateway {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// What a byte costs: the thread sanitizer keeps up to eight about each.
#if ARIL_TSAN
constexpr size_t kBytesPerByte = 9;
#else
constexpr size_t kBytesPerByte = 1;
#endif

void ExpectServed(RawClient& client) {
  ASSERT_TRUE(client.Send(kGet));
  EXPECT_THAT(client.ReadUntil("GET "), StartsWith("HTTP/1.1 200 OK\r\n"));
}

void ExpectServed(uint16_t port) {
  RawClient client(port);
  ExpectServed(client);
}

size_t ResidentBytes() {
  size_t total_pages = 0;
  size_t resident_pages = 0;
  std::ifstream("/proc/self/statm") >> total_pages >> resident_pages;
  return resident_pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

// How many connections this process can have with itself, at most `wanted`.
size_t MaxConnections(size_t wanted) {
  rlimit limit = {};
  EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  constexpr size_t kOtherFiles = 100;
  return limit.rlim_cur < kOtherFiles ? 0 : std::min(wanted, (limit.rlim_cur - kOtherFiles) / 2);
}

TEST(HttpResources, ServesOthersBesideHeadsThatNeverEnd) {
  RunningServer server({.header_timeout = std::chrono::milliseconds(200)}, Echo);
  std::vector<std::unique_ptr<RawClient>> slow;
  for (int i = 0; i < 200; ++i) {
    slow.push_back(std::make_unique<RawClient>(server->port()));
    ASSERT_TRUE(slow.back()->Send("POST / HTTP/1.1\r\nHost: x\r\nX-"));
  }
  ExpectServed(server->port());
  for (const auto& client : slow) {
    EXPECT_THAT(client->ReadAll(), StartsWith("HTTP/1.1 408 Request Timeout\r\n"));
  }
  ExpectServed(server->port());
}

// Each byte is in time for itself, but not the head.
TEST(HttpResources, TheTimeForAHeadIsNotProlongedByItsBytes) {
  RunningServer server({.request = {.max_header_bytes = 1 << 30},
                        .header_timeout = std::chrono::milliseconds(20),
                        .linger_timeout = std::chrono::milliseconds(20)},
                       Echo);
  RawClient client(server->port());
  ASSERT_TRUE(client.Send("GET / HTTP/1.1\r\nX: "));
  while (client.Send("y")) {
  }
}

TEST(HttpResources, HoldsTenThousandIdleConnections) {
  const size_t num_connections = MaxConnections(10'000);
  if (num_connections < 1000) GTEST_SKIP() << "the limit of open files allows " << num_connections;
  RunningServer server(
      {.max_connections = num_connections + 1, .idle_timeout = std::chrono::minutes(10)}, Echo);
  ExpectServed(server->port());
  const size_t before_bytes = ResidentBytes();
  std::vector<std::unique_ptr<RawClient>> idle;
  for (size_t i = 0; i < num_connections; ++i) {
    idle.push_back(std::make_unique<RawClient>(server->port()));
    ASSERT_TRUE(idle.back()->Send(kGet));
  }
  for (const auto& client : idle) {
    ASSERT_THAT(client->ReadUntil("GET "), StartsWith("HTTP/1.1 200 OK\r\n"));
  }
  // What one connection may hold while it sends a head, and what it reads with; idle ones need
  // less.
  constexpr size_t kReadBytes = 16 << 10;
  const size_t allowed_bytes =
      kBytesPerByte * num_connections * (HttpServerOptions().request.max_header_bytes + kReadBytes);
  EXPECT_LT(ResidentBytes() - before_bytes, allowed_bytes);
  ExpectServed(server->port());
  ExpectServed(*idle.front());
  ExpectServed(*idle.back());
}

TEST(HttpResources, StopsReadingAHeaderWithoutEnd) {
  RunningServer server({.linger_timeout = std::chrono::seconds(60)}, Echo);
  const std::string field = "X: " + std::string(100'000, 'y');
  RawClient waiting(server->port());
  ASSERT_TRUE(waiting.Send("GET / HTTP/1.1\r\n" + field));
  EXPECT_THAT(waiting.ReadAll(), StartsWith("HTTP/1.1 431 "));

  // One that does not even read the answer is cut off.
  constexpr size_t kOneGigabyte = 1'000'000'000;
  const size_t before_bytes = ResidentBytes();
  RawClient stubborn(server->port());
  size_t sent_bytes = 0;
  ASSERT_TRUE(stubborn.Send("GET / HTTP/1.1\r\n"));
  while (sent_bytes < kOneGigabyte && stubborn.Send(field)) sent_bytes += field.size();
  EXPECT_LT(sent_bytes, kOneGigabyte / 4);
  EXPECT_LT(ResidentBytes(), before_bytes + kBytesPerByte * (16 << 20));
  ExpectServed(server->port());
}

TEST(HttpResources, RefusesDeepJson) {
  RunningServer server({}, [](HttpRequest request, auto responder) {
    const auto parsed = ParseBody(request.body, 1 << 20);
    responder->Respond(parsed.ok() ? HttpResponse{.headers = {}, .body = "{}"}
                                   : ErrorResponse(parsed.error()));
  });
  RawClient client(server->port());
  for (const std::string& body : {std::string(60'000, '['), "{\"a\":" + std::string(60'000, '['),
                                  std::string(60'000, '[') + std::string(60'000, ']')}) {
    ASSERT_TRUE(client.Send(PostText("/", body)));
    const std::string answer = client.ReadUntil("}}");
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 400 "));
    EXPECT_THAT(answer, HasSubstr("deeper than 64"));
  }
}

}  // namespace
}  // namespace aril::gateway
