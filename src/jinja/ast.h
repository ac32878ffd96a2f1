// The syntax tree of a template: immutable once parsed. Blocks nest at most
// kMaxSyntaxNesting deep, expressions kMaxSyntaxDepth.

#ifndef ARIL_JINJA_AST_H_
#define ARIL_JINJA_AST_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "jinja/arithmetic.h"
#include "jinja/compare.h"
#include "jinja/function.h"
#include "jinja/value.h"

namespace aril::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<const Expr>;
struct Stmt;
using Block = std::vector<Stmt>;

// f(a, name=b, *more_positional, **more_keyword)
struct ArgumentList {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> keyword;
  ExprPtr more_positional;  // may be null
  ExprPtr more_keyword;     // may be null
};

struct Literal {
  Value value;
};
struct Name {
  std::string name;
};
struct ListDisplay {
  std::vector<ExprPtr> items;
  bool is_tuple;
};
struct DictDisplay {
  std::vector<std::pair<ExprPtr, ExprPtr>> entries;
};
struct Unary {
  enum class Op { kNot, kNegative, kPositive } op;
  ExprPtr operand;
};
struct Binary {
  BinaryOp op;
  ExprPtr left;
  ExprPtr right;
};
struct Logical {
  bool is_and;
  ExprPtr left;
  ExprPtr right;
};
// a < b <= c: each neighbour pair, until one does not hold.
struct Comparison {
  enum class Membership { kNone, kIn, kNotIn };
  struct Link {
    Membership membership;  // if kNone, `op` counts
    CompareOp op;
    ExprPtr right;
  };
  ExprPtr first;
  std::vector<Link> links;
};
// a ~ b ~ c
struct Concatenation {
  std::vector<ExprPtr> parts;
};
// then if test else otherwise
struct Conditional {
  ExprPtr test;
  ExprPtr then;
  ExprPtr otherwise;  // may be null
};
struct Attribute {
  ExprPtr object;
  std::string name;
};
struct Item {
  ExprPtr object;
  ExprPtr key;
};
struct SliceOf {
  ExprPtr object;
  ExprPtr start, stop, step;  // may be null
};
struct Call {
  ExprPtr callee;
  ArgumentList arguments;
};
// input|name(arguments)
struct Filter {
  ExprPtr input;  // null in a filter block: its body
  std::string name;
  const Function* function;  // null if there is no such filter, which is an error if it is reached
  ArgumentList arguments;
};
// input is name(arguments)
struct Test {
  ExprPtr input;
  std::string name;
  const Function* function;  // as for a filter
  ArgumentList arguments;
};

struct Expr {
  using Node =
      std::variant<Literal, Name, ListDisplay, DictDisplay, Unary, Binary, Logical, Comparison,
                   Concatenation, Conditional, Attribute, Item, SliceOf, Call, Filter, Test>;
  int line;
  int depth;  // 1 for a leaf
  Node node;
};

// What can be assigned to: a name, a member of a namespace, or several of these.
struct Target {
  struct Member {
    std::string name_space;
    std::string name;
  };
  std::variant<std::string, Member, std::vector<Target>> node;
};

struct Data {
  std::string text;
};
struct Output {
  ExprPtr value;
};
struct If {
  struct Branch {
    ExprPtr test;
    Block body;
  };
  std::vector<Branch> branches;
  Block otherwise;
};
struct For {
  Target target;
  ExprPtr iterable;
  ExprPtr filter;  // may be null
  bool is_recursive;
  Block body;
  Block otherwise;
};
struct Set {
  Target target;
  ExprPtr value;
};
struct SetBlock {
  Target target;
  ExprPtr filter;  // a Filter without innermost input, or null
  Block body;
};
struct With {
  std::vector<std::pair<Target, ExprPtr>> variables;
  Block body;
};
struct MacroDefinition {
  struct Parameter {
    std::string name;
    ExprPtr value_if_absent;  // may be null
  };
  std::optional<std::string> name;  // none for the body of a call block
  std::vector<Parameter> parameters;
  // The special names that the body reads, which makes the macro accept them.
  bool uses_caller = false;
  bool uses_kwargs = false;
  bool uses_varargs = false;
  Block body;
};
struct Macro {
  std::unique_ptr<const MacroDefinition> definition;
};
struct CallBlock {
  ExprPtr call;  // a Call
  std::unique_ptr<const MacroDefinition> caller;
};
struct FilterBlock {
  ExprPtr filter;
  Block body;
};
// {% generation %}: only a scope here; transformers marks the assistant's tokens with it.
struct Generation {
  Block body;
};
struct Break {};
struct Continue {};

struct Stmt {
  using Node = std::variant<Data, Output, If, For, Set, SetBlock, With, Macro, CallBlock,
                            FilterBlock, Generation, Break, Continue>;
  int line;
  Node node;
};

}  // namespace aril::jinja

#endif  // ARIL_JINJA_AST_H_
