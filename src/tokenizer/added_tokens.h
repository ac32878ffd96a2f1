// Added tokens: words that are found in a text before anything else looks at it.

#ifndef ARIL_TOKENIZER_ADDED_TOKENS_H_
#define ARIL_TOKENIZER_ADDED_TOKENS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/status.h"
#include "tokenizer/json_fields.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/prefix_matcher.h"

namespace aril {

struct AddedToken {
  std::string content;
  int32_t id = -1;
  bool special = false;      // control, not text: may be skipped on output
  bool normalized = false;   // looked for in the normalized text, not in the raw one
  bool single_word = false;  // not inside of a word
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;       // takes the white space after it along

  friend bool operator==(const AddedToken&, const AddedToken&) = default;
};

// The flags and the content of an AddedToken object of tokenizer.json or added_tokens_decoder; its
// id is the caller's to set. `normalized` defaults to "not special", as in the reference.
StatusOr<AddedToken> ReadAddedToken(const JsonFields& fields);

// "added_tokens" of a tokenizer.json: [{"id": 0, "content": "<unk>", "special": true, …}, …].
StatusOr<std::vector<AddedToken>> ReadAddedTokens(const JsonFields& fields);

// An id that a vocabulary may have; `where` it stands, for errors.
StatusOr<int32_t> ReadTokenId(const Json& json, const std::string& where);

// Immutable and thread-safe.
class AddedTokens {
 public:
  // What a text consists of: added tokens and text between them.
  struct Part {
    int32_t id;  // -1: text
    size_t begin;
    size_t end;
  };

  // Ids are within the vocabulary; contents differ. The normalizer is applied to the contents of
  // normalized tokens.
  AddedTokens(std::vector<AddedToken> tokens, const Normalizer& normalizer);

  std::vector<AddedToken> tokens() const;

  bool IsSpecial(int32_t id) const { return special_ids_.contains(id); }

  // What the decoder sees in place of a normalized token's content, nullptr if just that: it is the
  // content as normalized, as in the reference.
  const std::string* NormalizedSpelling(int32_t id) const {
    const auto entry = spellings_.find(id);
    return entry == spellings_.end() ? nullptr : &entry->second;
  }

  // The leftmost longest tokens in a raw text, or in a normalized one (each looks for its own
  // half). Parts of text are not empty. Without `parse_special` only tokens of white space alone
  // are found: those (GPT-NeoX's indentation) are text, whereas not only special tokens have a
  // meaning that a user's text must not forge ("<tool_call>").
  std::vector<Part> FindRaw(std::string_view text, bool parse_special) const {
    return Find(raw_, text, parse_special);
  }
  std::vector<Part> FindNormalized(std::string_view text, bool parse_special) const {
    return Find(normalized_, text, parse_special);
  }

 private:
  std::vector<Part> Find(const PrefixMatcher& matcher, std::string_view text,
                         bool parse_special) const;
  struct Entry {
    AddedToken token;
    bool is_text;  // white space alone
  };

  std::vector<Entry> entries_;
  std::unordered_set<int32_t> special_ids_;
  std::unordered_map<int32_t, std::string> spellings_;
  PrefixMatcher raw_;  // values are indices of entries_
  PrefixMatcher normalized_;
};

}  // namespace aril

#endif  // ARIL_TOKENIZER_ADDED_TOKENS_H_
