// From the regular expressions of tokenizer.json to those of PCRE2.
//
// Hugging Face's tokenizers compile a Split or Replace pattern with Oniguruma in its Ruby syntax
// over Unicode (github.com/kkos/oniguruma, doc/RE and doc/SYNTAX.md). Almost all of it means the
// same to PCRE2 with UTF and UCP; this is the rest:
//
//   \s \w \b \h       White_Space; Alphabetic and more; its boundary; a hexadecimal digit
//   [[:punct:]] …     Oniguruma's sets
//   [a[bc]d]          nested classes are unions; intersections (&&) and nested negations are
//   refused \p{Han}           the script, not PCRE2's script extensions
//   (?m)              "dot matches newline", PCRE2's (?s); ^ and $ always match at lines
//   x{1,3}+           a repeated repetition, not a possessive one; x{,3} is x{0,3}

#ifndef ARIL_TOKENIZER_REGEX_SYNTAX_H_
#define ARIL_TOKENIZER_REGEX_SYNTAX_H_

#include <string>
#include <string_view>

#include "base/status.h"

namespace aril {

// `pattern` is valid UTF-8. Unimplemented names a construct that has no counterpart.
StatusOr<std::string> OnigurumaToPcre2(std::string_view pattern);

}  // namespace aril

#endif  // ARIL_TOKENIZER_REGEX_SYNTAX_H_
