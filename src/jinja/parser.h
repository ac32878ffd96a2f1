// From the source of a template to its syntax tree.

#ifndef ARIL_JINJA_PARSER_H_
#define ARIL_JINJA_PARSER_H_

#include <string_view>

#include "base/status.h"
#include "jinja/ast.h"

namespace aril::jinja {

// InvalidArgument "line 3: …" for what is no template; Unimplemented for the tags that load other
// files or change how output is escaped. `source` is valid UTF-8.
StatusOr<Block> ParseTemplate(std::string_view source);

}  // namespace aril::jinja

#endif  // ARIL_JINJA_PARSER_H_
