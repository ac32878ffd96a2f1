#include "jinja/expression_parser.h"

#include <algorithm>
#include <array>

#include "base/strings.h"
#include "jinja/syntax_depth.h"

namespace aril::jinja {
namespace {

using Kind = Token::Kind;

}  // namespace

StatusOr<ExprPtr> ExpressionParser::New(int line, int children_depth, Expr::Node node) const {
  if (children_depth >= kMaxSyntaxDepth) return TooDeep(line, kMaxSyntaxDepth);
  return ExprPtr(new Expr{line, children_depth + 1, std::move(node)});
}

void ExpressionParser::NoteUnknown(Status status) {
  if (soft_ == 0 && unknown_.ok()) unknown_ = std::move(status);
}

StatusOr<ExprPtr> ExpressionParser::Finish(StatusOr<ExprPtr> expr) {
  const Status unknown = std::exchange(unknown_, OkStatus());
  if (expr.ok() && !unknown.ok()) return unknown;
  return expr;
}

bool ExpressionParser::IsTupleEnd() const {
  return tokens_->Is(Kind::kVariableEnd) || tokens_->Is(Kind::kBlockEnd) ||
         tokens_->IsOperator(")");
}

StatusOr<ExprPtr> ExpressionParser::Parse() { return Finish(ParseConditional()); }

StatusOr<ExprPtr> ExpressionParser::ParseTuple() {
  return Finish(ParseItems(&ExpressionParser::ParseConditional, /*is_parenthesized=*/false));
}

StatusOr<ExprPtr> ExpressionParser::ParseTupleWithoutConditional() {
  return Finish(ParseItems(&ExpressionParser::ParseOr, /*is_parenthesized=*/false));
}

StatusOr<ExprPtr> ExpressionParser::ParseFilterChain() {
  auto filter = ParseFilter(nullptr);
  if (!filter.ok()) return filter;
  return Finish(ParseFilters(*std::move(filter)));
}

StatusOr<ExprPtr> ExpressionParser::ParseCaptureFilter() { return Finish(ParseFilters(nullptr)); }

StatusOr<ExprPtr> ExpressionParser::ParseItems(Rule rule, bool is_parenthesized) {
  const int line = tokens_->line();
  std::vector<ExprPtr> items;
  bool is_tuple = false;
  while (!IsTupleEnd()) {
    ASSIGN_OR_RETURN(ExprPtr item, (this->*rule)());
    items.push_back(std::move(item));
    if (!tokens_->SkipOperator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !items.empty()) return std::move(items[0]);
  if (items.empty() && !is_parenthesized) {
    return SyntaxError(line, StrCat("Expected an expression, got '", tokens_->Describe(), "'"));
  }
  const int depth = DepthOf(items);
  return New(line, depth, ListDisplay{std::move(items), /*is_tuple=*/true});
}

StatusOr<ExprPtr> ExpressionParser::ParseConditional() {
  const SyntaxNesting nesting(&nesting_);
  const int line = tokens_->line();
  RETURN_IF_ERROR(nesting.Check(line));
  const Status unknown_before = std::exchange(unknown_, OkStatus());
  ASSIGN_OR_RETURN(ExprPtr expr, ParseOr());
  while (tokens_->SkipName("if")) {
    unknown_ = OkStatus();  // what stands before an `if` is soft, too
    ++soft_;
    auto conditional = ParseCondition(line, std::move(expr));
    --soft_;
    ASSIGN_OR_RETURN(expr, std::move(conditional));
  }
  if (!unknown_before.ok()) unknown_ = unknown_before;
  return expr;
}

StatusOr<ExprPtr> ExpressionParser::ParseCondition(int line, ExprPtr then) {
  ASSIGN_OR_RETURN(ExprPtr test, ParseOr());
  ExprPtr otherwise;
  if (tokens_->SkipName("else")) {
    ASSIGN_OR_RETURN(otherwise, ParseConditional());
  }
  const int depth = DepthOf(then, test, otherwise);
  return New(line, depth, Conditional{std::move(test), std::move(then), std::move(otherwise)});
}

StatusOr<ExprPtr> ExpressionParser::ParseOr() {
  return ParseLogical("or", &ExpressionParser::ParseAnd);
}

StatusOr<ExprPtr> ExpressionParser::ParseAnd() {
  return ParseLogical("and", &ExpressionParser::ParseNot);
}

StatusOr<ExprPtr> ExpressionParser::ParseLogical(std::string_view keyword, Rule operand) {
  const int line = tokens_->line();
  ASSIGN_OR_RETURN(ExprPtr left, (this->*operand)());
  while (tokens_->SkipName(keyword)) {
    ASSIGN_OR_RETURN(ExprPtr right, (this->*operand)());
    const int depth = DepthOf(left, right);
    Logical node{keyword == "and", std::move(left), std::move(right)};
    ASSIGN_OR_RETURN(left, New(line, depth, std::move(node)));
  }
  return left;
}

StatusOr<ExprPtr> ExpressionParser::ParseNot() {
  if (!tokens_->IsName("not")) return ParseComparison();
  const SyntaxNesting nesting(&nesting_);
  const int line = tokens_->Take().line;
  RETURN_IF_ERROR(nesting.Check(line));
  ASSIGN_OR_RETURN(ExprPtr operand, ParseNot());
  const int depth = operand->depth;
  return New(line, depth, Unary{Unary::Op::kNot, std::move(operand)});
}

// Whether there is a comparison operator; it goes to `*link`.
StatusOr<bool> ExpressionParser::ParseLinkOperator(Comparison::Link* link) {
  static constexpr std::array<std::string_view, 6> kSymbols = {"==", "!=", "<", "<=", ">", ">="};
  if (tokens_->SkipName("in")) {
    link->membership = Comparison::Membership::kIn;
    return true;
  }
  if (tokens_->IsName("not") && tokens_->NextIsName("in")) {
    tokens_->Skip(2);
    link->membership = Comparison::Membership::kNotIn;
    return true;
  }
  for (size_t i = 0; i < kSymbols.size(); ++i) {
    if (!tokens_->SkipOperator(kSymbols[i])) continue;
    link->op = static_cast<CompareOp>(i);
    return true;
  }
  return false;
}

StatusOr<ExprPtr> ExpressionParser::ParseComparison() {
  const int line = tokens_->line();
  ASSIGN_OR_RETURN(ExprPtr first, ParseSum());
  std::vector<Comparison::Link> links;
  int depth = first->depth;
  while (true) {
    Comparison::Link link{Comparison::Membership::kNone, CompareOp::kEqual, nullptr};
    ASSIGN_OR_RETURN(const bool found, ParseLinkOperator(&link));
    if (!found) break;
    ASSIGN_OR_RETURN(link.right, ParseSum());
    depth = std::max(depth, link.right->depth);
    links.push_back(std::move(link));
  }
  if (links.empty()) return first;
  return New(line, depth, Comparison{std::move(first), std::move(links)});
}

StatusOr<ExprPtr> ExpressionParser::ParseSum() {
  return ParseBinary("+ -", &ExpressionParser::ParseConcatenation);
}

StatusOr<ExprPtr> ExpressionParser::ParseConcatenation() {
  const int line = tokens_->line();
  std::vector<ExprPtr> parts;
  do {
    ASSIGN_OR_RETURN(ExprPtr part, ParseProduct());
    parts.push_back(std::move(part));
  } while (tokens_->SkipOperator("~"));
  if (parts.size() == 1) return std::move(parts[0]);
  const int depth = DepthOf(parts);
  return New(line, depth, Concatenation{std::move(parts)});
}

StatusOr<ExprPtr> ExpressionParser::ParseProduct() {
  return ParseBinary("* / // %", &ExpressionParser::ParsePower);
}

StatusOr<ExprPtr> ExpressionParser::ParsePower() {
  return ParseBinary("**", &ExpressionParser::ParseUnary);
}

// Operands joined by some of `operators`, from left to right.
StatusOr<ExprPtr> ExpressionParser::ParseBinary(std::string_view operators, Rule operand) {
  static constexpr std::array<std::string_view, 7> kSymbols = {"+", "-", "*", "/", "//", "%", "**"};
  const int line = tokens_->line();
  ASSIGN_OR_RETURN(ExprPtr left, (this->*operand)());
  while (tokens_->Is(Kind::kOperator)) {
    const auto* symbol = std::find(kSymbols.begin(), kSymbols.end(), tokens_->current().text);
    if (symbol == kSymbols.end()) break;
    // As a word of the list: "*" is none of the power's.
    if ((" " + std::string(operators) + " ").find(StrCat(" ", *symbol, " ")) == std::string::npos) {
      break;
    }
    tokens_->Skip();
    ASSIGN_OR_RETURN(ExprPtr right, (this->*operand)());
    const int depth = DepthOf(left, right);
    Binary node{static_cast<BinaryOp>(symbol - kSymbols.begin()), std::move(left),
                std::move(right)};
    ASSIGN_OR_RETURN(left, New(line, depth, std::move(node)));
  }
  return left;
}

StatusOr<ExprPtr> ExpressionParser::ParseUnary() {
  ASSIGN_OR_RETURN(ExprPtr expr, ParseSigned());
  return ParseFilterExpr(std::move(expr));
}

// Signs bind tighter than filters: -1|abs is 1.
StatusOr<ExprPtr> ExpressionParser::ParseSigned() {
  const int line = tokens_->line();
  const bool negative = tokens_->IsOperator("-");
  if (!negative && !tokens_->IsOperator("+")) {
    ASSIGN_OR_RETURN(ExprPtr primary, ParsePrimary());
    return ParsePostfix(std::move(primary));
  }
  const SyntaxNesting nesting(&nesting_);
  RETURN_IF_ERROR(nesting.Check(line));
  tokens_->Skip();
  ASSIGN_OR_RETURN(ExprPtr operand, ParseSigned());
  const int depth = operand->depth;
  Unary node{negative ? Unary::Op::kNegative : Unary::Op::kPositive, std::move(operand)};
  ASSIGN_OR_RETURN(ExprPtr expr, New(line, depth, std::move(node)));
  return ParsePostfix(std::move(expr));
}

StatusOr<ExprPtr> ExpressionParser::ParsePrimary() {
  const int line = tokens_->line();
  switch (tokens_->current().kind) {
    case Kind::kName:
      return ParseName();
    case Kind::kString:
      return ParseStrings();
    case Kind::kInteger:
      return New(line, 0, Literal{Value(tokens_->Take().integer)});
    case Kind::kFloat:
      return New(line, 0, Literal{Value(tokens_->Take().real)});
    default:
      break;
  }
  if (tokens_->IsOperator("[")) return ParseList();
  if (tokens_->IsOperator("{")) return ParseDict();
  if (!tokens_->SkipOperator("(")) {
    return SyntaxError(line, StrCat("unexpected '", tokens_->Describe(), "'"));
  }
  ASSIGN_OR_RETURN(ExprPtr expr,
                   ParseItems(&ExpressionParser::ParseConditional, /*is_parenthesized=*/true));
  RETURN_IF_ERROR(tokens_->ExpectOperator(")"));
  return expr;
}

StatusOr<ExprPtr> ExpressionParser::ParseName() {
  Token token = tokens_->Take();
  const std::string& name = token.text;
  if (name == "true" || name == "True") return New(token.line, 0, Literal{Value(true)});
  if (name == "false" || name == "False") return New(token.line, 0, Literal{Value(false)});
  if (name == "none" || name == "None") return New(token.line, 0, Literal{Value()});
  special_names_.caller |= name == "caller";
  special_names_.kwargs |= name == "kwargs";
  special_names_.varargs |= name == "varargs";
  return New(token.line, 0, Name{std::move(token.text)});
}

// Literals side by side are one.
StatusOr<ExprPtr> ExpressionParser::ParseStrings() {
  const int line = tokens_->line();
  std::string text;
  while (tokens_->Is(Kind::kString)) text += tokens_->Take().text;
  return New(line, 0, Literal{Value::UnchargedString(std::move(text))});
}

StatusOr<ExprPtr> ExpressionParser::ParseList() {
  const int line = tokens_->Take().line;
  std::vector<ExprPtr> items;
  while (!tokens_->IsOperator("]")) {
    ASSIGN_OR_RETURN(ExprPtr item, ParseConditional());
    items.push_back(std::move(item));
    if (!tokens_->SkipOperator(",")) break;
  }
  RETURN_IF_ERROR(tokens_->ExpectOperator("]"));
  const int depth = DepthOf(items);
  return New(line, depth, ListDisplay{std::move(items), /*is_tuple=*/false});
}

StatusOr<ExprPtr> ExpressionParser::ParseDict() {
  const int line = tokens_->Take().line;
  DictDisplay dict;
  int depth = 0;
  while (!tokens_->IsOperator("}")) {
    ASSIGN_OR_RETURN(ExprPtr key, ParseConditional());
    RETURN_IF_ERROR(tokens_->ExpectOperator(":"));
    ASSIGN_OR_RETURN(ExprPtr value, ParseConditional());
    depth = std::max(depth, DepthOf(key, value));
    dict.entries.emplace_back(std::move(key), std::move(value));
    if (!tokens_->SkipOperator(",")) break;
  }
  RETURN_IF_ERROR(tokens_->ExpectOperator("}"));
  return New(line, depth, std::move(dict));
}

}  // namespace aril::jinja
