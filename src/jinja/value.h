// The values that a template computes with: Python's, as far as templates see them.
//
// Strings, lists, tuples and dicts are immutable and shared, so that copying a Value is cheap. They
// can only contain what existed before them, so that there are no cycles, and how deep they nest is
// known when they are made. What has an identity or changes (namespaces, loops, macros, iterators)
// is an Object (jinja/object.h). Runtime (jinja/runtime.h) makes them, on a budget.

#ifndef ARIL_JINJA_VALUE_H_
#define ARIL_JINJA_VALUE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace aril::jinja {

class Object;
class Value;

// A missing variable, attribute or item: prints as nothing, and using it is this error.
struct Undefined {
  std::string message;
};

// Valid UTF-8; positions in it are counted in code points.
struct String {
  explicit String(std::string t);
  bool is_ascii() const { return length == text.size(); }

  const std::string text;
  const size_t length;  // in code points
};

// A list or a tuple.
struct Sequence {
  enum class Kind : uint8_t {
    kList,
    kTuple,
    kGroup,  // what the filter groupby makes: a tuple (grouper, list) with these names
  };
  const std::vector<Value> items;
  const Kind kind;
  const int depth;  // 1 if no item is a container
};

// In the order of insertion, with unique keys. Lookup is linear: messages and tools have few keys,
// and the budget counts the comparisons.
struct Dict {
  using Entries = std::vector<std::pair<Value, Value>>;
  const Entries entries;
  const int depth;
};

class Value {
 public:
  using UndefinedPtr = std::shared_ptr<const Undefined>;
  using StringPtr = std::shared_ptr<const String>;
  using SequencePtr = std::shared_ptr<const Sequence>;
  using DictPtr = std::shared_ptr<const Dict>;
  using ObjectPtr = std::shared_ptr<Object>;

  Value() = default;  // None
  explicit Value(bool value) : value_(value) {}
  explicit Value(int64_t value) : value_(value) {}
  explicit Value(double value) : value_(value) {}
  explicit Value(StringPtr value) : value_(std::move(value)) {}
  explicit Value(SequencePtr value) : value_(std::move(value)) {}
  explicit Value(DictPtr value) : value_(std::move(value)) {}
  explicit Value(ObjectPtr value) : value_(std::move(value)) {}
  // Without a budget: for what the source or the caller holds anyway.
  static Value UnchargedString(std::string text);
  static Value MakeUndefined(std::string message);

  bool is_none() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_undefined() const { return std::holds_alternative<UndefinedPtr>(value_); }

  // The value if it has this type, else nullptr.
  const Undefined* AsUndefined() const { return Deref<UndefinedPtr>(); }
  const bool* AsBool() const { return std::get_if<bool>(&value_); }
  const int64_t* AsInt() const { return std::get_if<int64_t>(&value_); }
  const double* AsFloat() const { return std::get_if<double>(&value_); }
  const String* AsString() const { return Deref<StringPtr>(); }
  const Sequence* AsSequence() const { return Deref<SequencePtr>(); }
  const Dict* AsDict() const { return Deref<DictPtr>(); }
  Object* AsObject() const;

  // A bool or an integer, as Python's int accepts them.
  bool AsIntegral(int64_t* value) const;
  // A bool, an integer or a float.
  bool AsNumber(double* value) const;

  // "str", "list", "NoneType", …: as Python's errors name the type.
  std::string TypeName() const;
  // Python's `bool(value)`.
  bool IsTrue() const;
  // Python's `a is b`.
  bool IsSame(const Value& other) const;
  // How deep containers nest in it: 0 for what is none.
  int depth() const;

 private:
  template <typename Ptr>
  const typename Ptr::element_type* Deref() const {
    const Ptr* pointer = std::get_if<Ptr>(&value_);
    return pointer == nullptr ? nullptr : pointer->get();
  }

  std::variant<std::monostate, bool, int64_t, double, UndefinedPtr, StringPtr, SequencePtr, DictPtr,
               ObjectPtr>
      value_;
};

}  // namespace aril::jinja

#endif  // ARIL_JINJA_VALUE_H_
