#include "tokenizer/added_tokens.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "base/utf8.h"
#include "tokenizer/unicode.h"
#include "tokenizer/vocabulary.h"

namespace aril {
namespace {

// The begin of the code point that ends at `end` > 0 of valid UTF-8.
size_t PreviousCodePoint(std::string_view text, size_t end) {
  do {
    --end;
  } while ((text[end] & 0xC0) == 0x80);
  return end;
}

size_t SkipSpaceBefore(std::string_view text, size_t end, size_t limit) {
  while (end > limit) {
    const size_t begin = PreviousCodePoint(text, end);
    if (!IsWhitespace(ReadUtf8(text, begin).code_point)) break;
    end = begin;
  }
  return end;
}

size_t SkipSpaceAfter(std::string_view text, size_t begin) {
  while (begin < text.size()) {
    size_t end = begin;
    if (!IsWhitespace(NextCodePoint(text, &end))) break;
    begin = end;
  }
  return begin;
}

bool TouchesWord(std::string_view text, size_t begin, size_t end) {
  const bool before =
      begin > 0 && IsWordCharacter(ReadUtf8(text, PreviousCodePoint(text, begin)).code_point);
  return before || (end < text.size() && IsWordCharacter(ReadUtf8(text, end).code_point));
}

}  // namespace

StatusOr<AddedToken> ReadAddedToken(const JsonFields& fields) {
  AddedToken token;
  ASSIGN_OR_RETURN(token.content, fields.String("content"));
  ASSIGN_OR_RETURN(token.special, fields.Bool("special", false));
  ASSIGN_OR_RETURN(token.normalized, fields.Bool("normalized", !token.special));
  ASSIGN_OR_RETURN(token.single_word, fields.Bool("single_word", false));
  ASSIGN_OR_RETURN(token.lstrip, fields.Bool("lstrip", false));
  ASSIGN_OR_RETURN(token.rstrip, fields.Bool("rstrip", false));
  return token;
}

StatusOr<std::vector<AddedToken>> ReadAddedTokens(const JsonFields& fields) {
  constexpr std::string_view kKey = "added_tokens";
  std::vector<AddedToken> tokens;
  if (!fields.Has(kKey)) return tokens;
  ASSIGN_OR_RETURN(const Json::Array* list, fields.Array(kKey));
  for (size_t i = 0; i < list->size(); ++i) {
    ASSIGN_OR_RETURN(const JsonFields entry,
                     JsonFields::Of((*list)[i], ElementPath(fields.PathOf(kKey), i)));
    ASSIGN_OR_RETURN(AddedToken token, ReadAddedToken(entry));
    ASSIGN_OR_RETURN(const int64_t id, entry.Int("id"));
    ASSIGN_OR_RETURN(token.id, ReadTokenId(id, entry.PathOf("id")));
    tokens.push_back(std::move(token));
  }
  return tokens;
}

StatusOr<int32_t> ReadTokenId(const Json& json, const std::string& where) {
  const int64_t* const id = json.AsInt();
  if (id != nullptr && *id >= 0 && *id < Vocabulary::kMaxIds) return static_cast<int32_t>(*id);
  return InvalidArgument(
      StrCat(where, " must be a token id in [0, ", Vocabulary::kMaxIds, "), not ", json.Dump()));
}

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const Normalizer& normalizer) {
  std::vector<std::pair<std::string, int32_t>> raw;
  std::vector<std::pair<std::string, int32_t>> normalized;
  for (AddedToken& token : tokens) {
    const int32_t index = static_cast<int32_t>(entries_.size());
    if (token.special) special_ids_.insert(token.id);
    if (token.normalized) {
      std::string spelling = normalizer.Normalize(token.content, true);
      if (spelling != token.content) spellings_.emplace(token.id, spelling);
      normalized.emplace_back(std::move(spelling), index);
    } else {
      raw.emplace_back(token.content, index);
    }
    const bool is_text = !token.special && SkipSpaceAfter(token.content, 0) == token.content.size();
    entries_.push_back({std::move(token), is_text});
  }
  raw_ = PrefixMatcher(std::move(raw));
  normalized_ = PrefixMatcher(std::move(normalized));
}

std::vector<AddedToken> AddedTokens::tokens() const {
  std::vector<AddedToken> tokens;
  for (const Entry& entry : entries_) tokens.push_back(entry.token);
  return tokens;
}

std::vector<AddedTokens::Part> AddedTokens::Find(const PrefixMatcher& matcher,
                                                 std::string_view text, bool parse_special) const {
  std::vector<Part> parts;
  size_t done = 0;
  size_t pos = matcher.empty() ? text.size() : 0;
  // White space that was taken along last, which is found again.
  size_t space_begin = 0, space_end = 0;
  while (pos < text.size()) {
    const PrefixMatcher::Match match = matcher.LongestAt(text, pos);
    if (match.size_bytes == 0) {
      ++pos;  // words begin with a lead byte: none stands inside of a code point
      continue;
    }
    const auto& [token, is_text] = entries_[match.value];
    size_t begin = pos;
    size_t end = pos + match.size_bytes;
    // As the reference does, go on after the match itself: not inside of a token that is rejected,
    // and at white space that this one takes along, where a token of white space is found again.
    pos = end;
    if (!parse_special && !is_text) continue;
    if (token.single_word && TouchesWord(text, begin, end)) continue;
    if (token.lstrip) begin = SkipSpaceBefore(text, begin, done);
    if (token.rstrip && (end < space_begin || end >= space_end)) {
      space_begin = end;
      space_end = SkipSpaceAfter(text, end);
    }
    if (token.rstrip) end = space_end;
    if (done < begin) parts.push_back({-1, done, begin});
    parts.push_back({token.id, begin, end});
    done = end;
  }
  if (done < text.size()) parts.push_back({-1, done, text.size()});
  return parts;
}

}  // namespace aril
