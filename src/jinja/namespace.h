// The objects that `namespace()`, `cycler()` and `joiner()` make.

#ifndef ARIL_JINJA_NAMESPACE_H_
#define ARIL_JINJA_NAMESPACE_H_

#include <string>
#include <vector>

#include "jinja/object.h"

namespace aril::jinja {

// What `{% set ns.name = value %}` assigns to: the only values that can change.
class Namespace final : public Object {
 public:
  std::string TypeName() const override { return "Namespace"; }
  std::string QualifiedTypeName() const override { return "jinja2.utils.Namespace"; }
  Status AppendRepr(Runtime* runtime, int level, std::string* out) override;
  StatusOr<std::optional<Value>> GetAttribute(Runtime* runtime, std::string_view name) override;

  Status Set(Runtime* runtime, std::string_view name, Value value);
  void Clear() { members_.clear(); }

 private:
  Status AppendMembers(Runtime* runtime, int level, std::string* out) const;

  // In the order of insertion, as they print.
  std::vector<std::pair<std::string, Value>> members_;
  bool is_printing_ = false;
};

// Gives its items in turn, over and over.
class Cycler final : public Object {
 public:
  explicit Cycler(std::vector<Value> items) : items_(std::move(items)) {}
  std::string TypeName() const override { return "Cycler"; }
  std::string QualifiedTypeName() const override { return "jinja2.utils.Cycler"; }
  StatusOr<std::optional<Value>> GetAttribute(Runtime* runtime, std::string_view name) override;
  int depth() const override;

  Value Next();
  void Reset() { pos_ = 0; }

 private:
  const std::vector<Value> items_;
  size_t pos_ = 0;
};

// Gives nothing when it is called first, and its separator from then on.
class Joiner final : public Object {
 public:
  explicit Joiner(Value separator) : separator_(std::move(separator)) {}
  std::string TypeName() const override { return "Joiner"; }
  std::string QualifiedTypeName() const override { return "jinja2.utils.Joiner"; }
  bool IsCallable() const override { return true; }
  StatusOr<Value> Call(Runtime* runtime, Arguments arguments) override;
  int depth() const override { return separator_.depth(); }

 private:
  const Value separator_;
  bool used_ = false;
};

}  // namespace aril::jinja

#endif  // ARIL_JINJA_NAMESPACE_H_
