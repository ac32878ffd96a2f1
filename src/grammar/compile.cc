#include "grammar/compile.h"

#include <utility>

#include "base/strings.h"
#include "base/utf8.h"
#include "grammar/free_text.h"
#include "grammar/json_schema.h"
#include "grammar/prune.h"
#include "grammar/reasoning.h"
#include "grammar/regex.h"
#include "grammar/tool_calls.h"
#include "wire/limits.h"

namespace aril::grammar {
namespace {

StatusOr<Grammar> RegexGrammar(std::string_view expression) {
  GrammarBuilder builder;
  ASSIGN_OR_RETURN(const NodeIdx start, AddWholeRegex(builder, expression));
  ASSIGN_OR_RETURN(Grammar grammar, builder.Build(start));
  if (!Prune(grammar)) return InvalidArgument("no text matches it");
  return grammar;
}

StatusOr<Grammar> AnswerGrammar(const wire::OutputFormat& format) {
  switch (format.kind) {
    case wire::OutputFormat::Kind::kJsonSchema:
      return JsonSchemaGrammar(format.source);
    case wire::OutputFormat::Kind::kRegex:
      return RegexGrammar(format.source);
    case wire::OutputFormat::Kind::kToolCalls:
      return ToolCallsGrammar(format.source, format.reasoning.value_or(wire::Reasoning()));
    case wire::OutputFormat::Kind::kText:
      break;
  }
  return InvalidArgument("a format of plain text has no grammar");
}

}  // namespace

StatusOr<Grammar> Compile(const wire::OutputFormat& format) {
  if (format.source.size() > wire::kMaxOutputFormatBytes) {
    return ResourceExhausted(StrCat("it has ", format.source.size(), " bytes; at most ",
                                    wire::kMaxOutputFormatBytes, " are taken"));
  }
  if (!IsValidUtf8(format.source)) return InvalidArgument("it is not valid UTF-8");
  if (format.reasoning) RETURN_IF_ERROR(CheckReasoning(*format.reasoning));
  ASSIGN_OR_RETURN(Grammar grammar, AnswerGrammar(format));
  if (!format.reasoning) return grammar;
  // Which calls of tools have where it belongs.
  if (format.kind != wire::OutputFormat::Kind::kToolCalls && !format.reasoning->answer.empty()) {
    const NodeIdx answer = grammar.start;
    GrammarBuilder builder(std::move(grammar));
    const std::string begin = WithSpecialBytes(format.reasoning->answer);
    ASSIGN_OR_RETURN(grammar, builder.Build(builder.Literal(begin, answer)));
  }
  return BehindReasoning(std::move(grammar), *format.reasoning);
}

}  // namespace aril::grammar
