#include "jinja/arithmetic.h"

#include <cmath>

#include "base/strings.h"
#include "jinja/percent_format.h"
#include "jinja/runtime.h"

namespace aril::jinja {
namespace {

const char* Symbol(BinaryOp op) {
  static constexpr const char* kSymbols[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};
  return kSymbols[static_cast<size_t>(op)];
}

Status Overflow() {
  return FailedPrecondition("integer overflow: only 64-bit integers are supported");
}

Status DivisionByZero() { return FailedPrecondition("division by zero"); }

// Rounds towards minus infinity, as Python does; b != 0.
StatusOr<Value> FloorDivide(int64_t a, int64_t b) {
  if (b == -1) {
    if (a == INT64_MIN) return Overflow();
    return Value(-a);
  }
  return Value(a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0));
}

// Has the sign of b; b != 0.
int64_t Modulo(int64_t a, int64_t b) {
  if (b == -1) return 0;
  const int64_t remainder = a % b;
  return remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

double Modulo(double a, double b) {
  const double remainder = std::fmod(a, b);
  if (remainder == 0) return std::copysign(0.0, b);
  return (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

double FloorDivide(double a, double b) {
  // Not floor(a / b), which rounds twice (CPython's float_floor_div).
  const double quotient = (a - Modulo(a, b)) / b;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double whole = std::floor(quotient);
  return quotient - whole > 0.5 ? whole + 1 : whole;
}

// b >= 0.
StatusOr<Value> Power(int64_t a, int64_t b) {
  int64_t result = 1;
  while (b > 0) {
    if (b % 2 == 1 && __builtin_mul_overflow(result, a, &result)) return Overflow();
    b /= 2;
    if (b > 0 && __builtin_mul_overflow(a, a, &a)) return Overflow();
  }
  return Value(result);
}

StatusOr<Value> Power(double a, double b) {
  if (a == 0 && b < 0) return FailedPrecondition("0.0 cannot be raised to a negative power");
  const double result = std::pow(a, b);
  if (std::isnan(result) && !std::isnan(a) && !std::isnan(b)) {
    return FailedPrecondition("complex numbers are not supported");
  }
  if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) {
    return FailedPrecondition("the result is too large");
  }
  return Value(result);
}

StatusOr<Value> OfIntegers(BinaryOp op, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (op) {
    case BinaryOp::kAdd:
      if (__builtin_add_overflow(a, b, &result)) return Overflow();
      return Value(result);
    case BinaryOp::kSubtract:
      if (__builtin_sub_overflow(a, b, &result)) return Overflow();
      return Value(result);
    case BinaryOp::kMultiply:
      if (__builtin_mul_overflow(a, b, &result)) return Overflow();
      return Value(result);
    case BinaryOp::kDivide:
      if (b == 0) return DivisionByZero();
      return Value(static_cast<double>(a) / static_cast<double>(b));
    case BinaryOp::kFloorDivide:
      if (b == 0) return DivisionByZero();
      return FloorDivide(a, b);
    case BinaryOp::kModulo:
      if (b == 0) return DivisionByZero();
      return Value(Modulo(a, b));
    case BinaryOp::kPower:
      return b >= 0 ? Power(a, b) : Power(static_cast<double>(a), static_cast<double>(b));
  }
  return Overflow();
}

StatusOr<Value> OfFloats(BinaryOp op, double a, double b) {
  const bool divides =
      op == BinaryOp::kDivide || op == BinaryOp::kFloorDivide || op == BinaryOp::kModulo;
  if (divides && b == 0) return DivisionByZero();
  switch (op) {
    case BinaryOp::kAdd:
      return Value(a + b);
    case BinaryOp::kSubtract:
      return Value(a - b);
    case BinaryOp::kMultiply:
      return Value(a * b);
    case BinaryOp::kDivide:
      return Value(a / b);
    case BinaryOp::kFloorDivide:
      return Value(FloorDivide(a, b));
    case BinaryOp::kModulo:
      return Value(Modulo(a, b));
    case BinaryOp::kPower:
      break;
  }
  return Power(a, b);
}

bool IsSameKind(const Sequence& a, const Sequence& b) {
  return (a.kind == Sequence::Kind::kList) == (b.kind == Sequence::Kind::kList);
}

StatusOr<Value> NewLike(Runtime* runtime, const Sequence& model, std::vector<Value> items) {
  return model.kind == Sequence::Kind::kList ? runtime->NewList(std::move(items))
                                             : runtime->NewTuple(std::move(items));
}

StatusOr<Value> ConcatSequences(Runtime* runtime, const Sequence& a, const Sequence& b) {
  std::vector<Value> items;
  RETURN_IF_ERROR(runtime->budget().ChargeBytes(a.items.size() + b.items.size(), sizeof(Value)));
  items.reserve(a.items.size() + b.items.size());
  items.insert(items.end(), a.items.begin(), a.items.end());
  items.insert(items.end(), b.items.begin(), b.items.end());
  return NewLike(runtime, a, std::move(items));
}

Status NotConcatenable(const Value& a, const Value& b) {
  const std::string type = a.TypeName();
  if (type == "str" || type == "list" || type == "tuple") {
    return FailedPrecondition(
        StrCat("can only concatenate ", type, " (not \"", b.TypeName(), "\") to ", type));
  }
  return FailedPrecondition(
      StrCat("unsupported operand type(s) for +: '", type, "' and '", b.TypeName(), "'"));
}

StatusOr<Value> Add(Runtime* runtime, const Value& a, const Value& b) {
  if (const String* s = a.AsString(), *t = b.AsString(); s != nullptr && t != nullptr) {
    return runtime->NewString(s->text + t->text);
  }
  if (const Sequence* s = a.AsSequence(), *t = b.AsSequence();
      s != nullptr && t != nullptr && IsSameKind(*s, *t)) {
    return ConcatSequences(runtime, *s, *t);
  }
  return NotConcatenable(a, b);
}

StatusOr<Value> RepeatSequence(Runtime* runtime, const Sequence& sequence, int64_t times) {
  const size_t count = sequence.items.empty() || times < 0 ? 0 : static_cast<size_t>(times);
  RETURN_IF_ERROR(runtime->budget().ChargeBytes(count, sequence.items.size() * sizeof(Value)));
  std::vector<Value> items;
  items.reserve(count * sequence.items.size());
  for (size_t i = 0; i < count; ++i) {
    items.insert(items.end(), sequence.items.begin(), sequence.items.end());
  }
  return NewLike(runtime, sequence, std::move(items));
}

// Of a sequence with an integer, in either order.
StatusOr<Value> Multiply(Runtime* runtime, const Value& a, const Value& b) {
  int64_t times = 0;
  const Value& sequence = b.AsIntegral(&times) || !a.AsIntegral(&times) ? a : b;
  const Value& factor = &sequence == &a ? b : a;
  const bool is_sequence = sequence.AsString() != nullptr || sequence.AsSequence() != nullptr;
  if (is_sequence && !factor.AsIntegral(&times)) {
    return FailedPrecondition(
        StrCat("can't multiply sequence by non-int of type '", factor.TypeName(), "'"));
  }
  if (const String* s = sequence.AsString()) {
    ASSIGN_OR_RETURN(std::string text, Repeat(runtime, s->text, times));
    return runtime->NewString(std::move(text));
  }
  if (const Sequence* s = sequence.AsSequence()) return RepeatSequence(runtime, *s, times);
  return FailedPrecondition(
      StrCat("unsupported operand type(s) for *: '", a.TypeName(), "' and '", b.TypeName(), "'"));
}

}  // namespace

Status CheckDefined(const Value& a, const Value& b) {
  for (const Value* value : {&a, &b}) {
    if (value->is_undefined()) return FailedPrecondition(value->AsUndefined()->message);
  }
  return OkStatus();
}

StatusOr<std::string> Repeat(Runtime* runtime, std::string_view text, int64_t times) {
  std::string out;
  if (text.empty() || times <= 0) return out;
  RETURN_IF_ERROR(runtime->budget().ChargeBytes(static_cast<size_t>(times), text.size()));
  out.reserve(static_cast<size_t>(times) * text.size());
  for (int64_t i = 0; i < times; ++i) out += text;
  return out;
}

StatusOr<Value> Arithmetic(Runtime* runtime, BinaryOp op, const Value& a, const Value& b) {
  // "%s" % undefined prints nothing, as Python asks the string first.
  if (op == BinaryOp::kModulo && a.AsString() != nullptr) {
    ASSIGN_OR_RETURN(std::string text, PercentFormat(runtime, a.AsString()->text, b));
    return runtime->NewString(std::move(text));
  }
  RETURN_IF_ERROR(CheckDefined(a, b));
  int64_t i = 0;
  int64_t j = 0;
  if (a.AsIntegral(&i) && b.AsIntegral(&j)) return OfIntegers(op, i, j);
  double x = 0;
  double y = 0;
  if (a.AsNumber(&x) && b.AsNumber(&y)) return OfFloats(op, x, y);
  if (op == BinaryOp::kAdd) return Add(runtime, a, b);
  if (op == BinaryOp::kMultiply) return Multiply(runtime, a, b);
  return FailedPrecondition(StrCat("unsupported operand type(s) for ", Symbol(op), ": '",
                                   a.TypeName(), "' and '", b.TypeName(), "'"));
}

StatusOr<Value> Negative(const Value& value) {
  int64_t integer = 0;
  if (value.AsIntegral(&integer)) {
    if (integer == INT64_MIN) return Overflow();
    return Value(-integer);
  }
  if (const double* d = value.AsFloat()) return Value(-*d);
  RETURN_IF_ERROR(CheckDefined(value, value));
  return FailedPrecondition(StrCat("bad operand type for unary -: '", value.TypeName(), "'"));
}

StatusOr<Value> Positive(const Value& value) {
  int64_t integer = 0;
  if (value.AsIntegral(&integer)) return Value(integer);
  if (value.AsFloat() != nullptr) return value;
  RETURN_IF_ERROR(CheckDefined(value, value));
  return FailedPrecondition(StrCat("bad operand type for unary +: '", value.TypeName(), "'"));
}

StatusOr<Value> Absolute(const Value& value) {
  int64_t integer = 0;
  if (value.AsIntegral(&integer)) return integer < 0 ? Negative(value) : Value(integer);
  if (const double* d = value.AsFloat()) return Value(std::fabs(*d));
  RETURN_IF_ERROR(CheckDefined(value, value));
  return FailedPrecondition(StrCat("bad operand type for abs(): '", value.TypeName(), "'"));
}

StatusOr<int64_t> Truncate(double value) {
  if (std::isnan(value)) return FailedPrecondition("cannot convert float NaN to integer");
  constexpr double kTwoTo63 = 9223372036854775808.0;
  if (!(value >= -kTwoTo63 && value < kTwoTo63)) return Overflow();
  return static_cast<int64_t>(value);
}

}  // namespace aril::jinja
