// Properties and normal forms of code points, from utf8proc.

#ifndef ARIL_TOKENIZER_UNICODE_H_
#define ARIL_TOKENIZER_UNICODE_H_

#include <string>
#include <string_view>

namespace aril {

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

// `text` (valid UTF-8) in the given normal form (Unicode Standard Annex 15).
std::string ToNormalForm(std::string_view text, NormalForm form);

// `text` (valid UTF-8) with the full, context-free lower case of each code point.
std::string ToLowerCase(std::string_view text);

// The property White_Space.
bool IsWhitespace(char32_t c);
// General categories Nd, Nl, No.
bool IsNumeric(char32_t c);
// General categories P*, and all ASCII punctuation ("$+<=>^`|~" are symbols for Unicode).
bool IsPunctuation(char32_t c);
// What \w means in Unicode Technical Standard 18: Alphabetic, M, Nd, Pc, Join_Control.
bool IsWordCharacter(char32_t c);
// General categories M*.
bool IsMark(char32_t c);

}  // namespace aril

#endif  // ARIL_TOKENIZER_UNICODE_H_
