// Values with an identity: functions, macros, namespaces, loops, iterators, ranges, views of dicts.

#ifndef ARIL_JINJA_OBJECT_H_
#define ARIL_JINJA_OBJECT_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "jinja/value.h"

namespace aril::jinja {

class Runtime;

// What a call passes.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> keyword;

  // The value of a keyword argument, which is removed; nullopt if there is none.
  std::optional<Value> Take(std::string_view name);
};

// Gives values one after the other.
class Iterator {
 public:
  virtual ~Iterator() = default;
  // nullopt at the end, and from then on. A step of the budget.
  StatusOr<std::optional<Value>> Next(Runtime* runtime);

 private:
  virtual StatusOr<std::optional<Value>> Produce(Runtime* runtime) = 0;
};
using IteratorPtr = std::unique_ptr<Iterator>;

class Object : public std::enable_shared_from_this<Object> {
 public:
  virtual ~Object() = default;

  virtual std::string TypeName() const = 0;
  // With the module, as messages about missing attributes name the type.
  virtual std::string QualifiedTypeName() const { return TypeName(); }
  // Appends Python's repr(), which is its str() as well, inside of `level` others.
  virtual Status AppendRepr(Runtime* runtime, int level, std::string* out);

  virtual StatusOr<std::optional<Value>> GetAttribute(Runtime* runtime, std::string_view name);
  virtual StatusOr<std::optional<Value>> GetItem(Runtime* runtime, const Value& key);

  virtual bool IsCallable() const { return false; }
  virtual StatusOr<Value> Call(Runtime* runtime, Arguments arguments);

  // len(), if there is one.
  virtual std::optional<int64_t> Length() const { return std::nullopt; }
  // nullptr if this cannot be iterated.
  virtual IteratorPtr Iterate() { return nullptr; }
  virtual bool EqualTo(const Object& other) const { return this == &other; }

  // Of values that this holds on to; see Value::depth.
  virtual int depth() const { return 0; }
};

}  // namespace aril::jinja

#endif  // ARIL_JINJA_OBJECT_H_
