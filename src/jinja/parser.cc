#include "jinja/parser.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "jinja/expression_parser.h"
#include "jinja/lexer.h"
#include "jinja/syntax_depth.h"
#include "jinja/token_stream.h"

namespace aril::jinja {
namespace {

using Kind = Token::Kind;
using EndTags = std::initializer_list<std::string_view>;

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)), exprs_(&tokens_) {}

  StatusOr<Block> Run() { return ParseBlock({}); }

 private:
  StatusOr<Block> ParseBlock(EndTags end_tags);
  StatusOr<Block> ParseBody(EndTags end_tags);
  StatusOr<Block> ParseScope(std::string_view end_tag);
  Status ParseTag(Block* out);

  StatusOr<Stmt::Node> ParseStatement(const std::string& tag, int line);
  StatusOr<Stmt::Node> ParseIf();
  StatusOr<Stmt::Node> ParseFor();
  StatusOr<Stmt::Node> ParseSet();
  StatusOr<Stmt::Node> ParseWith();
  StatusOr<Stmt::Node> ParseMacro();
  StatusOr<Stmt::Node> ParseCallBlock(int line);
  StatusOr<Stmt::Node> ParseFilterBlock();
  StatusOr<Stmt::Node> ParseGeneration();
  StatusOr<Stmt::Node> ParseLoopControl(const std::string& tag, int line);
  Status ParsePrint(Block* out);

  StatusOr<Target> ParseTarget(bool may_be_member);
  Status CheckTarget(const Target& target, int line) const;
  Status ParseParameters(MacroDefinition* macro);
  Status ParseMacroBody(std::string_view end_tag, MacroDefinition* macro);

  TokenStream tokens_;
  ExpressionParser exprs_;
  int nesting_ = 0;
  int num_fors_ = 0;            // enclosing, whatever is between
  int num_loops_to_break_ = 0;  // enclosing, in the same macro
};

// Everything up to one of the end tags, whose name is the current token then; without any, up to
// the end of the template.
StatusOr<Block> Parser::ParseBlock(EndTags end_tags) {
  const SyntaxNesting nesting(&nesting_);
  RETURN_IF_ERROR(nesting.Check(tokens_.line()));
  Block block;
  while (!tokens_.Is(Kind::kEnd)) {
    const int line = tokens_.line();
    if (tokens_.Is(Kind::kData)) {
      block.push_back({line, Data{tokens_.Take().text}});
    } else if (tokens_.Is(Kind::kVariableBegin)) {
      tokens_.Skip();
      ASSIGN_OR_RETURN(ExprPtr value, exprs_.ParseTuple());
      RETURN_IF_ERROR(tokens_.Expect(Kind::kVariableEnd));
      block.push_back({line, Output{std::move(value)}});
    } else {
      tokens_.Skip();
      if (tokens_.IsAnyName(end_tags)) return block;
      if (!tokens_.Is(Kind::kName)) return SyntaxError(tokens_.line(), "tag name expected");
      RETURN_IF_ERROR(ParseTag(&block));
      RETURN_IF_ERROR(tokens_.Expect(Kind::kBlockEnd));
    }
  }
  if (end_tags.size() == 0) return block;
  return SyntaxError(
      tokens_.line(),
      StrCat("Unexpected end of template. Jinja was looking for the following tags: '",
             Join(end_tags, "' or '"), "'."));
}

// The rest of the tag that opens a body, and the body.
StatusOr<Block> Parser::ParseBody(EndTags end_tags) {
  tokens_.SkipOperator(":");
  RETURN_IF_ERROR(tokens_.Expect(Kind::kBlockEnd));
  return ParseBlock(end_tags);
}

// A body with variables of its own.
StatusOr<Block> Parser::ParseScope(std::string_view end_tag) {
  const int soft = std::exchange(*exprs_.soft(), 0);
  auto body = ParseBody({end_tag});
  *exprs_.soft() = soft;
  if (body.ok()) tokens_.Skip();
  return body;
}

Status Parser::ParseTag(Block* out) {
  const int line = tokens_.line();
  if (tokens_.SkipName("print")) return ParsePrint(out);
  const std::string tag = tokens_.current().text;
  ASSIGN_OR_RETURN(Stmt::Node node, ParseStatement(tag, line));
  out->push_back({line, std::move(node)});
  return OkStatus();
}

