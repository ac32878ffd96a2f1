// Python's ==, <, in, and what may be the key of a dict.

#ifndef ARIL_JINJA_COMPARE_H_
#define ARIL_JINJA_COMPARE_H_

#include <optional>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "jinja/value.h"

namespace aril::jinja {

class Runtime;

enum class CompareOp { kEqual, kNotEqual, kLess, kLessOrEqual, kGreater, kGreaterOrEqual };

StatusOr<bool> Equal(Runtime* runtime, const Value& a, const Value& b);
// FailedPrecondition if there is no order between the two.
StatusOr<bool> Compare(Runtime* runtime, CompareOp op, const Value& a, const Value& b);
// `item in container`.
StatusOr<bool> Contains(Runtime* runtime, const Value& container, const Value& item);

// FailedPrecondition "unhashable type: 'list'".
Status CheckHashable(Runtime* runtime, const Value& value);
// The value of a key; nullptr if there is none.
StatusOr<const Value*> FindKey(Runtime* runtime, const Dict& dict, const Value& key);
const Value* FindKey(const Dict& dict, std::string_view key);
// `entries[key] = value` as a dict does it.
Status SetKey(Runtime* runtime, Value key, Value value, Dict::Entries* entries);

// sorted(): stable, ascending or descending by keys[i], which belong to items[i].
StatusOr<std::vector<Value>> SortBy(Runtime* runtime, const std::vector<Value>& items,
                                    const std::vector<Value>& keys, bool descending);

}  // namespace aril::jinja

#endif  // ARIL_JINJA_COMPARE_H_
