// Whatever bytes a tokenizer.model has, as sentencepiece's or as tiktoken's: they are refused with
// a message, or they make a tokenizer whose ids are within its vocabulary.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/utf8.h"
#include "tokenizer/sentencepiece_model.h"
#include "tokenizer/tiktoken.h"

namespace {

void Use(const aril::StatusOr<std::unique_ptr<aril::Tokenizer>>& tokenizer,
         std::string_view sample) {
  if (!tokenizer.ok()) {
    CHECK(!tokenizer.status().message().empty());
    return;
  }
  const auto ids = (*tokenizer)->Encode(sample, {});
  for (const int32_t id : ids) CHECK(id >= 0 && id < (*tokenizer)->vocab_size());
  CHECK(aril::IsValidUtf8((*tokenizer)->Decode(ids, false)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  const std::string_view sample = file.substr(0, 2000);
  aril::TokenizerConfig config;
  config.added_tokens = {{.content = "<s>", .id = 1 << 19, .special = true}};
  Use(aril::ParseSentencePieceModel(file, "tokenizer.model", config), sample);
  Use(aril::ParseTiktoken(file, "tokenizer.model", config), sample);
  return 0;
}
