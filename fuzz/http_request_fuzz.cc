// RequestParser on any bytes: how they are cut makes no difference, and no limit is passed.

#include <string>
#include <string_view>

#include "base/check.h"
#include "base/strings.h"
#include "gateway/http_parser.h"

namespace {

using aril::StrCat;
using aril::gateway::RequestLimits;
using aril::gateway::RequestParser;

constexpr RequestLimits kLimits = {.max_header_bytes = 500, .max_body_bytes = 100};

void CheckRequest(const RequestParser& parser) {
  const auto& request = parser.request();
  CHECK(!request.method.empty());
  CHECK(request.path == "*" || request.path.front() == '/');
  CHECK_LE(request.body.size(), kLimits.max_body_bytes);
  size_t header_bytes = 0;
  for (const auto& [name, value] : request.headers) header_bytes += name.size() + value.size();
  CHECK_LE(header_bytes, kLimits.max_header_bytes);
}

// What became of `text`, given `piece_bytes` at a time, and how much of it was left.
std::string Outcome(std::string_view text, size_t piece_bytes) {
  RequestParser parser(kLimits);
  std::string input;
  for (size_t i = 0; i < text.size(); i += piece_bytes) {
    input += text.substr(i, piece_bytes);
    if (const auto error = parser.Parse(&input)) return StrCat(error->status, error->message);
    if (parser.done()) {
      CheckRequest(parser);
      const size_t num_left = input.size() + text.size() - std::min(text.size(), i + piece_bytes);
      return StrCat("done ", parser.request().body, " ", num_left);
    }
    CHECK_LT(input.size(), kLimits.max_header_bytes);
  }
  return StrCat("waits ", parser.head_done());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string whole = Outcome(text, size);
  CHECK_EQ(Outcome(text, 1), whole);
  CHECK_EQ(Outcome(text, 7), whole);
  return 0;
}
