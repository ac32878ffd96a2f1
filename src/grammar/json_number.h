// Numbers of JSON within bounds, digit by digit.
//
// A bound is a decimal fraction with 16 digits behind the point, kept as an integer of 128 bits.
// Numbers that must not be beyond it are those whose digits, from the left, are the bound's up to
// some place, and lie to the allowed side of it there.

#ifndef ARIL_GRAMMAR_JSON_NUMBER_H_
#define ARIL_GRAMMAR_JSON_NUMBER_H_

#include "base/json.h"
#include "base/status.h"
#include "grammar/grammar.h"

namespace aril::grammar {

// Numbers, or null where there is no bound.
struct NumberBounds {
  Json minimum = {};
  Json exclusive_minimum = {};
  Json maximum = {};
  Json exclusive_maximum = {};
};

// Whole numbers in decimal notation, without a fraction; at most 17 digits, or 19 where a bound
// lies beyond those. InvalidArgument if none is within the bounds.
StatusOr<NodeIdx> AddInteger(GrammarBuilder& builder, const NumberBounds& bounds, NodeIdx next);

// Numbers with at most 17 digits before the point and 17 behind it, and an exponent of two digits
// at most; where there are bounds, with as many digits before the point as whole numbers, 16 behind
// it, and no exponent. They keep to the bounds also once read as doubles. InvalidArgument if none
// does.
StatusOr<NodeIdx> AddNumber(GrammarBuilder& builder, const NumberBounds& bounds, NodeIdx next);

}  // namespace aril::grammar

#endif  // ARIL_GRAMMAR_JSON_NUMBER_H_
