// Parses expressions, by Jinja's grammar (jinja2/parser.py).

#ifndef ARIL_JINJA_EXPRESSION_PARSER_H_
#define ARIL_JINJA_EXPRESSION_PARSER_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "jinja/ast.h"
#include "jinja/token_stream.h"

namespace aril::jinja {

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream* tokens) : tokens_(tokens) {}

  // One expression.
  StatusOr<ExprPtr> Parse();
  // One, or several with commas: a tuple.
  StatusOr<ExprPtr> ParseTuple();
  // The same in `for x in …` and `if …`, where a following `if` or `recursive` is not its own.
  StatusOr<ExprPtr> ParseTupleWithoutConditional();
  // `upper|trim`, as in {% filter … %}.
  StatusOr<ExprPtr> ParseFilterChain();
  // `|upper|trim`, as in {% set x … %}; null if there is none.
  StatusOr<ExprPtr> ParseCaptureFilter();
  StatusOr<Target> ParseTarget(bool may_be_member);

  // Where this is not 0, an unknown filter or test is an error only when it is reached: within `if`
  // blocks and conditionals, so that templates can ask `{% if 'x' is filter %}`.
  int* soft() { return &soft_; }

  // The names that were read, of `caller`, `kwargs` and `varargs`, since the last reset.
  struct SpecialNames {
    bool caller = false;
    bool kwargs = false;
    bool varargs = false;
  };
  SpecialNames& special_names() { return special_names_; }

 private:
  using Rule = StatusOr<ExprPtr> (ExpressionParser::*)();

  StatusOr<ExprPtr> ParseItems(Rule rule, bool is_parenthesized);
  StatusOr<ExprPtr> ParseConditional();
  StatusOr<ExprPtr> ParseCondition(int line, ExprPtr then);
  StatusOr<ExprPtr> ParseOr();
  StatusOr<ExprPtr> ParseAnd();
  StatusOr<ExprPtr> ParseLogical(std::string_view keyword, Rule operand);
  StatusOr<ExprPtr> ParseNot();
  StatusOr<ExprPtr> ParseComparison();
  StatusOr<bool> ParseLinkOperator(Comparison::Link* link);
  StatusOr<ExprPtr> ParseSum();
  StatusOr<ExprPtr> ParseConcatenation();
  StatusOr<ExprPtr> ParseProduct();
  StatusOr<ExprPtr> ParsePower();
  StatusOr<ExprPtr> ParseBinary(std::string_view operators, Rule operand);
  StatusOr<ExprPtr> ParseUnary();
  StatusOr<ExprPtr> ParseSigned();
  StatusOr<ExprPtr> ParsePrimary();
  StatusOr<ExprPtr> ParseName();
  StatusOr<ExprPtr> ParseStrings();
  StatusOr<ExprPtr> ParseList();
  StatusOr<ExprPtr> ParseDict();
  StatusOr<ExprPtr> ParsePostfix(ExprPtr expr);
  StatusOr<ExprPtr> ParseDot(ExprPtr object);
  StatusOr<ExprPtr> ParseSubscript(ExprPtr object);
  StatusOr<ExprPtr> ParseSlice(ExprPtr object, ExprPtr start);
  StatusOr<ExprPtr> ParseFilterExpr(ExprPtr expr);
  StatusOr<ExprPtr> ParseFilters(ExprPtr input);
  StatusOr<ExprPtr> ParseFilter(ExprPtr input);
  StatusOr<ExprPtr> ParseTest(ExprPtr input);
  StatusOr<ExprPtr> ParseCall(ExprPtr callee);
  StatusOr<ArgumentList> ParseArguments();
  Status ParseArgument(ArgumentList* arguments);
  StatusOr<std::string> ParseDottedName();
  StatusOr<Target> ParseSimpleTarget(bool may_be_member);
  StatusOr<Target> ParseTargetItems(bool may_be_member, bool is_parenthesized);
  bool IsTupleEnd() const;

  // A node above others of such a depth; an error if that is too deep.
  StatusOr<ExprPtr> New(int line, int children_depth, Expr::Node node) const;
  // Ends an expression: where it named an unknown filter or test, that is an error.
  StatusOr<ExprPtr> Finish(StatusOr<ExprPtr> expr);
  void NoteUnknown(Status status);

  TokenStream* const tokens_;
  int nesting_ = 0;  // of recursive calls
  int soft_ = 0;
  Status unknown_;  // the first unknown filter or test that may turn out to be soft
  SpecialNames special_names_;
};

}  // namespace aril::jinja

#endif  // ARIL_JINJA_EXPRESSION_PARSER_H_
