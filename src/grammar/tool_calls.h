// Text with calls of tools in it, as models write them, to a grammar: whoever calls a tool calls
// one that there is, with arguments that its schema allows.

#ifndef ARIL_GRAMMAR_TOOL_CALLS_H_
#define ARIL_GRAMMAR_TOOL_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "grammar/argument_syntax.h"
#include "grammar/free_text.h"
#include "grammar/grammar.h"
#include "wire/output_format.h"

namespace aril::grammar {

// How calls are written: `begin` NAME `middle` ARGUMENTS, any number of times `next` NAME `middle`
// ARGUMENTS, and `end`. A name has no quotes around it but those of `begin` and `middle`; arguments
// are a JSON object, or one by one as `argument` says.
struct ToolCallSyntax {
  std::string begin;
  std::string middle;
  std::optional<std::string> next;  // none: one call is all
  std::string end;
  // What `begin` begins with, and no other text has in it. Empty: there is nothing of the kind, and
  // calls are only what the output begins with.
  std::string marker;
  std::optional<ArgumentSyntax> argument = std::nullopt;

  bool operator==(const ToolCallSyntax&) const = default;
};

// All of its texts but the marker, which is a part of `begin`.
std::vector<std::string> TextsOf(const ToolCallSyntax& syntax);

inline constexpr size_t kMaxTools = 128;
inline constexpr size_t kMaxToolNameBytes = 128;
// Of each text of a ToolCallSyntax.
inline constexpr size_t kMaxSyntaxBytes = 1024;

// Nothing, or else why no text could be read by it: `end` must not begin with `next`, for example.
// The marks of special tokens may be there or not.
Status CheckSyntax(const ToolCallSyntax& syntax);

// No JSON could be taken for calls.
bool IsUnlikeJson(const ToolCallSyntax& syntax);

// 1 to kMaxToolNameBytes of a-z A-Z 0-9 _ - .
bool IsToolName(std::string_view name);
bool IsToolNameByte(char c);

struct ToolCallFormat {
  struct Tool {
    std::string name;
    Json parameters;         // the schema of its arguments; they are an object whatever it says
    bool is_strict = false;  // for Loosen
  };

  // With the marks of special tokens.
  ToolCallSyntax syntax;
  std::vector<Tool> tools;
  bool is_required = false;  // the output is calls and nothing else
  // A JSON Schema: an output is either calls, which IsUnlikeJson, or JSON that it allows. Without,
  // calls may come behind any text.
  std::optional<Json> text_schema = std::nullopt;
};

// Lets tools whose schemas cannot be kept to take any object, and all of them if together they are
// too large; but none that are strict: InvalidArgument names the one, and what is wrong with its
// schema. What a schema says, besides constants, of an argument that may be a string and is written
// as it is, is kept to by nobody, and wrong if the tool is strict. Takes no longer than one
// grammar. Thread-safe.
Status Loosen(ToolCallFormat* format);
// Lets all tools that are not strict take any object. False if they did already. Thread-safe.
bool LoosenAll(ToolCallFormat* format);

// As the source of a wire::OutputFormat.
std::string ToSource(const ToolCallFormat& format);

// Tools whose arguments no finite text could be are never called. InvalidArgument says what is
// wrong or not supported, and of which tool; ResourceExhausted if it is too large. No text besides
// calls begins with the beginning of `reasoning`; and all do with its `answer`, if that is not
// empty, and have no calls behind them. Thread-safe.
StatusOr<Grammar> ToolCallsGrammar(std::string_view source, const wire::Reasoning& reasoning = {});

}  // namespace aril::grammar

#endif  // ARIL_GRAMMAR_TOOL_CALLS_H_
