// Grammars without dead ends.

#ifndef ARIL_GRAMMAR_PRUNE_H_
#define ARIL_GRAMMAR_PRUNE_H_

#include "grammar/grammar.h"

namespace aril::grammar {

// Takes out the ways that no text can go to the end, such as a rule that always calls itself. False
// if the grammar has no text of finite length at all. Linear in the size of the grammar.
bool Prune(Grammar& grammar);

}  // namespace aril::grammar

#endif  // ARIL_GRAMMAR_PRUNE_H_
