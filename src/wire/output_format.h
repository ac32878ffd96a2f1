// What the whole output of a sequence must be, as text.

#ifndef ARIL_WIRE_OUTPUT_FORMAT_H_
#define ARIL_WIRE_OUTPUT_FORMAT_H_

#include <cstdint>
#include <string>

namespace aril::wire {

struct OutputFormat {
  enum class Kind : uint8_t {
    kText,        // anything
    kJsonSchema,  // JSON that the JSON Schema `source` allows
    kRegex,       // what the regular expression `source` matches from end to end
    kToolCalls,   // text with calls of tools, as `source` says (grammar/tool_calls.h)
  };

  Kind kind = Kind::kText;
  std::string source = {};  // UTF-8, at most kMaxOutputFormatBytes (wire/limits.h)

  bool is_text() const { return kind == Kind::kText; }
  bool operator==(const OutputFormat&) const = default;
};

}  // namespace aril::wire

#endif  // ARIL_WIRE_OUTPUT_FORMAT_H_
