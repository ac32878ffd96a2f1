// What the output of a sequence must be, as text: all of it, but for reasoning before it.

#ifndef ARIL_WIRE_OUTPUT_FORMAT_H_
#define ARIL_WIRE_OUTPUT_FORMAT_H_

#include <cstdint>
#include <optional>
#include <string>

namespace aril::wire {

// What a model thinks before its answer: `begin`, any text but `end`, and `end`; special tokens in
// them as grammar/free_text.h has them.
struct Reasoning {
  std::string begin = {};  // empty: it has begun in the prompt
  std::string end = {};
  // What comes before an answer that is no call of a tool, with reasoning or without, and is no
  // part of it; empty: nothing.
  std::string answer = {};

  bool operator==(const Reasoning&) const = default;
};

struct OutputFormat {
  enum class Kind : uint8_t {
    kText,        // anything
    kJsonSchema,  // JSON that the JSON Schema `source` allows
    kRegex,       // what the regular expression `source` matches from end to end
    kToolCalls,   // text with calls of tools, as `source` says (grammar/tool_calls.h)
  };

  Kind kind = Kind::kText;
  std::string source = {};  // UTF-8, at most kMaxOutputFormatBytes (wire/limits.h)
  std::optional<Reasoning> reasoning = std::nullopt;  // it may come first; never of kText

  bool is_text() const { return kind == Kind::kText; }
  bool operator==(const OutputFormat&) const = default;
};

}  // namespace aril::wire

#endif  // ARIL_WIRE_OUTPUT_FORMAT_H_
