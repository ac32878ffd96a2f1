// Tokens of a template, and errors about its syntax.

#ifndef ARIL_JINJA_TOKEN_H_
#define ARIL_JINJA_TOKEN_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/strings.h"

namespace aril::jinja {

struct Token {
  enum class Kind {
    kData,  // text between the tags
    kVariableBegin,
    kVariableEnd,
    kBlockBegin,
    kBlockEnd,
    kName,
    kString,
    kInteger,
    kFloat,
    kOperator,
    kEnd,
  };
  Kind kind;
  int line;
  std::string text;  // of data, names and operators; the value of a string
  int64_t integer = 0;
  double real = 0;
};

inline Status SyntaxError(int line, std::string_view message) {
  return InvalidArgument(StrCat("line ", line, ": ", message));
}

}  // namespace aril::jinja

#endif  // ARIL_JINJA_TOKEN_H_
