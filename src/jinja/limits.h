// What a template may cost.

#ifndef ARIL_JINJA_LIMITS_H_
#define ARIL_JINJA_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace aril::jinja {

// How deep brackets, and blocks, may nest in a source: the recursion of the parser. Python's gives
// up at some seventy parentheses.
inline constexpr int kMaxSyntaxNesting = 100;

// How deep the syntax tree of an expression may be, which a + b + c makes deeper with each operand:
// the recursion of evaluating and destroying it.
inline constexpr int kMaxSyntaxDepth = 200;

// How deep lists and dicts may contain each other: bounds the recursion of printing, comparing and
// destroying them. JSON that the gateway accepts is at most 64 deep.
inline constexpr int kMaxValueDepth = 200;

struct ParseLimits {
  size_t max_source_bytes = 1 << 20;
};

struct RenderLimits {
  // Of evaluated expressions, executed statements, iterations, and of 16-byte pieces searched or
  // compared; some 100 ns each.
  int64_t max_steps = 4'000'000;
  // Of all strings, lists and dicts that the render makes, freed ones included: the sum bounds the
  // memory, and the time that copying takes.
  int64_t max_bytes = 256 << 20;
  // Nested evaluations: macros that call themselves, loops that recurse.
  int max_depth = 500;
};

}  // namespace aril::jinja

#endif  // ARIL_JINJA_LIMITS_H_
