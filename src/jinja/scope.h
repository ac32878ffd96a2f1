// Variables, by the nesting of the source: a loop's body, a macro, a `with` has its own and sees
// those around it.

#ifndef ARIL_JINJA_SCOPE_H_
#define ARIL_JINJA_SCOPE_H_

#include <map>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/value.h"

namespace aril::jinja {

class Scope {
 public:
  explicit Scope(Scope* parent) : parent_(parent) {}

  // The names are those of the source or of the caller's context, which outlive the scope.
  void Set(std::string_view name, Value value) { variables_[name] = std::move(value); }
  // Here or further out; nullptr if nowhere.
  const Value* Find(std::string_view name) const;

  // Says that something will refer to this scope, and those around it, when it has ended.
  void Capture();
  bool is_captured() const { return is_captured_; }

 private:
  Scope* const parent_;
  std::map<std::string_view, Value> variables_;
  bool is_captured_ = false;
};

// Scopes that ended but are captured, up to the end of the render. (Shared ownership would make
// cycles: a macro is a variable of the scope that it refers to.)
using CapturedScopes = std::vector<std::unique_ptr<Scope>>;

// A scope for as long as this lives, or as long as `captured` if it is captured.
class LocalScope {
 public:
  LocalScope(Scope* parent, CapturedScopes* captured)
      : scope_(std::make_unique<Scope>(parent)), captured_(captured) {}
  LocalScope(const LocalScope&) = delete;
  LocalScope& operator=(const LocalScope&) = delete;
  ~LocalScope() {
    if (scope_->is_captured()) captured_->push_back(std::move(scope_));
  }

  Scope* get() const { return scope_.get(); }
  Scope* operator->() const { return scope_.get(); }

 private:
  std::unique_ptr<Scope> scope_;
  CapturedScopes* const captured_;
};

}  // namespace aril::jinja

#endif  // ARIL_JINJA_SCOPE_H_
