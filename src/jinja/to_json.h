// json.dumps of Python, as the filter `tojson` of transformers calls it.

#ifndef ARIL_JINJA_TO_JSON_H_
#define ARIL_JINJA_TO_JSON_H_

#include <optional>
#include <string>

#include "base/status.h"
#include "jinja/value.h"

namespace aril::jinja {

class Runtime;

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent;  // of one level; none: all on one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

StatusOr<std::string> ToJson(Runtime* runtime, const Value& value, const JsonStyle& style);

}  // namespace aril::jinja

#endif  // ARIL_JINJA_TO_JSON_H_
