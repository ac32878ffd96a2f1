#include "tokenizer/tokenizer.h"

#include "base/utf8.h"

namespace aril {

std::string Tokenizer::Decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  IncrementalDetokenizer detokenizer(*this, skip_special_tokens, /*starts_text=*/true);
  std::string text;
  for (const int32_t id : ids) text += detokenizer.Append(id);
  return text + detokenizer.Flush();
}

IncrementalDetokenizer::IncrementalDetokenizer(const Tokenizer& tokenizer, bool skip_special_tokens,
                                               bool starts_text)
    : tokenizer_(tokenizer), skip_special_tokens_(skip_special_tokens), is_first_(starts_text) {}

std::string IncrementalDetokenizer::Append(int32_t id) {
  pending_ += tokenizer_.TokenBytes(id, is_first_, skip_special_tokens_);
  // A skipped token is not there at all: the next one is still the first.
  if (!(skip_special_tokens_ && tokenizer_.IsSpecial(id))) is_first_ = false;
  const size_t complete = pending_.size() - TruncatedTailBytes(pending_);
  std::string text = LossyUtf8(std::string_view(pending_).substr(0, complete));
  pending_.erase(0, complete);
  return text;
}

std::string IncrementalDetokenizer::Flush() {
  std::string text = LossyUtf8(pending_);
  pending_.clear();
  return text;
}

}  // namespace aril