StatusOr<Stmt::Node> Parser::ParseStatement(const std::string& tag, int line) {
  static constexpr std::array<std::string_view, 6> kUnsupported = {
      "include", "import", "from", "extends", "block", "autoescape"};
  if (std::find(kUnsupported.begin(), kUnsupported.end(), tag) != kUnsupported.end()) {
    return Unimplemented(StrCat("line ", line, ": the tag '", tag, "' is not supported"));
  }
  tokens_.Skip();
  if (tag == "if") return ParseIf();
  if (tag == "for") return ParseFor();
  if (tag == "set") return ParseSet();
  if (tag == "with") return ParseWith();
  if (tag == "macro") return ParseMacro();
  if (tag == "call") return ParseCallBlock(line);
  if (tag == "filter") return ParseFilterBlock();
  if (tag == "generation") return ParseGeneration();
  if (tag == "break" || tag == "continue") return ParseLoopControl(tag, line);
  return SyntaxError(line, StrCat("Encountered unknown tag '", tag, "'."));
}

StatusOr<Stmt::Node> Parser::ParseIf() {
  If node;
  ++*exprs_.soft();
  while (true) {
    ASSIGN_OR_RETURN(ExprPtr test, exprs_.ParseTupleWithoutConditional());
    ASSIGN_OR_RETURN(Block body, ParseBody({"elif", "else", "endif"}));
    node.branches.push_back({std::move(test), std::move(body)});
    if (!tokens_.SkipName("elif")) break;
  }
  if (tokens_.SkipName("else")) {
    ASSIGN_OR_RETURN(node.otherwise, ParseBody({"endif"}));
  }
  tokens_.Skip();
  --*exprs_.soft();
  return Stmt::Node(std::move(node));
}

StatusOr<Stmt::Node> Parser::ParseFor() {
  For node;
  const int soft = std::exchange(*exprs_.soft(), 0);
  ++num_fors_;
  ASSIGN_OR_RETURN(node.target, ParseTarget(/*may_be_member=*/false));
  RETURN_IF_ERROR(tokens_.ExpectName("in"));
  ASSIGN_OR_RETURN(node.iterable, exprs_.ParseTupleWithoutConditional());
  if (tokens_.SkipName("if")) {
    ASSIGN_OR_RETURN(node.filter, exprs_.Parse());
  }
  node.is_recursive = tokens_.SkipName("recursive");
  ++num_loops_to_break_;
  ASSIGN_OR_RETURN(node.body, ParseBody({"endfor", "else"}));
  --num_loops_to_break_;
  if (tokens_.SkipName("else")) {
    ASSIGN_OR_RETURN(node.otherwise, ParseBody({"endfor"}));
  }
  tokens_.Skip();
  --num_fors_;
  *exprs_.soft() = soft;
  return Stmt::Node(std::move(node));
}

StatusOr<Target> Parser::ParseTarget(bool may_be_member) {
  const int line = tokens_.line();
  ASSIGN_OR_RETURN(Target target, exprs_.ParseTarget(may_be_member));
  RETURN_IF_ERROR(CheckTarget(target, line));
  return target;
}

// Within a loop, `loop` is its own.
Status Parser::CheckTarget(const Target& target, int line) const {
  if (const auto* items = std::get_if<std::vector<Target>>(&target.node)) {
    for (const Target& item : *items) RETURN_IF_ERROR(CheckTarget(item, line));
  }
  const auto* name = std::get_if<std::string>(&target.node);
  if (name == nullptr || *name != "loop" || num_fors_ == 0) return OkStatus();
  return SyntaxError(line, "Can't assign to special loop variable in for-loop target");
}

StatusOr<Stmt::Node> Parser::ParseSet() {
  ASSIGN_OR_RETURN(Target target, ParseTarget(/*may_be_member=*/true));
  if (tokens_.SkipOperator("=")) {
    ASSIGN_OR_RETURN(ExprPtr value, exprs_.ParseTuple());
    return Stmt::Node(Set{std::move(target), std::move(value)});
  }
  ASSIGN_OR_RETURN(ExprPtr filter, exprs_.ParseCaptureFilter());
  ASSIGN_OR_RETURN(Block body, ParseScope("endset"));
  return Stmt::Node(SetBlock{std::move(target), std::move(filter), std::move(body)});
}

StatusOr<Stmt::Node> Parser::ParseWith() {
  With node;
  while (!tokens_.Is(Kind::kBlockEnd) && !tokens_.IsOperator(":")) {
    if (!node.variables.empty()) RETURN_IF_ERROR(tokens_.ExpectOperator(","));
    ASSIGN_OR_RETURN(Target target, ParseTarget(/*may_be_member=*/false));
    RETURN_IF_ERROR(tokens_.ExpectOperator("="));
    ASSIGN_OR_RETURN(ExprPtr value, exprs_.Parse());
    node.variables.emplace_back(std::move(target), std::move(value));
  }
  ASSIGN_OR_RETURN(node.body, ParseScope("endwith"));
  return Stmt::Node(std::move(node));
}

