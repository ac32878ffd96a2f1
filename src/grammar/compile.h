// From what a request asks its output to be, to the grammar of such texts.

#ifndef ARIL_GRAMMAR_COMPILE_H_
#define ARIL_GRAMMAR_COMPILE_H_

#include "base/status.h"
#include "grammar/grammar.h"
#include "wire/output_format.h"

namespace aril::grammar {

// Of a format that is not kText. InvalidArgument says what in the source is wrong or cannot be kept
// to, and where; ResourceExhausted that it is too large. Takes well below a millisecond for
// what people write, and some 100 ms at most. Thread-safe.
StatusOr<Grammar> Compile(const wire::OutputFormat& format);

}  // namespace aril::grammar

#endif  // ARIL_GRAMMAR_COMPILE_H_
