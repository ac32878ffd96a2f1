// The parts of JSON texts (RFC 8259) that schemas have in common: whitespace, strings, constants,
// and any value at all.

#ifndef ARIL_GRAMMAR_JSON_TEXT_H_
#define ARIL_GRAMMAR_JSON_TEXT_H_

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "grammar/code_points.h"
#include "grammar/grammar.h"

namespace aril::grammar {

// What is used again and again is a rule, which is added when it is first needed. Not thread-safe.
class JsonText {
 public:
  // `builder` outlives it.
  explicit JsonText(GrammarBuilder& builder) : builder_(builder) {}

  // Between two tokens: nothing, one space, or a new line and its indentation.
  NodeIdx Whitespace(NodeIdx next);
  // A comma, or an opening bracket, with the whitespace behind it; a closing one, with the
  // whitespace before it.
  NodeIdx Opening(char token, NodeIdx next);
  NodeIdx Closing(char token, NodeIdx next);
  // The name of a member, and the colon behind it.
  NodeIdx Name(std::string_view name, NodeIdx next);
  // Any name except for these.
  NodeIdx NameBesides(const std::vector<std::string>& names, NodeIdx next);

  // A string of `min` to `max` characters.
  NodeIdx String(int64_t min, std::optional<int64_t> max, NodeIdx next);
  // One of these characters inside a string: as itself, or escaped where it must be.
  NodeIdx Character(const std::vector<CodePointRange>& characters, NodeIdx next);
  // A string whose content matches a regular expression, somewhere if it `searches`.
  StatusOr<NodeIdx> StringLike(std::string_view expression, bool searches, NodeIdx next);

  // Any of these; none at all is nothing that a text passes.
  NodeIdx OneOf(const std::vector<const Json*>& values, NodeIdx next);
  NodeIdx AnyValue(NodeIdx next);

 private:
  NodeIdx Value(const Json& value, NodeIdx next);
  NodeIdx AnyCharacter(NodeIdx next);
  NodeIdx EscapedUnit(NodeIdx next);
  NodeIdx HexDigit(NodeIdx next);
  NodeIdx CharacterRule(const std::vector<CodePointRange>& characters);
  NodeIdx Literals(const std::vector<std::string>& texts, NodeIdx next);
  // Brackets around any number of parts with commas between them.
  NodeIdx List(char open, char close, const std::function<NodeIdx(NodeIdx)>& part, NodeIdx next);

  GrammarBuilder& builder_;
  std::optional<NodeIdx> whitespace_;
  std::optional<NodeIdx> any_character_;
  std::optional<NodeIdx> any_value_;
  std::map<std::vector<CodePointRange>, NodeIdx> characters_;
};

}  // namespace aril::grammar

#endif  // ARIL_GRAMMAR_JSON_TEXT_H_
