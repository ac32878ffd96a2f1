// Integer arithmetic on sizes that come from files: the result, or nothing on overflow.

#ifndef ARIL_BASE_CHECKED_H_
#define ARIL_BASE_CHECKED_H_

#include <concepts>
#include <optional>

namespace aril {

template <std::integral T>
std::optional<T> CheckedAdd(T a, T b) {
  T result;
  if (__builtin_add_overflow(a, b, &result)) return std::nullopt;
  return result;
}

template <std::integral T>
std::optional<T> CheckedMul(T a, T b) {
  T result;
  if (__builtin_mul_overflow(a, b, &result)) return std::nullopt;
  return result;
}

template <std::integral T>
constexpr T CeilDiv(T a, T b) {
  return (a + b - 1) / b;
}

template <std::integral T>
constexpr T RoundUp(T a, T multiple) {
  return CeilDiv(a, multiple) * multiple;
}

}  // namespace aril

#endif  // ARIL_BASE_CHECKED_H_
