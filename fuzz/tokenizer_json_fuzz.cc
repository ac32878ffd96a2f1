// Whatever a tokenizer.json says: it is refused with a message, or it encodes and decodes.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/utf8.h"
#include "tokenizer/tokenizer_json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using aril::Tokenizer;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto tokenizer = aril::ParseTokenizerJson(text, "tokenizer.json", {});
  if (!tokenizer.ok()) {
    CHECK(!tokenizer.status().message().empty());
    return 0;
  }
  const std::string_view sample = text.substr(0, 2000);
  for (const bool parse_special : {false, true}) {
    const auto ids = (*tokenizer)->Encode(sample, {.parse_special_tokens = parse_special});
    CHECK(aril::IsValidUtf8((*tokenizer)->Decode(ids, parse_special)));
  }
  return 0;
}
