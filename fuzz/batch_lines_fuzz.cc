// BatchReader, and what reads an output again, on any bytes: each line is a request or says what is
// wrong, and what is written of it is read as it was meant.

#include <algorithm>
#include <sstream>
#include <string>
#include <string_view>

#include "apps/batch_lines.h"
#include "base/check.h"
#include "base/json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  aril::ReadOutcome(text);
  aril::NumGeneratedTokens(text);
  constexpr size_t kMaxLineBytes = 200;
  std::istringstream in(text);
  aril::BatchReader reader(in, kMaxLineBytes);
  int64_t last_line = 0;
  while (const auto request = reader.Next()) {
    CHECK(request->line > last_line);
    last_line = request->line;
    const bool is_request = request->error.empty();
    if (is_request) {
      CHECK(!request->custom_id.empty() && request->path.starts_with("/v1/"));
      CHECK(aril::Json::Parse(request->body).ok());
    }
    const std::string line = is_request ? aril::AnswerLine(*request, "i", 200, request->body)
                                        : aril::ErrorLine(*request, "i");
    CHECK_EQ(std::ranges::count(line, '\n'), 1);
    const auto outcome = aril::ReadOutcome(line);
    CHECK(outcome.has_value() && outcome->is_answered == is_request);
    CHECK(outcome->custom_id == request->custom_id);
  }
  return 0;
}
