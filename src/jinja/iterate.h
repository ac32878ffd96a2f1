// Going through a value as Python's `for` does, and the objects that are made for it.

#ifndef ARIL_JINJA_ITERATE_H_
#define ARIL_JINJA_ITERATE_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "jinja/object.h"
#include "jinja/value.h"

namespace aril::jinja {

class Runtime;

// nullptr if the value cannot be iterated. Undefined is empty; a dict gives its keys; a string its
// code points; a generator what it has left.
IteratorPtr Iterate(const Value& value);
// The same, with FailedPrecondition "'int' object is not iterable".
StatusOr<IteratorPtr> IterateOrFail(const Value& value);
// list(value).
StatusOr<std::vector<Value>> ToVector(Runtime* runtime, const Value& value);

// len(), if the value has one.
std::optional<int64_t> Length(const Value& value);

// What filters such as map and select give: computes its items when they are asked for, once.
class Generator final : public Object {
 public:
  // `depth`: of what the iterator holds on to.
  Generator(IteratorPtr iterator, int depth) : iterator_(std::move(iterator)), depth_(depth) {}
  std::string TypeName() const override { return "generator"; }
  IteratorPtr Iterate() override;
  int depth() const override { return depth_ + 1; }

 private:
  friend class GeneratorIterator;
  const IteratorPtr iterator_;
  const int depth_;
};

// dict.keys(), dict.values() or dict.items().
class DictView final : public Object {
 public:
  enum class Kind { kKeys, kValues, kItems };
  DictView(Value dict, Kind kind) : dict_(std::move(dict)), kind_(kind) {}
  std::string TypeName() const override;
  Status AppendRepr(Runtime* runtime, int level, std::string* out) override;
  std::optional<int64_t> Length() const override;
  IteratorPtr Iterate() override;
  int depth() const override { return dict_.depth(); }

 private:
  const Value dict_;
  const Kind kind_;
};

// range(start, stop, step).
class Range final : public Object {
 public:
  // Its length is what fits: the caller has checked that it is no more than kMaxRange.
  Range(int64_t start, int64_t stop, int64_t step, int64_t length)
      : start_(start), stop_(stop), step_(step), length_(length) {}
  std::string TypeName() const override { return "range"; }
  Status AppendRepr(Runtime* runtime, int level, std::string* out) override;
  StatusOr<std::optional<Value>> GetItem(Runtime* runtime, const Value& key) override;
  std::optional<int64_t> Length() const override { return length_; }
  IteratorPtr Iterate() override;
  bool EqualTo(const Object& other) const override;

  int64_t At(int64_t index) const { return start_ + index * step_; }

 private:
  const int64_t start_;
  const int64_t stop_;
  const int64_t step_;
  const int64_t length_;
};

}  // namespace aril::jinja

#endif  // ARIL_JINJA_ITERATE_H_
