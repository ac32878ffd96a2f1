// The variable `loop`, and macros as values.

#ifndef ARIL_JINJA_LOOP_H_
#define ARIL_JINJA_LOOP_H_

#include <optional>
#include <string>
#include <vector>

#include "jinja/ast.h"
#include "jinja/object.h"
#include "jinja/scope.h"

namespace aril::jinja {

class Interpreter;

// Goes through the items, at most one ahead, and knows what templates ask about that.
class LoopObject final : public Object {
 public:
  struct Source {
    IteratorPtr items;
    std::optional<int64_t> length;  // if it is known beforehand
    int depth0;                     // of recursion
    // For recursive calls.
    Interpreter* interpreter;
    const For* loop;
    Scope* closure;
  };

  explicit LoopObject(Source source) : source_(std::move(source)), length_(source_.length) {}

  // Moves to the next item; nullopt at the end.
  StatusOr<std::optional<Value>> Advance(Runtime* runtime);

  std::string TypeName() const override { return "LoopContext"; }
  std::string QualifiedTypeName() const override { return "jinja2.runtime.LoopContext"; }
  Status AppendRepr(Runtime* runtime, int level, std::string* out) override;
  StatusOr<std::optional<Value>> GetAttribute(Runtime* runtime, std::string_view name) override;
  bool IsCallable() const override { return true; }
  StatusOr<Value> Call(Runtime* runtime, Arguments arguments) override;

  StatusOr<Value> Cycle(const Arguments& arguments) const;
  StatusOr<Value> Changed(Runtime* runtime, const Arguments& arguments);

 private:
  StatusOr<int64_t> CountItems(Runtime* runtime);
  StatusOr<const std::optional<Value>*> Peek(Runtime* runtime);
  StatusOr<std::optional<Value>> GetPosition(Runtime* runtime, std::string_view name);
  StatusOr<std::optional<Value>> GetNeighbour(Runtime* runtime, std::string_view name);

  Source source_;
  std::optional<int64_t> length_;
  int64_t index0_ = -1;
  std::optional<Value> before_;
  std::optional<Value> current_;
  bool has_peeked_ = false;
  std::optional<Value> after_;
  std::optional<Value> last_changed_;  // a tuple
};

// A macro with the scope that it was defined in.
class MacroObject final : public Object {
 public:
  MacroObject(Interpreter* interpreter, const MacroDefinition& definition, Scope* closure)
      : interpreter_(interpreter), definition_(definition), closure_(closure) {}

  std::string TypeName() const override { return "Macro"; }
  std::string QualifiedTypeName() const override { return "jinja2.runtime.Macro"; }
  Status AppendRepr(Runtime* runtime, int level, std::string* out) override;
  StatusOr<std::optional<Value>> GetAttribute(Runtime* runtime, std::string_view name) override;
  bool IsCallable() const override { return true; }
  StatusOr<Value> Call(Runtime* runtime, Arguments arguments) override;

 private:
  Interpreter* const interpreter_;
  const MacroDefinition& definition_;
  Scope* const closure_;
};

}  // namespace aril::jinja

#endif  // ARIL_JINJA_LOOP_H_
