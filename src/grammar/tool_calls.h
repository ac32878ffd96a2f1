// Text with calls of tools in it, as models write them, to a grammar: whoever calls a tool calls one
// that there is, with arguments that its schema allows.

#ifndef ARIL_GRAMMAR_TOOL_CALLS_H_
#define ARIL_GRAMMAR_TOOL_CALLS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "grammar/grammar.h"

namespace aril::grammar {

// How calls are written: `begin` NAME `middle` ARGUMENTS, any number of times `next` NAME `middle`
// ARGUMENTS, and `end`. A name has no quotes around it but those of `begin` and `middle`; arguments
// are a JSON object.
struct ToolCallSyntax {
  std::string begin;
  std::string middle;
  std::optional<std::string> next;  // none: one call is all
  std::string end;
  // What `begin` begins with, and tells calls from text wherever they come. Empty: nothing does, and
  // calls are only what the output begins with.
  std::string marker;

  bool operator==(const ToolCallSyntax&) const = default;
};

inline constexpr size_t kMaxTools = 128;
inline constexpr size_t kMaxToolNameBytes = 128;
// Of each text of a ToolCallSyntax.
inline constexpr size_t kMaxSyntaxBytes = 1024;

// 1 to kMaxToolNameBytes of a-z A-Z 0-9 _ - .
bool IsToolName(std::string_view name);
bool IsToolNameByte(char c);

struct ToolCallFormat {
  struct Tool {
    std::string name;
    Json parameters;  // the schema of its arguments; they are an object whatever it says
  };

  // In its texts kSpecialTokenMark stands before each special token.
  ToolCallSyntax syntax;
  std::vector<Tool> tools;
  bool is_required = false;  // the output is calls and nothing else
  // A JSON Schema: an output is either calls or JSON that it allows. It takes a marker to tell them
  // apart. Without, calls may come behind any text.
  std::optional<std::string> text_schema = std::nullopt;
};

// U+FFFF, which no text has: in the grammar it is kSpecialTokenByte (token_table.h).
inline constexpr std::string_view kSpecialTokenMark = "\xEF\xBF\xBF";

// Whether the arguments of calls can be kept to this schema: the errors of JsonSchemaGrammar, and
// InvalidArgument if it does not allow objects alone. Thread-safe.
Status CheckParameters(const Json& parameters);

// As the source of a wire::OutputFormat.
std::string ToSource(const ToolCallFormat& format);

// Tools whose arguments no finite text could be are never called. InvalidArgument says what is wrong
// or not supported, and of which tool; ResourceExhausted if it is too large. Thread-safe.
StatusOr<Grammar> ToolCallsGrammar(std::string_view source);

}  // namespace aril::grammar

#endif  // ARIL_GRAMMAR_TOOL_CALLS_H_