Status Parser::ParseParameters(MacroDefinition* macro) {
  RETURN_IF_ERROR(tokens_.ExpectOperator("("));
  while (!tokens_.IsOperator(")")) {
    const int line = tokens_.line();
    MacroDefinition::Parameter parameter;
    ASSIGN_OR_RETURN(parameter.name, tokens_.ExpectAnyName());
    if (tokens_.SkipOperator("=")) {
      ASSIGN_OR_RETURN(parameter.value_if_absent, exprs_.Parse());
    } else if (!macro->parameters.empty() && macro->parameters.back().value_if_absent != nullptr) {
      return SyntaxError(line, "non-default argument follows default argument");
    }
    macro->parameters.push_back(std::move(parameter));
    if (!tokens_.SkipOperator(",")) break;
  }
  return tokens_.ExpectOperator(")");
}

// The body, and which special names it reads. What it reads, the macro around it does, too.
Status Parser::ParseMacroBody(std::string_view end_tag, MacroDefinition* macro) {
  const auto outer = std::exchange(exprs_.special_names(), {});
  const int loops = std::exchange(num_loops_to_break_, 0);
  ASSIGN_OR_RETURN(macro->body, ParseScope(end_tag));
  num_loops_to_break_ = loops;
  auto& names = exprs_.special_names();
  macro->uses_caller = names.caller;
  macro->uses_kwargs = names.kwargs;
  macro->uses_varargs = names.varargs;
  names.caller |= outer.caller;
  names.kwargs |= outer.kwargs;
  names.varargs |= outer.varargs;
  return OkStatus();
}

StatusOr<Stmt::Node> Parser::ParseMacro() {
  auto macro = std::make_unique<MacroDefinition>();
  ASSIGN_OR_RETURN(macro->name, tokens_.ExpectAnyName());
  RETURN_IF_ERROR(ParseParameters(macro.get()));
  RETURN_IF_ERROR(ParseMacroBody("endmacro", macro.get()));
  return Stmt::Node(Macro{std::move(macro)});
}

StatusOr<Stmt::Node> Parser::ParseCallBlock(int line) {
  auto caller = std::make_unique<MacroDefinition>();
  if (tokens_.IsOperator("(")) RETURN_IF_ERROR(ParseParameters(caller.get()));
  ASSIGN_OR_RETURN(ExprPtr call, exprs_.Parse());
  if (!std::holds_alternative<Call>(call->node)) return SyntaxError(line, "expected call");
  RETURN_IF_ERROR(ParseMacroBody("endcall", caller.get()));
  return Stmt::Node(CallBlock{std::move(call), std::move(caller)});
}

StatusOr<Stmt::Node> Parser::ParseFilterBlock() {
  ASSIGN_OR_RETURN(ExprPtr filter, exprs_.ParseFilterChain());
  ASSIGN_OR_RETURN(Block body, ParseScope("endfilter"));
  return Stmt::Node(FilterBlock{std::move(filter), std::move(body)});
}

StatusOr<Stmt::Node> Parser::ParseGeneration() {
  const int loops = std::exchange(num_loops_to_break_, 0);
  ASSIGN_OR_RETURN(Block body, ParseScope("endgeneration"));
  num_loops_to_break_ = loops;
  return Stmt::Node(Generation{std::move(body)});
}

StatusOr<Stmt::Node> Parser::ParseLoopControl(const std::string& tag, int line) {
  if (num_loops_to_break_ == 0) return SyntaxError(line, StrCat("'", tag, "' outside loop"));
  if (tag == "break") return Stmt::Node(Break{});
  return Stmt::Node(Continue{});
}

Status Parser::ParsePrint(Block* out) {
  while (!tokens_.Is(Kind::kBlockEnd)) {
    const int line = tokens_.line();
    ASSIGN_OR_RETURN(ExprPtr value, exprs_.Parse());
    out->push_back({line, Output{std::move(value)}});
    if (!tokens_.SkipOperator(",")) break;
  }
  return OkStatus();
}

}  // namespace

StatusOr<Block> ParseTemplate(std::string_view source) {
  ASSIGN_OR_RETURN(std::vector<Token> tokens, Tokenize(source));
  return Parser(std::move(tokens)).Run();
}

}  // namespace aril::jinja
