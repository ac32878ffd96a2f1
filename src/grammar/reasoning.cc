#include "grammar/reasoning.h"

#include <set>
#include <string>
#include <utility>

#include "grammar/automaton.h"
#include "grammar/free_text.h"
#include "wire/limits.h"

namespace aril::grammar {

Status CheckReasoning(const wire::Reasoning& reasoning) {
  const auto is_fit = [](const std::string& text) {
    return text.size() <= wire::kMaxReasoningMarkerBytes && IsMarker(text);
  };
  const bool may_begin = reasoning.begin.empty() ||
                         (is_fit(reasoning.begin) && WithoutSpecialMarks(reasoning.begin) !=
                                                         WithoutSpecialMarks(reasoning.end));
  const bool has_answer = reasoning.answer.empty() || is_fit(reasoning.answer);
  if (may_begin && is_fit(reasoning.end) && has_answer) return OkStatus();
  return InvalidArgument(
      "reasoning must begin and end with texts of its own, without special tokens or with one "
      "first, and so must an answer, if it begins with any");
}

StatusOr<Grammar> BehindReasoning(Grammar grammar, const wire::Reasoning& reasoning) {
  const NodeIdx answer = grammar.start;
  const Automaton answers(grammar);
  const bool may_end = Automaton::IsState(answers.start()) && answers.IsComplete(answers.start());
  std::set<std::string> own;
  for (const std::string& text : {reasoning.begin, reasoning.end}) {
    const auto tokens = SpecialTokensIn(text);
    if (tokens) own.insert(tokens->begin(), tokens->end());
  }
  GrammarBuilder builder(std::move(grammar));
  FreeText text(builder, std::move(own));
  NodeIdx start = text.Until(reasoning.end, may_end, text.Spaces(answer));
  if (!reasoning.begin.empty()) {
    const NodeIdx begin = builder.Literal(WithSpecialBytes(reasoning.begin), start);
    start = builder.Either(text.Spaces(begin), answer);
  }
  return builder.Build(start);
}

}  // namespace aril::grammar
