// Any bytes as a text: every byte of what is valid comes back, whole or token by token.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/utf8.h"
#include "tokenizer/tokenizer_json.h"

namespace {

// Llama 3's regex over the 256 bytes and a few merges, with an added token.
std::unique_ptr<aril::Tokenizer> MakeTokenizer() {
  static constexpr std::string_view kJson = R"({
    "added_tokens": [{"id": 300, "content": "<|x|>", "special": false, "normalized": false}],
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
      {"type": "Split", "behavior": "Isolated", "pattern": {"Regex":
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
      {"type": "Metaspace", "replacement": "_", "prepend_scheme": "never"}]},
    "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]},
    "model": {"type": "BPE", "byte_fallback": true, "merges": ["a b", "ab c", "_ _", "__ __"],
      "vocab": {"a": 256, "b": 257, "ab": 258, "c": 259, "abc": 260, "_": 261, "__": 262,
                "____": 263, )";
  std::string json(kJson);
  for (int byte = 0; byte < 256; ++byte) {
    char entry[24];
    std::snprintf(entry, sizeof(entry), "%s\"<0x%02X>\": %d", byte > 0 ? "," : "", byte, byte);
    json += entry;
  }
  auto tokenizer = aril::ParseTokenizerJson(json + "}}}", "tokenizer.json", {});
  CHECK(tokenizer.ok());
  return *std::move(tokenizer);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::unique_ptr<aril::Tokenizer> tokenizer = MakeTokenizer();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto ids = tokenizer->Encode(text, {});
  std::string expected = aril::ReplaceInvalidBytes(text);
  for (char& c : expected) c = c == ' ' ? '_' : c;
  CHECK(tokenizer->Decode(ids, false) == expected);
  aril::IncrementalDetokenizer detokenizer(*tokenizer, false, true);
  for (const int32_t id : ids) CHECK(aril::IsValidUtf8(detokenizer.Append(id)));
  return 0;
}
