// What follows an expression: attributes, items, slices, calls, filters, tests; and the targets of
// assignments.

#include <algorithm>

#include "base/strings.h"
#include "jinja/expression_parser.h"
#include "jinja/filters.h"
#include "jinja/syntax_depth.h"
#include "jinja/tests.h"

namespace aril::jinja {
namespace {

using Kind = Token::Kind;

}  // namespace

StatusOr<ExprPtr> ExpressionParser::ParsePostfix(ExprPtr expr) {
  while (true) {
    if (tokens_->IsOperator(".")) {
      ASSIGN_OR_RETURN(expr, ParseDot(std::move(expr)));
    } else if (tokens_->IsOperator("[")) {
      ASSIGN_OR_RETURN(expr, ParseSubscript(std::move(expr)));
    } else if (tokens_->IsOperator("(")) {
      ASSIGN_OR_RETURN(expr, ParseCall(std::move(expr)));
    } else {
      return expr;
    }
  }
}

StatusOr<ExprPtr> ExpressionParser::ParseDot(ExprPtr object) {
  const int line = tokens_->Take().line;
  const int depth = object->depth;
  if (tokens_->Is(Kind::kName)) {
    return New(line, depth, Attribute{std::move(object), tokens_->Take().text});
  }
  if (!tokens_->Is(Kind::kInteger)) return SyntaxError(tokens_->line(), "expected name or number");
  ASSIGN_OR_RETURN(ExprPtr key, New(line, 0, Literal{Value(tokens_->Take().integer)}));
  return New(line, depth, Item{std::move(object), std::move(key)});
}

StatusOr<ExprPtr> ExpressionParser::ParseSubscript(ExprPtr object) {
  const int line = tokens_->Take().line;
  if (tokens_->IsOperator(":")) return ParseSlice(std::move(object), nullptr);
  std::vector<ExprPtr> keys;
  int depth = object->depth;
  while (!tokens_->IsOperator("]")) {
    ASSIGN_OR_RETURN(ExprPtr key, ParseConditional());
    if (keys.empty() && tokens_->IsOperator(":")) {
      return ParseSlice(std::move(object), std::move(key));
    }
    depth = std::max(depth, key->depth);
    keys.push_back(std::move(key));
    if (!tokens_->SkipOperator(",")) break;
  }
  RETURN_IF_ERROR(tokens_->ExpectOperator("]"));
  if (keys.size() == 1) return New(line, depth, Item{std::move(object), std::move(keys[0])});
  ASSIGN_OR_RETURN(ExprPtr key, New(line, depth, ListDisplay{std::move(keys), /*is_tuple=*/true}));
  depth = key->depth;
  return New(line, depth, Item{std::move(object), std::move(key)});
}

// From the first colon.
StatusOr<ExprPtr> ExpressionParser::ParseSlice(ExprPtr object, ExprPtr start) {
  const int line = tokens_->Take().line;
  SliceOf slice{std::move(object), std::move(start), nullptr, nullptr};
  const auto ends = [this] { return tokens_->IsOperator("]") || tokens_->IsOperator(":"); };
  if (!ends()) {
    ASSIGN_OR_RETURN(slice.stop, ParseConditional());
  }
  if (tokens_->SkipOperator(":") && !ends()) {
    ASSIGN_OR_RETURN(slice.step, ParseConditional());
  }
  RETURN_IF_ERROR(tokens_->ExpectOperator("]"));
  const int depth = std::max(
      {slice.object->depth, DepthOf(slice.start), DepthOf(slice.stop), DepthOf(slice.step)});
  return New(line, depth, std::move(slice));
}

StatusOr<ExprPtr> ExpressionParser::ParseFilterExpr(ExprPtr expr) {
  while (true) {
    if (tokens_->IsOperator("|")) {
      ASSIGN_OR_RETURN(expr, ParseFilters(std::move(expr)));
    } else if (tokens_->IsName("is")) {
      ASSIGN_OR_RETURN(expr, ParseTest(std::move(expr)));
    } else if (tokens_->IsOperator("(")) {
      ASSIGN_OR_RETURN(expr, ParseCall(std::move(expr)));
    } else {
      return expr;
    }
  }
}

StatusOr<ExprPtr> ExpressionParser::ParseFilters(ExprPtr input) {
  while (tokens_->SkipOperator("|")) {
    ASSIGN_OR_RETURN(input, ParseFilter(std::move(input)));
  }
  return input;
}

StatusOr<std::string> ExpressionParser::ParseDottedName() {
  ASSIGN_OR_RETURN(std::string name, tokens_->ExpectAnyName());
  while (tokens_->SkipOperator(".")) {
    ASSIGN_OR_RETURN(const std::string part, tokens_->ExpectAnyName());
    name += "." + part;
  }
  return name;
}

StatusOr<ExprPtr> ExpressionParser::ParseFilter(ExprPtr input) {
  const int line = tokens_->line();
  ASSIGN_OR_RETURN(std::string name, ParseDottedName());
  if (IsUnsupportedFilter(name)) {
    return Unimplemented(StrCat("line ", line, ": the filter '", name, "' is not supported"));
  }
  const Function* function = FindFilter(name);
  if (function == nullptr) {
    NoteUnknown(SyntaxError(line, StrCat("No filter named '", name, "'.")));
  }
  ArgumentList arguments;
  if (tokens_->IsOperator("(")) {
    ASSIGN_OR_RETURN(arguments, ParseArguments());
  }
  const int depth = std::max(DepthOf(input), DepthOf(arguments));
  return New(line, depth,
             Filter{std::move(input), std::move(name), function, std::move(arguments)});
}

StatusOr<ExprPtr> ExpressionParser::ParseTest(ExprPtr input) {
  const int line = tokens_->Take().line;
  const bool is_negated = tokens_->SkipName("not");
  ASSIGN_OR_RETURN(std::string name, ParseDottedName());
  const Function* function = FindTest(name);
  if (function == nullptr) {
    NoteUnknown(SyntaxError(line, StrCat("No test named '", name, "'.")));
  }
  ArgumentList arguments;
  if (tokens_->IsOperator("(")) {
    ASSIGN_OR_RETURN(arguments, ParseArguments());
  } else if (tokens_->IsName("is")) {
    return SyntaxError(line, "You cannot chain multiple tests with is");
  } else if ((tokens_->Is(Kind::kName) && !tokens_->IsAnyName({"else", "or", "and"})) ||
             tokens_->Is(Kind::kString) || tokens_->Is(Kind::kInteger) ||
             tokens_->Is(Kind::kFloat) || tokens_->IsOperator("[") || tokens_->IsOperator("{")) {
    // One argument needs no parentheses.
    ASSIGN_OR_RETURN(ExprPtr argument, ParsePrimary());
    ASSIGN_OR_RETURN(argument, ParsePostfix(std::move(argument)));
    arguments.positional.push_back(std::move(argument));
  }
  const int depth = std::max(input->depth, DepthOf(arguments));
  ASSIGN_OR_RETURN(
      ExprPtr test,
      New(line, depth, Test{std::move(input), std::move(name), function, std::move(arguments)}));
  if (!is_negated) return test;
  return New(line, depth + 1, Unary{Unary::Op::kNot, std::move(test)});
}

StatusOr<ExprPtr> ExpressionParser::ParseCall(ExprPtr callee) {
  const int line = tokens_->line();
  ASSIGN_OR_RETURN(ArgumentList arguments, ParseArguments());
  const int depth = std::max(callee->depth, DepthOf(arguments));
  return New(line, depth, Call{std::move(callee), std::move(arguments)});
}

StatusOr<ArgumentList> ExpressionParser::ParseArguments() {
  RETURN_IF_ERROR(tokens_->ExpectOperator("("));
  ArgumentList arguments;
  while (!tokens_->IsOperator(")")) {
    RETURN_IF_ERROR(ParseArgument(&arguments));
    if (!tokens_->SkipOperator(",")) break;
  }
  RETURN_IF_ERROR(tokens_->ExpectOperator(")"));
  return arguments;
}

Status ExpressionParser::ParseArgument(ArgumentList* arguments) {
  Status misplaced = SyntaxError(tokens_->line(), "invalid syntax for function call expression");
  const bool has_more = arguments->more_positional != nullptr || arguments->more_keyword != nullptr;
  if (tokens_->SkipOperator("*")) {
    if (has_more) return misplaced;
    ASSIGN_OR_RETURN(arguments->more_positional, ParseConditional());
    return OkStatus();
  }
  if (tokens_->SkipOperator("**")) {
    if (arguments->more_keyword != nullptr) return misplaced;
    ASSIGN_OR_RETURN(arguments->more_keyword, ParseConditional());
    return OkStatus();
  }
  if (tokens_->Is(Kind::kName) && tokens_->NextIsOperator("=")) {
    if (arguments->more_keyword != nullptr) return misplaced;
    std::string name = tokens_->Take().text;
    tokens_->Skip();
    ASSIGN_OR_RETURN(ExprPtr value, ParseConditional());
    arguments->keyword.emplace_back(std::move(name), std::move(value));
    return OkStatus();
  }
  if (has_more || !arguments->keyword.empty()) return misplaced;
  ASSIGN_OR_RETURN(ExprPtr value, ParseConditional());
  arguments->positional.push_back(std::move(value));
  return OkStatus();
}

StatusOr<Target> ExpressionParser::ParseTarget(bool may_be_member) {
  return ParseTargetItems(may_be_member, /*is_parenthesized=*/false);
}

StatusOr<Target> ExpressionParser::ParseTargetItems(bool may_be_member, bool is_parenthesized) {
  const SyntaxNesting nesting(&nesting_);
  RETURN_IF_ERROR(nesting.Check(tokens_->line()));
  std::vector<Target> items;
  bool is_tuple = false;
  while (!IsTupleEnd()) {
    ASSIGN_OR_RETURN(Target item, ParseSimpleTarget(may_be_member));
    items.push_back(std::move(item));
    if (!tokens_->SkipOperator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !items.empty()) return std::move(items[0]);
  if (items.empty() && !is_parenthesized) return tokens_->Unexpected("name");
  return Target{std::move(items)};
}

StatusOr<Target> ExpressionParser::ParseSimpleTarget(bool may_be_member) {
  if (tokens_->SkipOperator("(")) {
    ASSIGN_OR_RETURN(Target target, ParseTargetItems(may_be_member, /*is_parenthesized=*/true));
    RETURN_IF_ERROR(tokens_->ExpectOperator(")"));
    return target;
  }
  const int line = tokens_->line();
  if (!tokens_->Is(Kind::kName) ||
      tokens_->IsAnyName({"true", "false", "none", "True", "False", "None"})) {
    return SyntaxError(line, StrCat("can't assign to '", tokens_->Describe(), "'"));
  }
  std::string name = tokens_->Take().text;
  if (!may_be_member || !tokens_->SkipOperator(".")) return Target{std::move(name)};
  ASSIGN_OR_RETURN(std::string member, tokens_->ExpectAnyName());
  return Target{Target::Member{std::move(name), std::move(member)}};
}

}  // namespace aril::jinja
