// Whatever an adapter's tokenizer_config.json says, or what gateways tell each other of it: it is
// refused with a message, or text is read and written with it.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/check.h"
#include "base/json.h"
#include "base/utf8.h"
#include "tokenizer/tokenizer_changes.h"
#include "tokenizer/tokenizer_json.h"

namespace {

using aril::Json;
using aril::PipelineTokenizer;
using aril::StatusOr;
using aril::TokenizerChanges;

// Tokens for "a" to "c" and "ab", and an added one.
const PipelineTokenizer& Base() {
  static const PipelineTokenizer* const base = [] {
    auto tokenizer = aril::ParseTokenizerJson(
        R"({"added_tokens": [{"id": 0, "content": "<s>", "special": true}],
            "model": {"type": "BPE", "vocab": {"<s>": 0, "a": 1, "b": 2, "c": 3, "ab": 4},
                      "merges": ["a b"]}})",
        "base", {});
    CHECK(tokenizer.ok());
    return tokenizer->release();
  }();
  return *base;
}

void Check(const StatusOr<TokenizerChanges>& changes, std::string_view text) {
  if (!changes.ok()) {
    CHECK(!changes.status().message().empty());
    return;
  }
  const auto tokenizer = aril::WithChanges(Base(), *changes);
  for (const bool parse_special : {false, true}) {
    const auto ids = tokenizer->Encode(text, {.parse_special_tokens = parse_special});
    CHECK(aril::IsValidUtf8(tokenizer->Decode(ids, parse_special)));
  }
  const auto told = aril::ReadTokenizerChanges(aril::ToJson(*changes), "told");
  CHECK(told.ok() && *told == *changes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto json = Json::Parse(text);
  if (!json.ok()) return 0;
  const std::string_view sample = text.substr(0, 2000);
  Check(aril::ReadTokenizerChanges(*json, "changes"), sample);
  const auto config = aril::ReadTokenizerConfig(*json, "tokenizer_config.json");
  if (config.ok()) Check(aril::ChangesBy(*config, Base()), sample);
  Check(aril::ChangesBy({}, *json, "tokenizer.json", Base()), sample);
  return 0;
}
