// The calls of tools in the text of a model, found as it comes.

#ifndef ARIL_GATEWAY_TOOL_CALL_PARSER_H_
#define ARIL_GATEWAY_TOOL_CALL_PARSER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/argument_reader.h"
#include "gateway/json_extent.h"
#include "grammar/tool_calls.h"

namespace aril::gateway {

// What became known of a call: its name, which comes first and at once, or more of its arguments.
struct ToolCallDelta {
  int64_t index = 0;  // of the call in its choice
  std::string name;   // empty: it has been told
  std::string arguments;
};

// What text says besides its calls, and these.
struct ToolText {
  std::string content;
  std::vector<ToolCallDelta> calls;
};

// Follows one text that the grammar of calls allows (grammar/tool_calls.h), which may be cut
// anywhere: a call that has begun is one. Whatever else comes harms nothing. Not thread-safe; all
// must outlive it.
class ToolCallParser {
 public:
  // `only_at_start`: the whole text is calls, or else does not begin like them.
  // `types`: of arguments that are written one by one; null: they may be anything.
  ToolCallParser(const grammar::ToolCallSyntax& syntax, bool only_at_start,
                 const ToolArgumentTypes* types = nullptr);

  // No more text is held back than could still belong to a call: its beginning, with the whitespace
  // before.
  ToolText Append(std::string_view text);
  // The content that was still held back. Of a call that was cut before its name was whole, nothing
  // is told. Call once, at the end.
  std::string Flush();

  // There are calls, and the arguments of the last one are whole: known once all is appended.
  bool has_whole_calls() const;

 private:
  enum class State : uint8_t {
    kText,   // that may hold a marker
    kBegin,  // of calls, or it was text after all
    kName,
    kArguments,
    kBehind,  // another call, or the end
    kRest,    // no more calls can come
  };

  // Takes what can be understood of held_; false if there is nothing to do before more comes.
  bool Step(ToolText* out);
  bool TakeText(ToolText* out);
  bool TakeBegin(ToolText* out);
  bool TakeName(ToolText* out);
  bool TakeArguments(ToolText* out);
  const grammar::ArgumentTypes& TypesOf(const std::string& tool) const;
  void AddArguments(const std::string& json, ToolText* out) const;
  bool TakeBehind();
  bool HoldsMarker() const;
  // From here on nothing is a call.
  bool ToRest();
  std::string TakeHeld(size_t size);

  const grammar::ToolCallSyntax& syntax_;
  const ToolArgumentTypes* const types_;
  const bool has_no_text_;  // that begins like calls and is none
  // A text begins with calls, or has none.
  const bool only_at_start_;
  State state_;
  std::string held_;
  size_t num_spaces_ = 0;  // held_ begins with, before a marker or what may become one
  int64_t num_calls_ = 0;
  // One of these follows the arguments.
  JsonExtent object_;
  std::optional<ArgumentReader> one_by_one_;
};

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_TOOL_CALL_PARSER_H_
