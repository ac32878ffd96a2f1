// Multipart bodies on any bytes: however they are cut, the parts are the same. The first byte says
// how; the rest is the body, and what a Content-Type says.

#include <algorithm>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/strings.h"
#include "gateway/multipart_parser.h"

namespace {

using aril::Status;

class Transcript final : public aril::gateway::MultipartSink {
 public:
  Status OnPart(const std::string& name, const std::optional<std::string>& filename) override {
    CHECK(!in_part_);
    in_part_ = true;
    text += aril::StrCat("[", name, "|", filename.value_or(""), "]");
    return aril::OkStatus();
  }
  Status OnData(std::string_view bytes) override {
    CHECK(in_part_);
    CHECK(!bytes.empty());
    text += bytes;
    return aril::OkStatus();
  }
  Status OnPartEnd() override {
    CHECK(in_part_);
    in_part_ = false;
    text += "[end]";
    return aril::OkStatus();
  }
  std::string text;

 private:
  bool in_part_ = false;
};

struct Outcome {
  bool ok = false;
  std::string text;
};
Outcome Parse(std::string_view body, size_t piece_bytes) {
  Transcript transcript;
  aril::gateway::MultipartParser parser("b", transcript);
  bool ok = true;
  for (size_t at = 0; at < body.size() && ok; at += piece_bytes) {
    ok = parser.Append(body.substr(at, piece_bytes)).ok();
  }
  ok = ok && parser.Finish().ok();
  return {ok, transcript.text};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Outcome whole = Parse(body, std::max<size_t>(body.size(), 1));
  const Outcome cut = Parse(body, size_t{1} + data[0] % 64);
  CHECK_EQ(whole.ok, cut.ok);
  if (whole.ok) CHECK(whole.text == cut.text);
  const auto boundary = aril::gateway::FindMultipartBoundary(body);
  if (boundary.ok() && boundary->has_value()) {
    CHECK(!(*boundary)->empty() && (*boundary)->size() <= 70);
  }
  return 0;
}
