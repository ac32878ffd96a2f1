// What a model thinks before its answer, as a part of a grammar.

#ifndef ARIL_GRAMMAR_REASONING_H_
#define ARIL_GRAMMAR_REASONING_H_

#include "base/status.h"
#include "grammar/grammar.h"
#include "wire/output_format.h"

namespace aril::grammar {

// Nothing, or else why it is none: `end`, and `begin` and `answer` if they are not empty, must be
// texts without special tokens, or that begin with one, and `end` another one than `begin`.
Status CheckReasoning(const wire::Reasoning& reasoning);

// The texts of `grammar`, as they are or, with some whitespace, behind reasoning, which may have
// some before it, too; always behind it if that has begun in the prompt. If no text at all is one
// of them, reasoning need not end. (What reasoning's `answer` is, is a part of the texts.) No text
// of `grammar` should begin with reasoning's `begin`: readers take it for that. ResourceExhausted
// if it grows too large. Thread-safe.
StatusOr<Grammar> BehindReasoning(Grammar grammar, const wire::Reasoning& reasoning);

}  // namespace aril::grammar

#endif  // ARIL_GRAMMAR_REASONING_H_
