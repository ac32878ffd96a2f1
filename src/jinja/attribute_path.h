// What filters look up in each item: `attribute="a.b.0"`, case folded or not.

#ifndef ARIL_JINJA_ATTRIBUTE_PATH_H_
#define ARIL_JINJA_ATTRIBUTE_PATH_H_

#include <string>
#include <vector>

#include "base/status.h"
#include "jinja/value.h"

namespace aril::jinja {

class Runtime;

class AttributePath {
 public:
  // `attribute`: names and indices with dots between, an index, or None for the item itself.
  // `value_if_absent` replaces what is undefined, unless it is None.
  static AttributePath Parse(const Value& attribute, Value value_if_absent = Value());
  // Several, with commas between.
  static std::vector<AttributePath> ParseList(const Value& attribute);

  StatusOr<Value> Get(Runtime* runtime, const Value& item) const;

 private:
  std::vector<Value> parts_;
  Value value_if_absent_;
};

// Strings in lower case, others as they are.
StatusOr<Value> IgnoreCase(Runtime* runtime, const Value& value);

}  // namespace aril::jinja

#endif  // ARIL_JINJA_ATTRIBUTE_PATH_H_
