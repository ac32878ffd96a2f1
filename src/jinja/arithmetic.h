// Python's operators + - * / // % **, unary + and -, and integers that must fit 64 bits.

#ifndef ARIL_JINJA_ARITHMETIC_H_
#define ARIL_JINJA_ARITHMETIC_H_

#include "base/status.h"
#include "jinja/value.h"

namespace aril::jinja {

class Runtime;

enum class BinaryOp { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };

// Where Python's integers would grow beyond 64 bits: FailedPrecondition "integer overflow".
StatusOr<Value> Arithmetic(Runtime* runtime, BinaryOp op, const Value& a, const Value& b);
StatusOr<Value> Negative(const Value& value);
StatusOr<Value> Positive(const Value& value);
// abs().
StatusOr<Value> Absolute(const Value& value);

// int(x) for a float, towards zero.
StatusOr<int64_t> Truncate(double value);

// `text` so many times, none if it is negative; on the budget.
StatusOr<std::string> Repeat(Runtime* runtime, std::string_view text, int64_t times);

// "'x' is undefined" if one of them is, else nothing wrong.
Status CheckDefined(const Value& a, const Value& b);

}  // namespace aril::jinja

#endif  // ARIL_JINJA_ARITHMETIC_H_
