// `x.name`, `x[key]` and `x[a:b:c]`, with the rules of Jinja's immutable sandbox.

#ifndef ARIL_JINJA_ATTRIBUTE_H_
#define ARIL_JINJA_ATTRIBUTE_H_

#include <optional>
#include <string_view>

#include "base/status.h"
#include "jinja/value.h"

namespace aril::jinja {

class Runtime;

// `x.name`: the attribute, else the item. Undefined if there is neither; FailedPrecondition if `x`
// is undefined itself.
StatusOr<Value> GetAttribute(Runtime* runtime, const Value& x, std::string_view name);
// `x[key]`: the item, else the attribute.
StatusOr<Value> GetItem(Runtime* runtime, const Value& x, const Value& key);
// The attribute alone, as the filter `attr` wants it.
StatusOr<Value> GetOnlyAttribute(Runtime* runtime, const Value& x, std::string_view name);

// Bounds that are None are absent.
struct SliceBounds {
  Value start;
  Value stop;
  Value step;
};
StatusOr<Value> GetSlice(Runtime* runtime, const Value& x, const SliceBounds& bounds);

}  // namespace aril::jinja

#endif  // ARIL_JINJA_ATTRIBUTE_H_
