// Cuts the source of a template into tokens, as Jinja does with trim_blocks and lstrip_blocks: the
// first newline after a block goes, and so does the space before a block that begins its line.

#ifndef ARIL_JINJA_LEXER_H_
#define ARIL_JINJA_LEXER_H_

#include <string_view>
#include <vector>

#include "base/status.h"
#include "jinja/token.h"

namespace aril::jinja {

// InvalidArgument "line 3: …". The last token is kEnd. `source` is valid UTF-8.
StatusOr<std::vector<Token>> Tokenize(std::string_view source);

}  // namespace aril::jinja

#endif  // ARIL_JINJA_LEXER_H_
