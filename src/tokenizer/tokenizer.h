// Text to token ids and back, as the model's own tokenizer files say.

#ifndef ARIL_TOKENIZER_TOKENIZER_H_
#define ARIL_TOKENIZER_TOKENIZER_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace aril {

// Immutable once loaded; all methods are thread-safe.
class Tokenizer {
 public:
  struct EncodeOptions {
    // Add what the tokenizer adds by default around a text (BOS for Llama, nothing for Qwen).
    bool add_special_tokens = true;
    // Recognize added tokens written out in the text ("<|im_end|>", "<tool_call>"). Off for plain
    // text of users.
    bool parse_special_tokens = true;
  };

  virtual ~Tokenizer() = default;

  virtual std::vector<int32_t> Encode(std::string_view text,
                                      const EncodeOptions& options) const = 0;

  // The bytes that a token adds to the text; empty for special tokens when they are skipped. The
  // first token of a text may drop a leading space (`is_first`). Ids outside the vocabulary give
  // "".
  virtual std::string TokenBytes(int32_t id, bool is_first, bool skip_special_tokens) const = 0;

  // One more than the largest id that can be produced. May be smaller than the model's vocab_size.
  virtual int64_t vocab_size() const = 0;

  virtual bool IsSpecial(int32_t id) const = 0;
  virtual std::optional<int32_t> bos_token_id() const = 0;
  virtual std::optional<int32_t> eos_token_id() const = 0;

  // The whole text of `ids`; bytes that are no valid UTF-8 become U+FFFD.
  std::string Decode(std::span<const int32_t> ids, bool skip_special_tokens) const;
};

// Turns a stream of token ids into a stream of valid UTF-8: what Append returns never ends inside a
// code point. Not thread-safe; the tokenizer must outlive it.
class IncrementalDetokenizer {
 public:
  // `starts_text`: the first token appended is the first of a text (as opposed to continuing a
  // prompt).
  IncrementalDetokenizer(const Tokenizer& tokenizer, bool skip_special_tokens, bool starts_text);

  // The text that became complete with this token; may be empty.
  std::string Append(int32_t id);
  // The bytes held back, as U+FFFD where they are no valid UTF-8. Call once, at the end.
  std::string Flush();

 private:
  const Tokenizer& tokenizer_;
  const bool skip_special_tokens_;
  bool is_first_;
  std::string pending_;
};

}  // namespace aril

#endif  // ARIL_TOKENIZER_TOKENIZER_H_
