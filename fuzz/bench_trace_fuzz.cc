// ParseTrace on any bytes; servegen's lengths are what follows the first byte 0. What it accepts
// must be in order and within its bounds.

#include <string_view>

#include "apps/bench_lengths.h"
#include "apps/bench_trace.h"
#include "base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr int64_t kMaxRequests = 1000;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t end = text.find('\0');
  const std::string_view lengths = end == std::string_view::npos ? "" : text.substr(end + 1);
  const auto trace = aril::ParseTrace(text.substr(0, end), lengths, {.max_requests = kMaxRequests});
  if (!trace.ok()) return 0;
  CHECK(!trace->requests.empty());
  CHECK(trace->requests.size() <= kMaxRequests);
  CHECK_EQ(trace->requests.front().arrival.count(), 0);
  aril::Duration last{};
  for (const aril::TraceRequest& request : trace->requests) {
    CHECK(request.arrival >= last);
    last = request.arrival;
    CHECK_GE(request.adapter, -1);
    CHECK_LT(request.adapter, kMaxRequests);
    for (const int64_t tokens : {request.prompt_tokens, request.output_tokens}) {
      CHECK_GE(tokens, 1);
      CHECK(tokens <= aril::kMaxRequestTokens);
    }
  }
  return 0;
}
